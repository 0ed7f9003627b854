"""Splitting a recorded stream into messages."""

from __future__ import annotations

from typing import NamedTuple

from postern.protocols.framing import Intake

_LONGEST = 16 << 20  # bytes; a longer message was streamed, and is not buffered


class PostgresMessage(NamedTuple):
    """A message. `body` is None if it is too long to be buffered; `size` is its full size."""

    tag: int
    size: int
    body: bytes | None


class PostgresMessages:
    """Splitter: `feed` takes the stream in chunks of any size."""

    def __init__(self) -> None:
        self._intake = Intake()
        self._skip = 0

    def feed(self, data: bytes) -> list[PostgresMessage]:
        """Return the messages that are complete now."""
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        intake = self._intake
        intake.feed(data[skipped:])
        messages: list[PostgresMessage] = []
        while len(intake.buf) - intake.pos >= 5:
            buf, pos = intake.buf, intake.pos
            size = 1 + int.from_bytes(buf[pos + 1 : pos + 5], "big")
            here = len(buf) - pos
            if here >= size:
                intake.pos = pos + size
                messages.append(PostgresMessage(buf[pos], size, bytes(buf[pos + 5 : pos + size])))
            elif size <= _LONGEST:
                intake.wait(size)
                break
            else:
                messages.append(PostgresMessage(buf[pos], size, None))
                self._skip = size - here
                intake.pos = pos + here
                break
        return messages
