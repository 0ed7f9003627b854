"""Documents of JSON as texts, with marks of the cells that rules have changed."""

from __future__ import annotations

import json
from typing import Final

from postern.interception.events import Mark, TextKind
from postern.protocols.httpproxy.body_events import BodyPart, Finish, event_data
from postern.protocols.httpproxy.json_rows import JsonError, JsonWalker, find_changed_cells

_MOST_COMPARED: Final = 256 * 1024  # bytes of a document whose changed cells are looked for


class JsonPart(BodyPart):
    """A document, or some members of one."""

    def __init__(self, exchange: int, data: bytes, frames_of: Finish) -> None:
        super().__init__(exchange, data, frames_of)
        self._original = data

    @property
    def rows(self) -> int:
        """Return the number of elements of an array that came as a whole."""
        if not self._data.lstrip().startswith(b"["):
            return 0
        try:
            value = json.loads(self._data)
        except (ValueError, RecursionError):
            return 0
        return len(value) if isinstance(value, list) else 0

    @property
    def text_kind(self) -> TextKind:
        return TextKind.JSON

    @property
    def _is_lines(self) -> bool:
        return False

    def place_marks(self, marks: list[Mark]) -> tuple[int, list[Mark]]:
        """Return the rows of the document, and marks of the cells in which a value was changed."""
        if self._data is self._original or len(self._data) > _MOST_COMPARED:
            return 0, marks.copy()
        try:
            old, new = JsonWalker(), JsonWalker()
            before, after = old.walk(self._original), new.walk(self._data)
        except JsonError:
            return 0, marks.copy()
        starts = new.document_starts if self._is_lines else new.element_starts
        cells = find_changed_cells(before, after, starts)
        if not cells:
            return 0, marks.copy()
        masks = dict.fromkeys([mark.mask for mark in marks])
        names = [column.name for column in after.columns]
        placed = [
            Mark(mask, columns, rows, names=tuple([names[column] for column in columns]))
            for mask in masks
            for rows, columns in cells
        ]
        return max(len(starts), 1), placed


class JsonLines(JsonPart):
    """Documents, one on each line."""

    def __init__(self, exchange: int, data: bytes, frames_of: Finish) -> None:
        super().__init__(exchange, data, frames_of)
        self._lines = data.split(b"\n")

    @property
    def _is_lines(self) -> bool:
        return True

    @property
    def rows(self) -> int:
        return sum([bool(line.strip()) for line in self._lines])

    def texts(self) -> list[bytes]:
        return [line.strip(b"\x1e\r") for line in self._lines]

    def replace_rendered_texts(self, texts: list[bytes]) -> None:
        super().replace_rendered_texts(texts)
        self._lines = self._data.split(b"\n")

    def replace(self, texts: list[bytes]) -> None:
        for place, (line, text) in enumerate(zip(self._lines, texts, strict=True)):
            prefix = b"\x1e" if line.startswith(b"\x1e") else b""
            self._lines[place] = prefix + text + (b"\r" if line.endswith(b"\r") else b"")
        self._data = b"\n".join(self._lines)


class DataOfEvent(JsonPart):
    """The data of one event. It ends the event."""

    def encode(self) -> bytes:
        return self._frames_of(event_data(self._data))
