"""Writes messages of HTTP/1.1 from heads: nothing of the bytes that a head was read from.

A body of unknown length is chunked, or ends with the connection for a client of HTTP/1.0. Whatever a head contains, the
written one has exactly its lines: names, values and targets that could end a line or a name raise ValueError.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead
from postern.protocols.http.http_syntax import (
    AUTHORITY,
    FORBIDDEN_TRAILERS,
    METHOD,
    TOKEN,
    UPGRADE,
    VALUE_BYTES,
    is_target,
)

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_END_OF_HEAD: Final = b"\r\n"

# What the writer decides itself. A head that has one of these was not made by a reader.
_WRITTEN_HERE: Final = frozenset(
    {
        *(b"connection", b"content-length", b"host", b"keep-alive", b"proxy-connection", b"transfer-encoding"),
        *(b"upgrade", b"expect", b"http2-settings"),
    }
)
_METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}

# Names as they are written. Others are added as they come, up to a limit.
_WRITTEN: Final[dict[bytes, bytes]] = {
    name.lower(): name
    for name in (
        *(b"ETag", b"WWW-Authenticate", b"DNT", b"TE", b"Content-MD5", b"X-XSS-Protection", b"SOAPAction"),
        *(b"Sec-WebSocket-Key", b"Sec-WebSocket-Version", b"Sec-WebSocket-Accept", b"Sec-WebSocket-Protocol"),
        *(b"Sec-WebSocket-Extensions", b"X-Request-ID"),
    )
}
_MAX_WRITTEN: Final = 1024
_MAX_CACHED_NAME: Final = 64


def request_head_bytes(head: RequestHead) -> bytes:
    """Return a request's head, with the framing of its body. Raises ValueError."""
    if METHOD.fullmatch(head.method) is None:
        raise ValueError("the method is not a token")
    if not is_target(head.target):
        raise ValueError("the target is not visible ASCII")
    if AUTHORITY.fullmatch(head.authority) is None:
        raise ValueError("the authority is not a host with an optional port")
    parts = [f"{head.method} {head.target} HTTP/1.1\r\nHost: {head.authority}\r\n".encode("ascii")]
    _add_fields(parts, head.headers)
    if head.length is None:
        parts.append(b"Transfer-Encoding: chunked\r\n")
    elif head.length or head.method in _METHODS_WITH_BODY:
        parts.append(b"Content-Length: %d\r\n" % _checked_length(head.length))
    if head.upgrade:
        parts.append(_upgrade_fields(head.upgrade))
    parts.append(_END_OF_HEAD)
    return b"".join(parts)


def response_head_bytes(head: ResponseHead, *, keep_alive: bool, minor_version: int = 1, upgrade: str = "") -> bytes:
    """Return a response's head, with the framing of its body. Raises ValueError.

    - `keep_alive`: the connection stays open after the response.
    - `minor_version`: that of the client. If it is 0, and the length unknown, close the connection to end the body.
    - `upgrade`: the protocol of a 101.
    """
    parts = [_STATUS_LINES.get(head.status) or _status_line(head.status)]
    _add_fields(parts, head.headers)
    if head.status == 101:
        parts.append(_upgrade_fields(upgrade))
        parts.append(_END_OF_HEAD)
        return b"".join(parts)
    if head.length is not None:
        if head.status != 204:
            parts.append(b"Content-Length: %d\r\n" % _checked_length(head.length))
    elif head.has_body and minor_version:
        parts.append(b"Transfer-Encoding: chunked\r\n")
    if not keep_alive or ends_with_connection(head, minor_version):
        parts.append(b"Connection: close\r\n")
    elif minor_version == 0:
        parts.append(b"Connection: keep-alive\r\n")
    parts.append(_END_OF_HEAD)
    return b"".join(parts)


def ends_with_connection(head: ResponseHead, minor_version: int) -> bool:
    """Return whether only the end of the connection shows the client where the body ends."""
    return minor_version == 0 and head.has_body and head.length is None


def is_chunked(head: ResponseHead, minor_version: int = 1) -> bool:
    """Return whether the body is written as chunks."""
    return minor_version == 1 and head.has_body and head.length is None


def chunk(data: bytes) -> bytes:
    """Return bytes of a chunked body; nothing for none, which would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def last_chunk(trailers: Headers = ()) -> bytes:
    """Return the end of a chunked body. Raises ValueError."""
    if not trailers:
        return b"0\r\n\r\n"
    if any(name in FORBIDDEN_TRAILERS for name, _ in trailers):
        raise ValueError("a trailer is not allowed")
    parts = [b"0\r\n"]
    _add_fields(parts, trailers)
    parts.append(_END_OF_HEAD)
    return b"".join(parts)


def _add_fields(parts: list[bytes], headers: Headers) -> None:
    for name, value in headers:
        if value.translate(None, VALUE_BYTES):
            raise ValueError("a header field contains a control character")
        parts.append(b"%b: %b\r\n" % (_WRITTEN.get(name) or _written_name(name), value))


def _written_name(name: bytes) -> bytes:
    if TOKEN.fullmatch(name) is None:
        raise ValueError("a header field has an invalid name")
    if name.lower() in _WRITTEN_HERE:
        raise ValueError(f"the header field {name.decode()!r} is written by the codec only")
    written = name.title()
    if len(_WRITTEN) < _MAX_WRITTEN and len(name) <= _MAX_CACHED_NAME:
        _WRITTEN[name] = written
    return written


def _upgrade_fields(protocol: str) -> bytes:
    if UPGRADE.fullmatch(protocol.encode()) is None:
        raise ValueError("the protocol to change to is not a token")
    return f"Connection: Upgrade\r\nUpgrade: {protocol}\r\n".encode("ascii")


def _status_line(status: int) -> bytes:
    if not 100 <= status <= 999:
        raise ValueError(f"the status {status} is not a number of three digits")
    return b"HTTP/1.1 %d \r\n" % status


def _checked_length(length: int) -> int:
    if length < 0:
        raise ValueError("the length is negative")
    return length
