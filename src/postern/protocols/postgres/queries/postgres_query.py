"""One statement with bind values, sent by the gateway as a client. Without I/O.

Chapter "Extended Query" of the manual: Parse, Bind, Describe, Execute and Sync in one write. Values and results are in
text format, so that no value is ever part of the statement.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from postern.errors import ProtocolViolation
from postern.protocols.framing import Intake
from postern.protocols.gateway_queries import Row, TargetRefused
from postern.protocols.postgres.wire import postgres_messages as m

MAX_MESSAGE = 16 << 20  # bytes; a row of a catalogue is far smaller
_HEADER = 5


class PostgresQuery:
    """One query: send `start()` to the target, then `feed` its response, until `finished`.

    `error` is the target's error, or None. The stream is ready for another query afterwards.
    """

    def __init__(self, statement: str, values: Sequence[str | None] = (), types: Sequence[int] = ()) -> None:
        """`types` are the target's OIDs of the values' types. 0 or a missing one lets the target infer it."""
        self._statement = statement
        self._values = values
        self._types = tuple(types)
        self._intake = Intake()
        self.finished = False
        self.error: TargetRefused | None = None

    @property
    def needs(self) -> int:
        """Return the number of bytes that `feed` takes next: the rest of a message, or of its header."""
        return self._intake.lacking or _HEADER - self._intake.waiting

    def start(self) -> bytes:
        """Return the messages to send. Raises ProtocolViolation if the statement contains a zero byte. They are UTF-8,
        so set that client encoding."""
        return bound_statement(self._statement, self._values, self._types) + m.SYNC_MESSAGE

    def feed(self, data: bytes) -> list[Row]:
        """Return the rows that are complete now. Raises ProtocolViolation."""
        intake = self._intake
        intake.feed(data)
        rows: list[Row] = []
        while not self.finished and len(intake.buf) - intake.pos >= _HEADER:
            buf, pos = intake.buf, intake.pos
            size = 1 + int.from_bytes(buf[pos + 1 : pos + 5], "big")
            if not 5 <= size <= MAX_MESSAGE:
                raise ProtocolViolation(f"the target sent a message of {size} bytes for a catalogue query")
            if len(buf) - pos < size:
                intake.wait(size)
                break
            intake.pos = pos + size
            self._take(buf[pos], buf[pos + 5 : pos + size], rows)
        return rows

    def _take(self, tag: int, body: bytes, rows: list[Row]) -> None:
        if tag == m.DATA_ROW:
            rows.append(tuple(None if cell is None else cell.decode("utf-8", "replace") for cell in cells(body)))
        elif tag == m.ERROR_RESPONSE:
            self.error = m.make_target_refused(body)
        elif tag == m.READY_FOR_QUERY:
            self.finished = True
        elif tag in (m.COPY_IN_RESPONSE, m.COPY_OUT_RESPONSE, m.COPY_BOTH_RESPONSE):
            raise ProtocolViolation("the target answered a catalogue query with COPY data")


def bound_statement(statement: str, values: Sequence[str | None], types: tuple[int, ...] = ()) -> bytes:
    """Return the messages that run a statement with bind values, without the Sync. Raises ProtocolViolation if the
    statement contains a zero byte."""
    encoded = [None if value is None else value.encode() for value in values]
    bound = b"".join(m.INT32.pack(-1) if value is None else m.INT32.pack(len(value)) + value for value in encoded)
    bind = m.message(
        b"B", m.cstring(""), m.cstring(""), m.INT16.pack(0), m.INT16.pack(len(encoded)), bound, m.INT16.pack(0)
    )
    execute = m.message(b"E", m.cstring(""), m.INT32.pack(0))
    return m.parse(b"", statement.encode(), types) + bind + m.describe_portal(b"") + execute


def cells(body: bytes) -> list[bytes | None]:
    """Return the cells of a DataRow's body, None for NULL. Raises ProtocolViolation."""
    values: list[bytes | None] = []
    try:
        (count,) = m.INT16.unpack_from(body, 0)
        pos = 2
        for _ in range(count):
            (size,) = m.INT32.unpack_from(body, pos)
            pos += 4
            values.append(None if size < 0 else body[pos : pos + size])
            pos += max(size, 0)
    except struct.error:
        raise ProtocolViolation("a DataRow is shorter than its length fields") from None
    if pos != len(body):
        raise ProtocolViolation("a DataRow's length differs from that of its cells")
    return values
