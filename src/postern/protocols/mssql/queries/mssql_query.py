"""Requests that the gateway sends as a client, and their responses. Without I/O.

A statement with values is a call of sp_executesql, so values are never part of its text. The response is one message:
the rows of all its results, in order, up to the first error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row, TargetRefused
from postern.protocols.mssql.queries.mssql_own_requests import NO_TRANSACTION, encode_batch, encode_statement
from postern.protocols.mssql.recorded.mssql_cells import shown_cell
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_token_reader import ResultRow, TokenReader

_TRANSACTIONS: Final = (k.ENV_BEGIN, k.ENV_COMMIT, k.ENV_ROLLBACK, k.ENV_TRANSACTION_ENDED)
MAX_TOKEN: Final = 16 << 20  # bytes; a row of a catalogue is far smaller


class MssqlExchange:
    """One request and its response: send `start()` to the target, then `feed` its response, until `finished`.

    `error` is the target's first error, or None; `transaction` the number of the transaction that is open then. The
    stream is ready for another request afterwards.
    """

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._buffer = b""
        self._reader = TokenReader(most=MAX_TOKEN)
        self._is_done = False
        self._is_cancelled = False
        self._is_acknowledged = False
        self.finished = False
        self.error: TargetRefused | None = None
        self.transaction = NO_TRANSACTION

    @property
    def needs(self) -> int:
        """Return the number of bytes that `feed` takes next: the rest of a packet, or of its header."""
        return self._packet_size() - len(self._buffer)

    def _packet_size(self) -> int:
        return int(p.packet_size(self._buffer, 0)) if len(self._buffer) >= p.HEAD else p.HEAD

    def start(self) -> bytes:
        """Return the message to send."""
        return self._message

    def cancel(self) -> bytes:
        """Return an attention to send. The response then ends with its acknowledgement, which can follow it."""
        self._is_cancelled = True
        return p.packet(p.ATTENTION, b"")

    def feed(self, data: bytes) -> list[Row]:
        """Return the rows that are complete now. Raises ProtocolViolation."""
        self._buffer += data
        rows: list[Row] = []
        while not self.finished and len(self._buffer) >= p.HEAD:
            size = self._packet_size()
            if self._buffer[0] != p.REPLY:
                raise ProtocolViolation("the target did not answer a query of the gateway")
            if len(self._buffer) < size:
                break
            status, payload = self._buffer[1], self._buffer[p.HEAD : size]
            self._buffer = self._buffer[size:]
            self._take(payload, rows)
            if status & p.EOM:
                self._end()
        return rows

    def _take(self, payload: bytes, rows: list[Row]) -> None:
        for token in self._reader.feed(payload):
            if isinstance(token, ResultRow):
                rows.append(tuple([shown_cell(column, cell) for column, cell in zip(*_cells(token), strict=True)]))
            elif isinstance(token, k.MessageToken) and token.code == k.ERROR and self.error is None:
                self.error = TargetRefused(token.text, f"HY000/{token.number}")
            elif isinstance(token, k.EnvironmentToken) and token.kind in _TRANSACTIONS:
                self.transaction = token.new if token.kind == k.ENV_BEGIN else NO_TRANSACTION
            elif isinstance(token, k.DoneToken):
                self._is_done = token.is_final
                self._is_acknowledged |= bool(token.status & k.DONE_ATTENTION)

    def _end(self) -> None:
        if self._reader.rest or not self._is_done:
            raise ProtocolViolation("the target's answer to a query of the gateway has no end")
        self.finished = self._is_acknowledged or not self._is_cancelled


class MssqlQuery(MssqlExchange):
    """One statement with values. Each `?` of the statement is a value, so its literals contain none."""

    def __init__(self, statement: str, values: Sequence[str | None] = ()) -> None:
        super().__init__(b"")
        self._statement = statement
        self._values = values

    def start(self) -> bytes:
        """Return the message to send. Raises ProtocolViolation if the number of values does not match."""
        try:
            return encode_statement(self._statement, self._values)
        except ValueError as error:
            raise ProtocolViolation(str(error)) from None


class MssqlBatch(MssqlExchange):
    """One batch, whose settings stay in the session."""

    def __init__(self, text: str, transaction: bytes = NO_TRANSACTION) -> None:
        super().__init__(encode_batch(text, transaction))


def _cells(row: ResultRow) -> tuple[Sequence[k.MssqlColumn], Sequence[bytes | None]]:
    return row.columns, row.cells
