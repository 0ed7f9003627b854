"""Splitting of a stream of replies into messages. The wire does not use it."""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.framing import Intake
from postern.protocols.mongodb.wire.mongodb_messages import HEAD, MAX_MESSAGE, check_kind, parse_message, read_size

MAX_REPLY: Final = MAX_MESSAGE


class MongodbReplies:
    """Splitter: `feed` takes the stream in chunks of any size. `max_reply` limits the bytes of a message."""

    def __init__(self, max_reply: int = MAX_REPLY) -> None:
        self._intake = Intake()
        self._max_reply = max_reply

    @property
    def needs(self) -> int:
        """Return the number of bytes that `feed` takes next: the rest of a message, or of its header."""
        return self._intake.lacking or HEAD - self._intake.waiting

    @property
    def waiting(self) -> int:
        """Return the number of bytes of an incomplete message."""
        return self._intake.waiting

    def feed(self, data: bytes) -> list[bytes]:
        """Return the documents of the replies that are complete now. Raises ProtocolViolation."""
        intake = self._intake
        intake.feed(data)
        documents: list[bytes] = []
        while len(intake.buf) - intake.pos >= HEAD:
            buf, pos = intake.buf, int(intake.pos)
            size = int(read_size(buf, pos))
            check_kind(buf, pos)
            if size > self._max_reply:
                raise ProtocolViolation(f"the target sent a reply of {size} bytes")
            if len(buf) - pos < size:
                intake.wait(size)
                break
            intake.pos = pos + size
            message = buf[pos : pos + size]
            parsed = parse_message(message)
            documents.append(message[int(parsed.pos) : int(parsed.end)])
        return documents
