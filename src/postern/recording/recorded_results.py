"""Results of a script as values, with their masks, from the records of its session.

The record before an output tells which parts of the output contain masked rows. Each part is decoded by itself, so that
its rows are known, wherever the reading began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from postern.domain.sessions.results import CUT, CellMasks, Finished, Mask, Problem, Result, ResultColumns, Row
from postern.domain.sessions.session import EndReason
from postern.errors import PosternError
from postern.interception.events import ClientOutput, Completed, Event, Mark, Masked, Note, Refusal
from postern.recording.recorder import OUTPUT_LIMIT_REACHED
from postern.recording.recording_rendering import Gap, describe_note


class ResultReader(Protocol):
    """Decoder of a script's output: turns wire bytes into values. One per reading."""

    def feed(self, data: bytes) -> list[Result]:
        """Decode the next bytes of the stream, cut anywhere; return what is complete."""
        ...


@runtime_checkable
class NamedColumns(ResultReader, Protocol):
    """A decoder whose columns are not those of the wire, which marks have the names of."""

    def find_columns(self, names: Sequence[str], *, whole: bool = False) -> tuple[int, ...]:
        """Return the columns of the current result, each once, that show the values of the wire's columns. `whole`:
        only those that show nothing else."""
        ...


class RecordedResults:
    """Reading of one session: `take` its records in order, then `rest`.

    After output that was cut at the recording's limit, or is damaged, it yields only how statements ended.
    """

    def __init__(self, reader: ResultReader | None) -> None:
        self._output = None if reader is None else _Output(reader)
        self._is_cut = False

    def take(self, event: Event | Gap) -> Iterator[Result]:
        if isinstance(event, Masked):
            if self._output is not None:
                self._output.expect(event)
        elif isinstance(event, ClientOutput):
            yield from self._read(event.data)
        elif isinstance(event, Note):
            yield from self._describe(event)
        elif isinstance(event, Gap):
            yield from self._stop(str(event))
            self._is_cut = True
        elif self._is_cut:
            yield from _end_of(event)

    def rest(self) -> Iterator[Result]:
        """Yield the columns of a result that has no rows, or none yet."""
        if self._output is not None:
            yield from self._output.rest()

    def _read(self, data: bytes) -> Iterator[Result]:
        if self._output is None:
            return
        try:
            yield from self._output.feed(data)
        except PosternError as error:
            yield from self._stop(f"the rest cannot be read as values: {error.message}")

    def _describe(self, note: Note) -> Iterator[Result]:
        is_cut = note.text == OUTPUT_LIMIT_REACHED
        if is_cut:
            yield from self.rest()
        self._is_cut = self._is_cut or is_cut
        if note.details.get("reason") != EndReason.FAILED:  # the error says this, with details
            text = describe_note(note).decode(errors="replace").strip()
            yield Problem(CUT if is_cut else "NOTE", text, fails=False)

    def _stop(self, reason: str) -> Iterator[Result]:
        yield from self.rest()
        self._output = None
        yield Problem(CUT, reason, fails=False)


class _Output:
    """Decoder of output, which adds the masks. It holds back the columns of a result until the first row is known."""

    def __init__(self, reader: ResultReader) -> None:
        self._reader = reader
        self._parts: list[Masked] = []
        self._columns: ResultColumns | None = None

    def expect(self, part: Masked) -> None:
        if part.rows:
            self._parts.append(part)

    def feed(self, data: bytes) -> Iterator[Result]:
        """Raises PosternError for bytes that cannot be decoded."""
        parts, self._parts = self._parts, []
        position = 0
        for part in parts:
            yield from self._release(self._reader.feed(data[position : part.at]))
            position = part.at + part.size
            results = self._reader.feed(data[part.at : position])
            numbered = _number_columns(part, self._reader)
            yield from self._release(_with_masks(results, numbered), numbered)
        yield from self._release(self._reader.feed(data[position:]))

    def rest(self) -> Iterator[Result]:
        columns, self._columns = self._columns, None
        if columns is not None:
            yield columns

    def _release(self, results: Iterable[Result], part: Masked | None = None) -> Iterator[Result]:
        for result in results:
            if isinstance(result, ResultColumns):
                yield from self.rest()
                self._columns = result
                continue
            is_aside = isinstance(result, Problem) and not result.fails
            if self._columns is not None and not is_aside:
                if part is not None:
                    self._columns = replace(self._columns, masks=_masks_of_columns(part, len(self._columns.names)))
                yield from self.rest()
            yield result


def _number_columns(part: Masked, reader: ResultReader) -> Masked:
    """Return the part with marks of the reader's columns."""
    if not isinstance(reader, NamedColumns) or not any(mark.names for mark in part.marks):
        return part
    marks: list[Mark] = []
    for mark in part.marks:
        columns = reader.find_columns(mark.names)
        whole = reader.find_columns(mark.names, whole=True) if mark.whole else ()
        some = tuple(column for column in columns if column not in whole)
        marks += [
            replace(mark, columns=found, whole=is_whole) for found, is_whole in ((whole, True), (some, False)) if found
        ]
    return replace(part, marks=marks)


def _masks_of_columns(part: Masked, width: int) -> tuple[Mask | None, ...]:
    """Return the masks of columns that rules mask as a whole."""
    masks: list[Mask | None] = [None] * width
    for mark in part.marks:
        for column in mark.columns if mark.whole else ():
            if column < width:
                masks[column] = mark.mask
    return tuple(masks) if any(masks) else ()


def _with_masks(results: Iterable[Result], part: Masked) -> Iterator[Result]:
    in_all_rows = [(column, mark.mask) for mark in part.marks if not mark.rows for column in mark.columns]
    in_one: dict[int, list[tuple[int, Mask]]] = {}
    for mark in part.marks:
        for row in _rows_of(mark.rows):
            in_one.setdefault(row, []).extend((column, mark.mask) for column in mark.columns)
    common: CellMasks = tuple(sorted(set(in_all_rows)))
    number = 0
    for result in results:
        if isinstance(result, Row):
            own = in_one.get(number)
            yield Row(result.cells, tuple(sorted({*in_all_rows, *own})) if own else common)
            number += 1
        else:
            yield result


def _rows_of(bits: bytes) -> Iterator[int]:
    """Yield the numbers of the bits that are set, lowest first."""
    for place, byte in enumerate(bits):
        for bit in range(8) if byte else ():
            if byte >> bit & 1:
                yield 8 * place + bit


def _end_of(event: object) -> Iterator[Result]:
    if isinstance(event, Refusal):
        yield Problem("ERROR", event.message)
    elif isinstance(event, Completed):
        yield Problem("ERROR", event.error, code=event.error_code) if event.error else Finished(event.tag)
