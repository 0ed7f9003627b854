"""The results of a script as text, JSON or CSV: written in pieces, so that their size does not matter.

JSON is an array with one object for each statement: `columns`, `fields` (name, type and mask of each column), `rows` of
texts and nulls, `masked` (the masked cells), `tag`, `notices`, `error`, `truncated`. CSV is that of RFC 4180 with one
header for each result, an empty line between two, NULL as nothing and an empty text as `""`; statements without rows do
not appear in it. This module reads recordings from disk, so it runs in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from postern.api.sessions.recording_files import is_formula
from postern.api.sessions.result_masks import MAX_RUNS, MaskedCells, MaskSummary
from postern.domain.sessions.results import CUT, Finished, Problem, Result, ResultColumns, Row

_NOTE = "[note] "  # begins what the gateway noted, as opposed to what the target said
MAX_NOTICES = 100  # of one statement
_PIECE = 64 * 1024  # characters
_UNLIMITED = 1 << 62
_NO_COLUMNS = ResultColumns(())
_BYTES_PER_RUN = 64  # of output for each run of masked cells, so that the limit also bounds these


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    CSV = "csv"


class ResultFormat(StrEnum):
    """A form of results that are read by themselves."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    NDJSON = "ndjson"


MEDIA = {
    ResultFormat.TEXT: "text/plain; charset=utf-8",
    ResultFormat.JSON: "application/json",
    ResultFormat.CSV: "text/csv; charset=utf-8",
    ResultFormat.NDJSON: "application/x-ndjson",
}


