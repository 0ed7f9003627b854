"""Calls of the gateway's own and their answers, which a wire of its own reads as it reads those of clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Completed
from postern.protocols.gateway_queries import Row
from postern.protocols.oracledb.queries.oracle_own_calls import encode_execute, encode_fetch, encode_function
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_rows import OracleRows
from postern.protocols.oracledb.wire.oracle_wire import OracleWire
from postern.protocols.oracledb.wire.ttc_calls import OracleCall
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

MAX_ANSWER: Final = 64 << 20


class OracleDialogue:
    """One call at a time: `send` one of them, then `feed` its answer until `answered`. `error` is that of the answer.
    Markers interrupt nothing here, so a target that sends one is not understood."""

    def __init__(self) -> None:
        self._wire = OracleWire(layout=TtcLayout(), max_message=MAX_ANSWER)
        self._wire.wants.rows = True
        self._call: OracleCall | None = None
        self._sequence = 0
        self._buffer = b""
        self.answered = True
        self.error: Completed | None = None

    @property
    def needs(self) -> int:
        """Return the number of bytes to feed next: the rest of a packet, or of its header."""
        if len(self._buffer) < tns.HEAD:
            return tns.HEAD - len(self._buffer)
        return self._packet_size() - len(self._buffer)

    def _packet_size(self) -> int:
        return int(tns.read_size(self._buffer, 0, True, tns.MAX_SDU, "target"))

    @property
    def has_more(self) -> bool:
        """Return whether the last statement has more rows than those that came."""
        return self._wire.has_more_rows

    @property
    def in_transaction(self) -> bool:
        return self._wire.transaction_state.in_transaction

    def execute(self, text: str, values: Sequence[str | None] = ()) -> bytes:
        """Return the bytes that run a statement."""
        return self._send(encode_execute(text, values, self._next()))

    def fetch(self) -> bytes:
        """Return the bytes that fetch more rows of the last statement."""
        assert self._call is not None
        assert self._call.statement is not None
        return self._send(encode_fetch(self._call.statement.number, self._next()), keeps_call=True)

    def commit(self) -> bytes:
        return self._send(encode_function(c.COMMIT, self._next()))

    def log_off(self) -> bytes:
        return self._send(encode_function(c.LOGOFF, self._next()))

    def _next(self) -> int:
        self._sequence = self._sequence % 255 + 1
        return self._sequence

    def _send(self, data: bytes, *, keeps_call: bool = False) -> bytes:
        self._wire.feed_client(data)
        sent = self._wire.poll_client()
        while isinstance(sent, Completed):  # of the query before, whose rows were not all read
            sent = self._wire.poll_client()
        if isinstance(sent, OracleCall):
            self._call = self._call if keeps_call else sent
            sent = self._wire.forward(sent)
        if sent is None:
            raise ProtocolViolation("a call of the gateway's own is not complete")
        self.answered = False
        self.error = None
        return sent

    def feed(self, data: bytes) -> list[Row]:
        """Return the rows that are complete now. Raises ProtocolViolation."""
        self._buffer += data
        rows: list[Row] = []
        while len(self._buffer) >= tns.HEAD and len(self._buffer) >= (size := self._packet_size()):
            packet, self._buffer = self._buffer[:size], self._buffer[size:]
            if packet[4] == tns.MARKER:
                raise ProtocolViolation("the target interrupted a query of the gateway")
            self._wire.feed_target(packet)
            self._read(rows)
        return rows

    def _read(self, rows: list[Row]) -> None:
        while pieces := self._wire.poll_target():
            for piece in pieces:
                if isinstance(piece, OracleRows):
                    rows += _rows(piece)
                elif isinstance(piece, Completed) and piece.error_code:
                    self.error = piece
        self.answered = not self._wire.awaiting_response


def _rows(rows: OracleRows) -> list[Row]:
    columns = [rows.cell_texts(place) for place in range(len(rows.columns))]
    return [
        tuple([None if cell is None else cell.decode("utf-8", "replace") for cell in row])
        for row in zip(*columns, strict=True)
    ]
