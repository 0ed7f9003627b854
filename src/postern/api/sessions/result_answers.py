"""The results of a script as text, JSON or CSV: written in pieces, so that their size does not matter.

JSON is an array with one object for each statement: `columns`, `rows` of texts and nulls, `tag`, `notices`, `error`,
`truncated`. CSV is that of RFC 4180 with one header for each result, an empty line between two, NULL as nothing and an
empty text as `""`; statements without rows do not appear in it. This module reads recordings from disk, so it runs in a
thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from postern.domain.sessions.results import CUT, Finished, Problem, Result, ResultColumns, Row

_NOTICES = 100  # notices of one statement that are kept
_PIECE = 64 * 1024  # characters
_UNLIMITED = 1 << 62


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    CSV = "csv"


MEDIA = {
    Format.TEXT: "text/plain; charset=utf-8",
    Format.JSON: "application/json",
    Format.CSV: "text/csv; charset=utf-8",
}


class ResultWriter:
    """A writer of results, used once. `limit` is in bytes, and the output exceeds it by at most one row; once all is
    written, `truncated` says whether something is left out. `error` is the error among the results, if there is one."""

    def __init__(self, results: Iterable[Result], limit: int | None = None) -> None:
        self.truncated = False
        self.error: Problem | None = None
        self._results = self._watch_results(results)
        self._left = _UNLIMITED if limit is None else limit

    def json(self) -> Iterator[str]:
        return _pieces(self._json())

    def csv(self) -> Iterator[str]:
        return _pieces(self._csv())

    def finish(self) -> None:
        """Read the rest, to find an error in it."""
        for _ in self._results:
            pass

    def _watch_results(self, results: Iterable[Result]) -> Iterator[Result]:
        for result in results:
            if isinstance(result, Problem) and result.fails:
                self.error = result
            yield result

    def _fits(self, text: str) -> bool:
        """Return whether there is room; without room, everything that follows is left out, too."""
        self._left -= len(text.encode())
        if self._left < 0:
            self.truncated = True
        return not self.truncated

    def _json(self) -> Iterator[str]:
        answer = _Answer()
        yield "["
        for result in self._results:
            if isinstance(result, Problem) and not result.fails:
                answer.notice(result)
                answer.truncated = answer.truncated or result.severity == CUT
                continue
            if not answer.is_open:
                if self.truncated:
                    break
                names = result.names if isinstance(result, ResultColumns) else ()
                text = answer.begin(names)
                self._fits(text)
                yield text
            if isinstance(result, Row):
                text = answer.row(result)
                if not answer.truncated and self._fits(text):
                    yield text
                else:
                    answer.truncated = True
            elif not isinstance(result, ResultColumns):
                text = answer.end(result)
                self._fits(text)
                yield text
        if answer.is_open or (answer.notices and not self.truncated):
            yield ("" if answer.is_open else answer.begin(())) + answer.end(None)
        yield "]\n"

    def _csv(self) -> Iterator[str]:
        between = ""
        for result in self._results:
            if isinstance(result, ResultColumns):
                text = between + _csv_line(result.names)
                between = "\r\n"
            elif isinstance(result, Row):
                text = _csv_line(result.cells)
            else:
                continue
            if not self._fits(text):
                return
            yield text


class _Answer:
    """A writer of the JSON objects of statements, one after the other."""

    def __init__(self) -> None:
        self.is_open = False
        self.truncated = False
        self.notices: list[dict[str, Any]] = []
        self._before = ""
        self._separator = ""

    def notice(self, problem: Problem) -> None:
        if len(self.notices) < _NOTICES:
            self.notices.append(render_problem(problem))

    def begin(self, names: tuple[str, ...]) -> str:
        self.is_open, self.truncated, self._separator = True, False, ""
        text = f'{self._before}{{"columns": {_dumps(names)}, "rows": ['
        self._before = ",\n"
        return text

    def row(self, row: Row) -> str:
        text = self._separator + _dumps(row.cells)
        self._separator = ", "
        return text

    def end(self, result: Finished | Problem | None) -> str:
        """End it; None if the recording ends in the middle of it."""
        rest = {
            "tag": result.tag if isinstance(result, Finished) else None,
            "notices": self.notices,
            "error": render_problem(result) if isinstance(result, Problem) else None,
            "truncated": self.truncated or result is None,
        }
        self.is_open, self.notices = False, []
        return "], " + _dumps(rest)[1:]


def render_problem(problem: Problem) -> dict[str, Any]:
    """Return the error without its position, which has a field of its own."""
    return {name: value for name, value in asdict(problem).items() if name != "fails"}


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _csv_line(cells: Iterable[str | None]) -> str:
    return ",".join(["" if cell is None else _csv_cell(cell) for cell in cells]) + "\r\n"


def _csv_cell(cell: str) -> str:
    if cell and not any(mark in cell for mark in ',"\r\n'):
        return cell
    return '"' + cell.replace('"', '""') + '"'


def _pieces(texts: Iterator[str]) -> Iterator[str]:
    """Yield few and large pieces, since each costs a switch to a thread."""
    held: list[str] = []
    size = 0
    for text in texts:
        held.append(text)
        size += len(text)
        if size >= _PIECE:
            yield "".join(held)
            held, size = [], 0
    if held:
        yield "".join(held)
