"""What a wire needs to know about an application: how to read its requests as statements, and its responses as answers.

REQUEST, body ─▶ read_request ─▶ operations ─▶ judged ─▶ forwarded, or `refusal`
RESPONSE      ─▶ read_response  ─▶ ResponseBodyReader ─▶ pieces: frames, Output, Rows ─▶ judged, masked, encoded again
101           ─▶ read_upgraded  ─▶ UpgradedReader ─▶ messages of both sides, judged one by one
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from mypy_extensions import mypyc_attr

from postern.interception.events import Operation, Output, Rows
from postern.interception.verdicts import Refuse
from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead
from postern.protocols.wire_base import Piece, Wants


class Encoded(Protocol):
    """An event of a response body. `encode` returns its frames as interceptors left them, each once."""

    def encode(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class BodyNeed:
    """How much of a request's body is read before the request is judged: up to `limit` bytes, 0 for none. A longer one
    is refused where it `must_fit`; otherwise the request is judged by its beginning, and the rest is passed on."""

    limit: int = 0
    must_fit: bool = False


@dataclass(slots=True)
class ReadRequest:
    """A request as it was read. `head` is the one to forward; `answers` is for the dialect's own use.

    `body` is forwarded instead of a body that was read whole, if it is not None; `head.length` is then its length.
    """

    exchange: int
    head: RequestHead
    operations: list[Operation] = field(default_factory=list)
    forced: Refuse | None = None
    answers: Any = None
    body: bytes | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class ResponseBodyReader:
    """Reads the body of one response. A base class and not a Protocol, because calls to it are compiled into direct
    ones.

    Pieces are frames for the client, or events whose `encode()` gives frames; `finish` adds the end. The wire sends
    `head` before the first frames, with the warnings for the client, and without its secrets in the recording. So a
    reader withholds the head by returning events first, and can change it until these are encoded. With None, the
    reader sends the head itself. Methods raise ValueError for a body that is not what its head says: the response is
    refused, with the text of the error.
    """

    head: ResponseHead | None = None

    def begin(self) -> list[Piece]:
        raise NotImplementedError

    def feed(self, data: bytes) -> list[Piece]:
        raise NotImplementedError

    def finish(self, trailers: Headers) -> list[Piece]:
        raise NotImplementedError


@dataclass(slots=True)
class ClientMessage:
    """A message after 101: its bytes, and the operation to judge; none for one that passes unjudged."""

    data: bytes
    operation: Operation | None = None
    forced: Refuse | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class UpgradedReader:
    """Reads both directions after 101. Methods raise ProtocolViolation for bytes that the new protocol forbids."""

    def feed_client(self, data: bytes) -> list[ClientMessage]:
        raise NotImplementedError

    def feed_target(self, data: bytes) -> list[bytes | Output | Rows]:
        """Return bytes of the new protocol, or events whose `encode()` gives them."""
        raise NotImplementedError

    def close_for(self, refusal: Refuse) -> tuple[bytes, bytes]:
        """Return the last bytes for the client and for the target after a refusal."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class HttpDialect:
    """One application protocol on HTTP. One object for each link."""

    def body_need(self, head: RequestHead, wants: Wants) -> BodyNeed:
        """Return how much of the body is needed. Called before `read_request`, once for each request. The body of a
        head without `length` can be one side of a conversation, whose other side is the response."""
        raise NotImplementedError

    def read_request(self, exchange: int, head: RequestHead, body: bytes, *, is_complete: bool) -> ReadRequest:
        """Return the request as statements. A request that cannot be read has a `forced` refusal."""
        raise NotImplementedError

    def read_response(self, request: ReadRequest, response: ResponseHead, wants: Wants) -> ResponseBodyReader | None:
        """Return the reader of a response, or None if it is passed on as it comes: nothing asks for what is in it."""
        raise NotImplementedError

    def read_upgraded(self, request: ReadRequest, response: ResponseHead, wants: Wants) -> UpgradedReader | None:
        """Return the reader of a connection after 101, or None if its bytes pass as they are."""
        return None

    def refusal(self, request: ReadRequest, refusal: Refuse) -> tuple[ResponseHead, bytes]:
        """Return the response to a refused request, with its body."""
        raise NotImplementedError

    def failure(self, request: ReadRequest, failure: TargetFailure) -> tuple[ResponseHead, bytes]:
        """Return the response to a request that the target did not answer, with its body. Besides those of the agent,
        there is the code `ended`: the gateway ends the session."""
        raise NotImplementedError
