"""One statement with values, sent by the gateway as a client. Without I/O.

Values are binds, so they are never part of the text. Rows are fetched until there are no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from postern.protocols.gateway_queries import Row, TargetRefused
from postern.protocols.oracledb.queries.oracle_dialogue import OracleDialogue


class OracleQuery:
    """One query: send `start()` to the target, then `feed` its answers, and send what `request` returns, until
    `finished`.

    `error` is the target's error, or None. The stream is ready for another query afterwards. The statement has a
    `:NUMBER` for each value.
    """

    def __init__(self, statement: str, values: Sequence[str | None] = ()) -> None:
        self._dialogue = OracleDialogue()
        self._first = self._dialogue.execute(statement, values)
        self._must_fetch = False
        self.finished = False
        self.error: TargetRefused | None = None

    @property
    def needs(self) -> int:
        """Return the number of bytes that `feed` takes next."""
        return self._dialogue.needs

    def start(self) -> bytes:
        """Return the call to send."""
        return self._first

    def request(self) -> bytes:
        """Return the call that fetches more rows, once; empty while an answer is incomplete."""
        if not self._must_fetch:
            return b""
        self._must_fetch = False
        return self._dialogue.fetch()

    def feed(self, data: bytes) -> list[Row]:
        """Return the rows that are complete now. Raises ProtocolViolation."""
        rows = self._dialogue.feed(data)
        if not self._dialogue.answered:
            return rows
        failed = self._dialogue.error
        if failed is not None:
            self.error = TargetRefused(failed.error, failed.error_code)
        self._must_fetch = failed is None and self._dialogue.has_more
        self.finished = not self._must_fetch
        return rows
