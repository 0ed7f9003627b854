"""Ends of answers, and results that stay open after one.

A client reads a large result by several calls, and large objects and cursors by further ones. All of these are one
exchange, which is complete once nothing is left to read, or once the client does something else.
"""

from __future__ import annotations

from postern.interception.events import MAX_ROWS, Completed, Paused
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_answers import OraclePendingAnswer
from postern.protocols.oracledb.wire.oracle_output import OracleErrorText


class OpenResult:
    """A result that the client can read on, all of which is one exchange. `stays`: it has large objects or cursors, so
    it stays open until the client does something else."""

    __slots__ = ("exchange", "rows", "stays", "tag")

    def __init__(self, exchange: int, tag: str) -> None:
        self.exchange = exchange
        self.tag = tag
        self.rows: int | None = None
        self.stays = False

    def complete(self) -> Completed:
        return Completed(self.exchange, self.tag, self.rows)


class OpenResults:
    """The open result of a session, if there is one."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: OpenResult | None = None

    def is_open(self, exchange: int) -> bool:
        """Return whether the open result is of this exchange."""
        return self._open is not None and self._open.exchange == exchange

    def end(self, answer: OraclePendingAnswer, reported: int, *, has_more: bool) -> Completed | Paused:
        """Return the end of an answer without an error. A result that the client can read on is not complete yet.
        `reported` is the number of rows that the target reports."""
        call = answer.call
        result = self._open
        if result is None or not call.continues:
            result = OpenResult(answer.exchange, answer.tag)
        rows = _rows_of(answer, reported)
        if rows is not None:
            result.rows = rows + (result.rows or 0)
        result.stays = result.stays or answer.stays_open
        runs = call.continues or call.function != c.EXECUTE or bool(call.options & c.OPTION_EXECUTE)
        if (has_more and runs) or result.stays:
            self._open = result
            return Paused(answer.exchange)
        self._open = None
        return result.complete()

    def fail(self, answer: OraclePendingAnswer, error: OracleErrorText) -> Completed:
        """Return the end of an answer with an error, and of the result that it continues."""
        result = self._open
        if not answer.call.continues or result is None:
            return error.make_completed_event(answer.tag)
        self._open = None
        return error.make_completed_event(result.tag)

    def drop(self, answer: OraclePendingAnswer) -> None:
        """The rest of an answer is discarded, and so is the result that it continues."""
        if answer.call.continues:
            self._open = None

    def close(self) -> Completed | None:
        """Return the end of the open result: the client does something else."""
        result, self._open = self._open, None
        return None if result is None else result.complete()


def _rows_of(answer: OraclePendingAnswer, reported: int) -> int | None:
    if answer.fetches:
        return answer.rows
    return min(reported, MAX_ROWS) if answer.call.executes else None
