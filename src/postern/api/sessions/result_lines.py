"""Results of a script as lines of JSON, while they come.

    columns   a result begins: `columns` and `fields`
    rows      at most 1,000 rows, and at most one more than 64 KiB of them: `row` is the number of the first in its
              result, `masked` are the masked cells
    notice    of the statement
    done      the statement has ended; `tag` says what it did
    error     the statement has failed
    waiting   nothing is new; sent every 15 seconds
    end       the session has ended: the last line
    cut       the stream has ended before the session, for this `reason`: the last line

`result` counts statements from 0. `next_row` counts the rows of all results: a request with it as `from_row` gets
the rows after these. All other lines come again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import Request

from postern.api.sessions.following import LOOK_SELDOM, RecordingFollower
from postern.api.sessions.result_answers import MAX_NOTICES, render_fields, render_problem
from postern.api.sessions.result_masks import MaskedCells
from postern.domain.identity.principal import Principal
from postern.domain.sessions.results import CellMasks, Finished, Problem, Result, ResultColumns, Row
from postern.domain.sessions.session import Session
from postern.services.bundle import Services

MAX_ROWS = 1_000  # of a line
MAX_BYTES = 64 * 1024
LOOK_SOON = 0.005  # seconds, at first: most scripts are short, and users see the first row at once
LOOK_LATER = 0.03  # once a script was quiet for a second; one that is quiet for longer is looked at less often
_ALL = 1 << 62  # runs of masked cells: a line has at most as many as cells


class ResultLines:
    """A writer of lines: `write` results in order, and `flush` what waits for further rows. Rows before `from_row` are
    left out."""

    def __init__(self, from_row: int = 0) -> None:
        self._from_row = from_row
        self._result = 0
        self._notices = 0
        self._row = 0  # of the result
        self._all_rows = 0
        self._rows: list[str] = []
        self._masks: list[CellMasks] = []
        self._size = 0

    def write(self, results: Iterable[Result]) -> Iterator[str]:
        for result in results:
            if isinstance(result, Row):
                yield from self._add(result)
                continue
            yield from self.flush()
            if isinstance(result, ResultColumns):
                yield self._line("columns", columns=result.names, fields=render_fields(result))
            elif isinstance(result, Problem) and not result.fails:
                yield from self._notice(result)
            else:
                yield self._end(result)

    def flush(self) -> Iterator[str]:
        if self._rows:
            first = self._row - len(self._rows)
            masked = MaskedCells(_ALL)
            for number, masks in enumerate(self._masks, first):
                masked.add(number, masks)
            head = self._line(
                "rows", row=first, next_row=self._all_rows, masked=_without_bound(masked.finish(self._row))
            )
            yield f'{head[:-2]}, "rows": [{", ".join(self._rows)}]}}\n'
            self._rows, self._masks, self._size = [], [], 0

    def _add(self, row: Row) -> Iterator[str]:
        self._row += 1
        self._all_rows += 1
        if self._all_rows <= self._from_row:
            return
        text = _dumps(row.cells)
        self._rows.append(text)
        self._masks.append(row.masks)
        self._size += len(text)
        if len(self._rows) >= MAX_ROWS or self._size >= MAX_BYTES:
            yield from self.flush()

    def _notice(self, problem: Problem) -> Iterator[str]:
        self._notices += 1
        if self._notices <= MAX_NOTICES:
            yield self._line("notice", **render_problem(problem))

    def _end(self, result: Finished | Problem) -> str:
        if isinstance(result, Finished):
            line = self._line("done", tag=result.tag)
        else:
            line = self._line("error", **render_problem(result))
        self._result += 1
        self._row = self._notices = 0
        return line

    def _line(self, kind: str, **values: Any) -> str:
        return _dumps({"type": kind, "result": self._result, **values}) + "\n"


class ResultFollower(RecordingFollower):
    """Follows the results of a script from its review to its end."""

    keep_alive = '{"type": "waiting"}\n'

    def __init__(self, request: Request, services: Services, session: Session, from_row: int) -> None:
        super().__init__(request, services, session, services.sessions.recordings.result_tail(session))
        self._lines = ResultLines(from_row)

    async def fetch(self, caller: Principal) -> Session:
        return await self.services.sessions.script(caller, self.session.id)

    def read(self) -> str:
        results = self.tail.read(settled=self.is_done)
        return "".join([*self._lines.write(results), *self._lines.flush()])

    def pause(self, quiet: float) -> float:
        return min(LOOK_SELDOM, max(LOOK_SOON, quiet / 100, min(LOOK_LATER, quiet / 30)))

    def end(self) -> str:
        return end_line(self.session)

    def cut(self, reason: str) -> str:
        return _dumps({"type": "cut", "reason": reason}) + "\n"


def end_line(session: Session) -> str:
    end = {
        "type": "end",
        "exit_code": session.exit_code,
        "reason": session.metadata.get("end_reason"),
        "detail": session.metadata.get("end_detail"),
        "truncated": bool(session.metrics.get("truncated")),
    }
    return _dumps(end) + "\n"


def _without_bound(masked: dict[str, Any]) -> dict[str, Any]:
    """Leave out where the cells end, as none are missing."""
    return {name: value for name, value in masked.items() if name != "incomplete_from"}


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
