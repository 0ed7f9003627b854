"""Reading recorded frames as tables: a row for each object of an array, or for each line of a text.

A table comes with the last byte of its body where that is known: masked cells are about these bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.protocols.http.content.content_types import BodyKind
from postern.protocols.http.content.json_names import DATA_NAME, KEYS, is_data
from postern.protocols.http.recorded.recorded_responses import (
    RecordedPart,
    RecordedResponse,
    RecordedResponses,
    status_line,
)

MAX_COLUMNS: Final = 1000
BODY: Final = "body"
OTHER_FIELDS: Final = "(other fields)"
_LONGEST: Final = 32 << 20  # bytes of a body that is read as a table
_FAILS: Final = 400
_QUOTED: Final = 2000  # characters of an error's body


class HttpResults:
    """Reader of results: `feed` takes the recorded stream in chunks of any size. A reader with `NamedColumns`."""

    def __init__(self) -> None:
        self._responses = RecordedResponses()
        self._names: tuple[str, ...] = ()  # of the current table

    def find_columns(self, names: Sequence[str], *, whole: bool = False) -> tuple[int, ...]:
        """Return the columns of the current table that show these paths, each once. `whole`: only those of fields that
        a path names, and not one of their parts."""
        found: dict[int, None] = {}
        for name in names:
            field, _, inner = name.partition(".")
            if not (whole and inner):
                found |= dict.fromkeys(self._find_field(field))
        return tuple(found)

    def _find_field(self, field: str) -> list[int]:
        """Return the columns of a field. Fields whose names are data share one path."""
        columns = self._names
        if columns == (BODY,):
            return [0]
        if field in (DATA_NAME, KEYS):
            return [number for number, name in enumerate(columns) if is_data(name) or name == OTHER_FIELDS]
        return [columns.index(each) for each in (field, OTHER_FIELDS) if each in columns][:1]

    def feed(self, data: bytes) -> list[Result]:
        """Return the results that are complete now. Raises ProtocolViolation for bytes that are no frames."""
        results: list[Result] = []
        for part in self._responses.feed(data):
            self._read(part, results)
        return results

    def _read(self, part: RecordedPart, results: list[Result]) -> None:
        response = part.response
        if part.failure is not None:
            results.append(Problem("ERROR", part.failure.message, code=part.failure.code))
            return
        if not part.ends:
            if part.text and response.body.size <= _LONGEST:
                response.parts.append(part.text)
                results += self._read_complete(response)
            return
        text = b"".join(response.parts).decode("utf-8", "replace")
        response.parts.clear()
        note = part.text.decode()
        if response.head is not None and response.head.status >= _FAILS:
            message = text.strip()[:_QUOTED] or note or status_line(response.head)
            results.append(Problem("ERROR", message, code=str(response.head.status)))
            return
        if note:
            results.append(Problem("NOTE", note.strip("[]"), fails=False))
        elif response.body.size > _LONGEST:
            results.append(Problem("NOTE", f"a body of {response.body.size} bytes is not read", fails=False))
        elif text:
            results += self._table(response, text)
        results.append(Finished("" if response.head is None else status_line(response.head)))

    def _read_complete(self, response: RecordedResponse) -> list[Result]:
        """Return the table of a body of JSON whose last byte was read."""
        head, kind = response.head, response.body.type.kind
        if head is None or head.status >= _FAILS or kind not in (BodyKind.JSON, BodyKind.JSON_LINES):
            return []
        if head.length is not None:
            is_complete = response.body.size >= head.length
        else:  # a document that is complete at a line end, as it was judged
            is_complete = kind is BodyKind.JSON and response.parts[-1].endswith((b"\n", b"\x1e"))
        if not is_complete:
            return []
        text = b"".join(response.parts).decode("utf-8", "replace")
        if _documents(kind, text) is None:
            return []
        response.parts.clear()
        return self._table(response, text)

    def _table(self, response: RecordedResponse, text: str) -> list[Result]:
        documents = _documents(response.body.type.kind, text)
        if documents is None:
            results: list[Result] = [ResultColumns((BODY,)), *[Row((line,)) for line in text.splitlines()]]
        elif not documents or not all(isinstance(document, dict) for document in documents):
            results = [ResultColumns((BODY,)), *[Row((_cell(document),)) for document in documents]]
        else:
            results = _rows_of(documents)
        columns = results[0]
        assert isinstance(columns, ResultColumns)
        self._names = columns.names
        return results


def _documents(kind: BodyKind, text: str) -> list[Any] | None:
    """Return the values of a JSON body that become rows; None for a text."""
    try:
        if kind is BodyKind.JSON_LINES:
            return [json.loads(line.strip("\x1e")) for line in text.splitlines() if line.strip("\x1e \t")]
        if kind is BodyKind.JSON or text.lstrip()[:1] in ("{", "["):
            value = json.loads(text)
            return value if isinstance(value, list) else [value]
    except (ValueError, RecursionError):
        return None
    return None


def _rows_of(documents: Sequence[dict[str, Any]]) -> list[Result]:
    names = list(dict.fromkeys(name for document in documents for name in document))
    shown, others = names[:MAX_COLUMNS], frozenset(names[MAX_COLUMNS:])
    columns = (*shown, OTHER_FIELDS) if others else tuple(shown)
    results: list[Result] = [ResultColumns(columns)]
    for document in documents:
        cells = [_cell(document[name]) if name in document else None for name in shown]
        if others:
            rest = {name: value for name, value in document.items() if name in others}
            cells.append(_cell(rest) if rest else None)
        results.append(Row(tuple(cells)))
    return results


def _cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
