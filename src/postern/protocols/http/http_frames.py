"""The frames of a link that carries HTTP: one byte kind, four bytes exchange, four bytes length, the payload.

client → agent   REQUEST        a request head; the exchange's number is new
                 REQUEST_DATA   bytes of its body; after 101, bytes of the new protocol
                 REQUEST_END    the end of the body, with trailers; always sent
agent → client   RESPONSE       a response head: a final one, or 101
                 RESPONSE_DATA  bytes of its body; after 101, bytes of the new protocol
                 RESPONSE_END   the end, with trailers; always sent
                 FAILED         the target did not answer, or broke off: a code and a text. The exchange is over, and
                                so is the link if a RESPONSE was sent before. The gateway sends it, too, also after
                                RESPONSE_END: it broke off (`refused`, `ended`), or the target still sends

A link carries one exchange after another: the next REQUEST follows a RESPONSE_END, and the REQUEST_END of the same
exchange. A response can begin, and end, before the request does: the client then sends the rest, or closes the link.
After 101 both directions are open until each sends its end. A client that gives up closes the link.

Heads are JSON arrays: readable in a recording, and as fast to decode as any format of our own. Within one process a
head passes several ends of links, mostly without a wait in between: listener, wire, agent. So the last head of each
kind is remembered with its payload, and is neither encoded nor decoded again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead

REQUEST: Final = 1
REQUEST_DATA: Final = 2
REQUEST_END: Final = 3
RESPONSE: Final = 17
RESPONSE_DATA: Final = 18
RESPONSE_END: Final = 19
FAILED: Final = 20

HEADER: Final = 9
MAX_DATA: Final = 64 * 1024  # maximum bytes of a body that a sender puts into one frame
MAX_FRAME: Final = 1 << 20  # maximum bytes of a payload that a reader accepts


@dataclass(frozen=True, slots=True)
class HttpFrame:
    kind: int
    exchange: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class TargetFailure:
    """Why a target gave no (complete) response. `code` is `unavailable`, `timeout` or `invalid`; of
    the gateway also `refused`, and `ended`, `killed` and `expired` for the end of the session."""

    code: str
    message: str


class _LastRequest:
    """The request head that was encoded or decoded last, with its payload."""

    def __init__(self) -> None:
        self.payload = b""
        self.head: RequestHead | None = None


class _LastResponse:
    """The response head that was encoded or decoded last, with its payload."""

    def __init__(self) -> None:
        self.payload = b""
        self.head: ResponseHead | None = None


_last_request: Final = _LastRequest()
_last_response: Final = _LastResponse()


def frame(kind: int, exchange: int, payload: bytes = b"") -> bytes:
    return bytes((kind,)) + exchange.to_bytes(4, "big") + len(payload).to_bytes(4, "big") + payload


def data_frames(kind: int, exchange: int, data: bytes) -> bytes:
    """Encode bytes of a body as as many frames as needed; none for no bytes."""
    if len(data) <= MAX_DATA:
        return frame(kind, exchange, data) if data else b""
    return b"".join([frame(kind, exchange, data[at : at + MAX_DATA]) for at in range(0, len(data), MAX_DATA)])


def request_frame(exchange: int, head: RequestHead) -> bytes:
    last = _last_request
    if last.head is not head:
        last.payload = _encode_request(head)
        last.head = head
    return frame(REQUEST, exchange, last.payload)


def _encode_request(head: RequestHead) -> bytes:
    method, target, authority = _quote(head.method), _quote(head.target), _quote(head.authority)
    size, upgrade, digest = _number(head.length), _quote(head.upgrade), _quote(head.digest)
    return f"[{method},{target},{authority},{size},{upgrade},{digest},{_texts(head.headers)}]".encode()


def response_frame(exchange: int, head: ResponseHead) -> bytes:
    last = _last_response
    if last.head is not head:
        last.payload = _encode_response(head)
        last.head = head
    return frame(RESPONSE, exchange, last.payload)


def recorded_response_frame(exchange: int, head: ResponseHead) -> bytes:
    """Encode a head that is only recorded, so it is not remembered for decoding."""
    return frame(RESPONSE, exchange, _encode_response(head))


def _encode_response(head: ResponseHead) -> bytes:
    has_body = "true" if head.has_body else "false"
    return f"[{head.status},{_number(head.length)},{has_body},{_texts(head.headers)}]".encode()


def end_frame(kind: int, exchange: int, trailers: Headers = ()) -> bytes:
    """Encode REQUEST_END or RESPONSE_END."""
    return frame(kind, exchange, _texts(trailers).encode() if trailers else b"")


def failed_frame(exchange: int, failure: TargetFailure) -> bytes:
    return frame(FAILED, exchange, _dump([failure.code, failure.message]))


def read_request(payload: bytes) -> RequestHead:
    """Parse a REQUEST. Raises ProtocolViolation."""
    last = _last_request
    head = last.head
    if head is None or last.payload != payload:
        head = _decode_request(payload)
        last.head, last.payload = head, payload
    return head


def _decode_request(payload: bytes) -> RequestHead:
    try:
        method, target, authority, length, upgrade, digest, headers = json.loads(payload.decode())
        size = None if length is None else int(length)
        return RequestHead(str(method), str(target), str(authority), _headers(headers), size, str(upgrade), str(digest))
    except (ValueError, TypeError) as error:
        raise _invalid("REQUEST", error) from None


def read_response(payload: bytes) -> ResponseHead:
    """Parse a RESPONSE. Raises ProtocolViolation."""
    last = _last_response
    head = last.head
    if head is None or last.payload != payload:
        head = _decode_response(payload)
        last.head, last.payload = head, payload
    return head


def _decode_response(payload: bytes) -> ResponseHead:
    try:
        status, length, has_body, headers = json.loads(payload.decode())
        return ResponseHead(int(status), _headers(headers), None if length is None else int(length), bool(has_body))
    except (ValueError, TypeError) as error:
        raise _invalid("RESPONSE", error) from None


def read_trailers(payload: bytes) -> Headers:
    """Parse the trailers of an end. Raises ProtocolViolation."""
    try:
        return _headers(json.loads(payload.decode())) if payload else ()
    except (ValueError, TypeError) as error:
        raise _invalid("end", error) from None


def read_failure(payload: bytes) -> TargetFailure:
    """Parse a FAILED. Raises ProtocolViolation."""
    try:
        code, message = json.loads(payload.decode())
        return TargetFailure(str(code), str(message))
    except (ValueError, TypeError) as error:
        raise _invalid("FAILED", error) from None


class HttpFrameReader:
    """Splits a stream into frames. Raises ProtocolViolation for one that is too long; then it is not usable any
    more."""

    def __init__(self) -> None:
        self._rest = b""
        self._taken = 0  # bytes so far

    @property
    def waiting(self) -> int:
        """Return the number of bytes of an incomplete frame."""
        return len(self._rest)

    @property
    def position(self) -> str:
        """Return how far the stream was parsed, for the log."""
        return f"a frame at byte {self._taken - len(self._rest)}"

    def feed(self, data: bytes) -> list[HttpFrame]:
        """Return the frames that `data` completes."""
        self._taken += len(data)
        if self._rest:
            data = self._rest + data
        frames: list[HttpFrame] = []
        at, end = 0, len(data)
        while end - at >= HEADER:
            length = int.from_bytes(data[at + 5 : at + HEADER], "big")
            if length > MAX_FRAME:
                raise ProtocolViolation(f"a frame of {length} bytes, where at most {MAX_FRAME} are allowed")
            if end - at < HEADER + length:
                break
            exchange = int.from_bytes(data[at + 1 : at + 5], "big")
            frames.append(HttpFrame(data[at], exchange, data[at + HEADER : at + HEADER + length]))
            at += HEADER + length
        self._rest = data[at:] if at else data
        return frames


_quote: Final = encode_basestring_ascii
_SEPARATOR: Final = b"\n"  # in no valid header


def _dump(texts: list[str]) -> bytes:
    return ("[" + ",".join([_quote(text) for text in texts]) + "]").encode()


def _number(number: int | None) -> str:
    return "null" if number is None else str(number)


def _texts(headers: Headers) -> str:
    """Return names and values in turn as a JSON array. Latin-1 keeps every byte."""
    flat: list[bytes] = []
    for name, value in headers:
        flat.append(name)
        flat.append(value)
    joined = _SEPARATOR.join(flat)
    if not flat or b"\\" in joined or joined.count(_SEPARATOR) != len(flat) - 1:
        return "[" + ",".join([_quote(text.decode("latin-1")) for text in flat]) + "]"
    return "[" + _quote(joined.decode("latin-1")).replace("\\n", '","') + "]"  # one call for all of them


def _headers(texts: list[str]) -> Headers:
    encoded = [text.encode("latin-1") for text in texts]
    return tuple(zip(encoded[::2], encoded[1::2], strict=True))


def _invalid(kind: str, error: Exception) -> ProtocolViolation:
    return ProtocolViolation(f"a {kind} frame is not valid ({type(error).__name__})")
