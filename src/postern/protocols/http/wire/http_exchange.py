"""The exchange that runs on a link, and requests to judge."""

from __future__ import annotations

from typing import Final

from postern.protocols.http.http_heads import RequestHead
from postern.protocols.http.wire.http_dialect import ReadRequest
from postern.protocols.wire_base import Request

# States of a request.
IDLE: Final = 0  # none, or the last one has ended
GATHERING: Final = 1  # its body is read before it is judged
UNDECIDED: Final = 2  # it is judged, or held
PASSING: Final = 3  # the rest of its body passes
SWALLOWING: Final = 4  # it was refused; the rest of its body is dropped
RAW: Final = 5  # after 101

# States of a response.
NONE: Final = 0  # the client waits for none
AWAITED: Final = 1
BODY: Final = 2  # its head was read, its body passes or is read
UPGRADED: Final = 3  # after 101
DROPPED: Final = 4  # the client has an answer instead; the link is over


class HttpExchange:
    """State of one request and its response.

    `sends`: the client still sends, and `is_begun`: it has been sent a part of the response.
    """

    def __init__(self, number: int, head: RequestHead) -> None:
        self.number = number
        self.head = head
        self.request = IDLE
        self.response = NONE
        self.read: ReadRequest | None = None
        self.is_begun = False
        self.status = 0

    def require_read(self) -> ReadRequest:
        """Return the request as the dialect read it."""
        return self.read if self.read is not None else ReadRequest(self.number, self.head)


class HttpRequest(Request):
    """A request to judge, or a message after 101 (`read` is None). `frames` are those to send if it is admitted."""

    __slots__ = ("frames", "read")

    def __init__(self, read: ReadRequest | None, frames: list[bytes]) -> None:
        super().__init__()
        self.read = read
        self.frames = frames
