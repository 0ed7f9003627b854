"""Splitting a recorded stream into payloads, and parsing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from postern.protocols.mysql.recorded.mysql_reading import Answers, Found
from postern.protocols.mysql.wire import mysql_messages as m


class MysqlMessage(NamedTuple):
    """A payload. `payload` is None if it spans several packets, which are not buffered; `size` is its full size."""

    size: int
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class OmittedPayload:
    """A payload of `size` bytes that is left out."""

    size: int


class MysqlMessages:
    """Splitter: `feed` takes the stream in chunks of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._long = 0  # bytes so far of a payload of several packets

    def feed(self, data: bytes) -> list[MysqlMessage]:
        """Return the payloads that are complete now."""
        buffer = self._buffer
        buffer += data
        messages: list[MysqlMessage] = []
        pos = 0
        while len(buffer) - pos >= m.HEAD:
            size = int.from_bytes(buffer[pos : pos + 3], "little")
            if len(buffer) - pos < m.HEAD + size:
                break
            payload = bytes(buffer[pos + m.HEAD : pos + m.HEAD + size])
            pos += m.HEAD + size
            if size == m.MAX_PAYLOAD:
                self._long += size
            elif self._long:
                messages.append(MysqlMessage(self._long + size, None))
                self._long = 0
            else:
                messages.append(MysqlMessage(size, payload))
        del buffer[:pos]
        return messages

    def rest(self) -> bytes:
        """Return the incomplete payload, as far as it arrived; empty without a complete header."""
        return b"" if self._long else bytes(self._buffer[m.HEAD :])


class MysqlReading:
    """Splits and parses a recorded stream."""

    def __init__(self) -> None:
        self._messages = MysqlMessages()
        self._answers = Answers()

    def feed(self, data: bytes) -> list[Found | OmittedPayload]:
        """Return the results that are complete now. Raises ProtocolViolation for bytes that are not packets."""
        parts: list[Found | OmittedPayload] = []
        for message in self._messages.feed(data):
            if message.payload is None:
                self._answers.skip_payload()
                parts.append(OmittedPayload(message.size))
            elif (part := self._answers.take(message.payload)) is not None:
                parts.append(part)
        return parts

    def rest(self) -> tuple[bytes | None, ...]:
        """Return the cells of an incomplete row, as far as they arrived."""
        return self._answers.cells_of_a_part(self._messages.rest())
