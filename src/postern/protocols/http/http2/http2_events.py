"""What an HTTP/2 connection returns, its error codes, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead

CONNECTION: Final = 0  # as the number of a stream


class Http2Code(IntEnum):
    """Error codes of resets and of the end of a connection (RFC 9113, 7)."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class Http2Error(ProtocolViolation):
    """A violation that ends the connection with this code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Http2Limits:
    """How much a peer may use.

    - `streams`: requests at the same time. Those beyond are refused, so that the client repeats them.
    - `head`: bytes of a head, as HPACK counts them and as they are encoded.
    - `fields`: header fields of a head (431).
    - `continuations`: CONTINUATION frames of a head.
    - `interim`: interim responses before a response.
    - `stream_window`, `connection_window`: bytes of bodies that were sent and not acknowledged yet.
    - `budget`, `refill`: how many frames that carry no message a peer may send at once, and again in each second.
      Resets and changed settings count for several. Messages earn more of them.
    """

    streams: int = 100
    head: int = 64 * 1024
    fields: int = 200
    continuations: int = 16
    interim: int = 16
    stream_window: int = 256 * 1024
    connection_window: int = 1024 * 1024
    budget: int = 1000
    refill: int = 20


DEFAULT_HTTP2_LIMITS: Final = Http2Limits()


@dataclass(frozen=True, slots=True)
class Http2Request:
    """A request without its body. `expects_continue`: the client waits for 100."""

    stream_id: int
    head: RequestHead
    expects_continue: bool = False


@dataclass(frozen=True, slots=True)
class Http2RequestRefused:
    """A request that is answered with this status and not forwarded. Nothing more is returned of it."""

    stream_id: int
    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Http2Response:
    """A final response without its body."""

    stream_id: int
    head: ResponseHead


@dataclass(frozen=True, slots=True)
class Http2Continue:
    """The target answered 100: it wants the body."""

    stream_id: int


@dataclass(frozen=True, slots=True)
class Http2Data:
    """Bytes of a body, never empty. Acknowledge `size` when they were passed on, or the peer sends no more."""

    stream_id: int
    data: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Http2End:
    """The end of what the peer sends on a stream. Each head is followed by one, also without a body."""

    stream_id: int
    trailers: Headers = ()


@dataclass(frozen=True, slots=True)
class Http2Reset:
    """The stream ended early: the peer reset it, or sent something invalid. Data sent on it later are dropped.

    - `is_unprocessed`: the target did not process the request, so that it can be sent again.
    - After the peer's Http2End, `NO_ERROR` only means that it wants no more of the other direction.
    """

    stream_id: int
    code: int
    message: str
    is_unprocessed: bool = False


@dataclass(frozen=True, slots=True)
class Http2WindowOpened:
    """More can be sent on a stream, or on all of them where `stream_id` is CONNECTION. The first one of a connection
    says that the peer's settings have arrived."""

    stream_id: int


@dataclass(frozen=True, slots=True)
class Http2GoingAway:
    """The peer begins no more streams, or accepts none. Those that are open continue."""

    code: int


@dataclass(frozen=True, slots=True)
class Http2Failed:
    """The connection is not usable any more: send what `data_to_send` returns, and close it. The last event."""

    code: int
    message: str


Http2Event = (
    Http2Request
    | Http2RequestRefused
    | Http2Response
    | Http2Continue
    | Http2Data
    | Http2End
    | Http2Reset
    | Http2WindowOpened
    | Http2GoingAway
    | Http2Failed
)