class ResultWriter:
    """A writer of results, used once. `limit` is in bytes, and the output exceeds it by at most one row; once all is
    written, `truncated` says whether something is left out. `error` is the error among the results, if there is one,
    `note` the last note of the gateway, and `masked` tells what was masked in those that were read."""

    def __init__(self, results: Iterable[Result], limit: int | None = None) -> None:
        self.truncated = False
        self.error: Problem | None = None
        self.note = ""
        self.masked = MaskSummary()
        self._most_runs = MAX_RUNS if limit is None else min(MAX_RUNS, limit // _BYTES_PER_RUN)
        self._results = self._watch_results(results)
        self._left = _UNLIMITED if limit is None else limit

    def json(self) -> Iterator[str]:
        return join_pieces(self._json())

    def csv(self, *, safe: bool = False) -> Iterator[str]:
        """Yield lines of CSV. `safe` puts an apostrophe before each field that a spreadsheet would evaluate."""
        return join_pieces(self._csv(_safe_cell if safe else _csv_cell))

    def read(self, limit: int) -> None:
        """Read results without writing them, until their texts have `limit` characters, for `masked`."""
        for result in self._results:
            if isinstance(result, Row):
                limit -= sum([len(cell) for cell in result.cells if cell is not None])
            if limit < 0:
                return

    def finish(self) -> None:
        """Read the rest, to find an error in it."""
        for _ in self._results:
            pass

    def _watch_results(self, results: Iterable[Result]) -> Iterator[Result]:
        for result in results:
            if isinstance(result, Problem):
                if result.fails:
                    self.error = result
                elif result.text.startswith(_NOTE):
                    self.note = result.text.removeprefix(_NOTE)
            self.masked.add(result)
            yield result

    def _fits(self, text: str) -> bool:
        """Return whether there is room; without room, everything that follows is left out, too."""
        self._left -= len(text.encode())
        if self._left < 0:
            self.truncated = True
        return not self.truncated

    def _json(self) -> Iterator[str]:
        answer = _Answer(self._most_runs)
        yield "["
        for result in self._results:
            if isinstance(result, Problem) and not result.fails:
                answer.notice(result)
                answer.truncated = answer.truncated or result.severity == CUT
                continue
            if not answer.is_open:
                if self.truncated:
                    break
                text = answer.begin(result if isinstance(result, ResultColumns) else _NO_COLUMNS)
                self._fits(text)
                yield text
            if isinstance(result, Row):
                text = answer.row(result)
                if not answer.truncated and self._fits(text):
                    answer.count_row(result)
                    yield text
                else:
                    answer.truncated = True
            elif not isinstance(result, ResultColumns):
                text = answer.end(result)
                self._fits(text)
                yield text
        if answer.is_open or (answer.notices and not self.truncated):
            yield ("" if answer.is_open else answer.begin(_NO_COLUMNS)) + answer.end(None)
        yield "]\n"

    def _csv(self, cell: Callable[[str], str]) -> Iterator[str]:
        between = ""
        for result in self._results:
            if isinstance(result, ResultColumns):
                text = between + _csv_line(result.names, cell)
                between = "\r\n"
            elif isinstance(result, Row):
                text = _csv_line(result.cells, cell)
            else:
                continue
            if not self._fits(text):
                return
            yield text


class _Answer:
    """A writer of the JSON objects of statements, one after the other."""

    def __init__(self, most_runs: int) -> None:
        self.is_open = False
        self.truncated = False
        self._most_runs = most_runs
        self._masked = MaskedCells(most_runs)
        self._rows = 0
        self.notices: list[dict[str, Any]] = []
        self._before = ""
        self._separator = ""

    def notice(self, problem: Problem) -> None:
        if len(self.notices) < MAX_NOTICES:
            self.notices.append(render_problem(problem))

    def begin(self, columns: ResultColumns) -> str:
        self.is_open, self.truncated, self._separator = True, False, ""
        self._masked, self._rows = MaskedCells(self._most_runs), 0
        text = (
            f'{self._before}{{"columns": {_dumps(columns.names)}, "fields": {_dumps(render_fields(columns))}, "rows": ['
        )
        self._before = ",\n"
        return text

    def row(self, row: Row) -> str:
        text = self._separator + _dumps(row.cells)
        self._separator = ", "
        return text

    def count_row(self, row: Row) -> None:
        """Count a row that is written, and its masks."""
        self._masked.add(self._rows, row.masks)
        self._rows += 1

    def end(self, result: Finished | Problem | None) -> str:
        """End it; None if the recording ends in the middle of it."""
        rest = {
            "masked": self._masked.finish(self._rows),
            "tag": result.tag if isinstance(result, Finished) else None,
            "notices": self.notices,
            "error": render_problem(result) if isinstance(result, Problem) else None,
            "truncated": self.truncated or result is None,
        }
        self.is_open, self.notices = False, []
        return "], " + _dumps(rest)[1:]


def render_fields(columns: ResultColumns) -> list[dict[str, Any]]:
    """Return the name, type and mask of each column. Only a rule about columns masks one as a whole."""
    nothing = (None,) * len(columns.names)
    return [
        {
            "name": name,
            "type": type_name,
            "masked": None if mask is None else {"rule": mask.rule or None, "strategy": mask.strategy},
        }
        for name, type_name, mask in zip(columns.names, columns.types or nothing, columns.masks or nothing, strict=True)
    ]


def render_problem(problem: Problem) -> dict[str, Any]:
    """Return the error without its position, which has a field of its own."""
    return {name: value for name, value in asdict(problem).items() if name != "fails"}


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _csv_line(cells: Iterable[str | None], write: Callable[[str], str]) -> str:
    return ",".join(["" if cell is None else write(cell) for cell in cells]) + "\r\n"


def _csv_cell(cell: str) -> str:
    if cell and not any(mark in cell for mark in ',"\r\n'):
        return cell
    return '"' + cell.replace('"', '""') + '"'


def _safe_cell(cell: str) -> str:
    """The database's user, who wrote the value, must not run formulas on the reader's machine."""
    return _csv_cell(f"'{cell}" if is_formula(cell.encode()) else cell)


def join_pieces(texts: Iterator[str]) -> Iterator[str]:
    """Yield few and large pieces, since each costs a switch to a thread."""
    pending: list[str] = []
    size = 0
    for text in texts:
        pending.append(text)
        size += len(text)
        if size >= _PIECE:
            yield "".join(pending)
            pending, size = [], 0
    if pending:
        yield "".join(pending)
