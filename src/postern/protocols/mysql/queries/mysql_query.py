"""One statement with values, sent by the gateway as a client. Without I/O.

A COM_QUERY with text results. A value is written as a hexadecimal literal with the name of its encoding. It contains
only digits: no quotes, sql_mode or connection encoding can turn it into anything but a value.
"""

from __future__ import annotations

from collections.abc import Sequence

from postern.errors import ProtocolViolation
from postern.protocols.framing import Intake
from postern.protocols.gateway_queries import Row, TargetRefused
from postern.protocols.mysql.recorded.mysql_reading import Answers, Cells, StatementEnd, make_target_refused
from postern.protocols.mysql.wire import mysql_messages as m

MAX_PACKET = 16 << 20  # bytes; a row of a catalogue is far smaller


class MysqlQuery:
    """One query: send `start()` to the target, then `feed` its response, until `finished`.

    `error` is the target's error, or None. The stream is ready for another query afterwards. Each `?` of the statement
    is a value, so its literals contain none.
    """

    def __init__(self, statement: str, values: Sequence[str | None] = ()) -> None:
        self._statement = statement
        self._values = values
        self._intake = Intake()
        self._answers = Answers()
        self.finished = False
        self.error: TargetRefused | None = None

    @property
    def needs(self) -> int:
        """Return the number of bytes that `feed` takes next: the rest of a packet, or of its header."""
        return self._intake.lacking or m.HEAD - self._intake.waiting

    def start(self) -> bytes:
        """Return the packet to send. Raises ProtocolViolation if the number of values does not match."""
        parts = self._statement.split("?")
        if len(parts) != len(self._values) + 1:
            raise ProtocolViolation(f"a query has {len(parts) - 1} placeholders for {len(self._values)} values")
        text = parts[0] + "".join(literal(value) + part for value, part in zip(self._values, parts[1:], strict=True))
        return m.query(text.encode())

    def feed(self, data: bytes) -> list[Row]:
        """Return the rows that are complete now. Raises ProtocolViolation."""
        intake = self._intake
        intake.feed(data)
        rows: list[Row] = []
        while not self.finished and len(intake.buf) - intake.pos >= m.HEAD:
            buf, pos = intake.buf, intake.pos
            size = int.from_bytes(buf[pos : pos + 3], "little")
            if size == m.MAX_PAYLOAD:
                raise ProtocolViolation("the target sent a packet of 16 MiB for a catalogue query")
            if len(buf) - pos < m.HEAD + size:
                intake.wait(m.HEAD + size)
                break
            intake.pos = pos + m.HEAD + size
            self._take(buf[pos + m.HEAD : pos + m.HEAD + size], rows)
        return rows

    def _take(self, payload: bytes, rows: list[Row]) -> None:
        if not payload or (payload[0] == m.LOCAL_INFILE and self._answers.begins):
            raise ProtocolViolation("the target did not answer a catalogue query with rows")
        cells = self._answers.take(payload)
        if isinstance(cells, Cells):
            rows.append(tuple(None if cell is None else cell.decode("utf-8", "replace") for cell in cells.cells))
        elif isinstance(cells, m.Failed):
            self.error = make_target_refused(cells)
            self.finished = True
        elif isinstance(cells, StatementEnd):
            self.finished = not cells.more


def literal(value: str | None) -> str:
    """Return a value as a literal of SQL."""
    return "null" if value is None else f"_utf8mb4 x'{value.encode().hex()}'"
