"""Messages of HTTP/1.1 as they are written."""

from __future__ import annotations

import pytest

from postern.protocols.http.http1.http1_writer import (
    chunk,
    ends_with_connection,
    is_chunked,
    last_chunk,
    request_head_bytes,
    response_head_bytes,
)
from postern.protocols.http.http_heads import RequestHead, ResponseHead

REQUESTS = [
    (RequestHead("GET", "/", "a"), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (RequestHead("OPTIONS", "*", "a:1"), b"OPTIONS * HTTP/1.1\r\nHost: a:1\r\n\r\n"),
    (RequestHead("POST", "/", "a"), b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
    (RequestHead("GET", "/", "a", (), 3), b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"),
    (RequestHead("PUT", "/", "a", (), None), b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
    (
        RequestHead("GET", "/", "a", ((b"user-agent", b"x"), (b"x-a", b"1"), (b"dnt", b"1"), (b"x-a", b""))),
        b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: x\r\nX-A: 1\r\nDNT: 1\r\nX-A: \r\n\r\n",
    ),
    (
        RequestHead("GET", "/", "a", ((b"sec-websocket-key", b"x"),), 0, "websocket"),
        b"GET / HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Key: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ),
]


@pytest.mark.parametrize(("head", "data"), REQUESTS)
def test_request_is_written(head: RequestHead, data: bytes) -> None:
    assert request_head_bytes(head) == data


RESPONSES = [
    (ResponseHead(200, (), 3), True, 1, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"),
    (ResponseHead(200, (), 3), False, 1, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"),
    (ResponseHead(200, (), 3), True, 0, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n"),
    (ResponseHead(200), True, 1, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    (ResponseHead(200), True, 0, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
    (ResponseHead(200, (), 9, False), True, 1, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
    (ResponseHead(200, (), None, False), True, 1, b"HTTP/1.1 200 OK\r\n\r\n"),
    (ResponseHead(204, (), 0, False), True, 1, b"HTTP/1.1 204 No Content\r\n\r\n"),
    (ResponseHead(304, (), None, False), True, 0, b"HTTP/1.1 304 Not Modified\r\nConnection: keep-alive\r\n\r\n"),
    (ResponseHead(999, (), 0), True, 1, b"HTTP/1.1 999 \r\nContent-Length: 0\r\n\r\n"),
    (ResponseHead(200, ((b"etag", b'"x"'),), 0), True, 1, b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 0\r\n\r\n'),
]


@pytest.mark.parametrize(("head", "keep_alive", "minor_version", "data"), RESPONSES)
def test_response_is_written(head: ResponseHead, keep_alive: bool, minor_version: int, data: bytes) -> None:
    assert response_head_bytes(head, keep_alive=keep_alive, minor_version=minor_version) == data


def test_upgrade_is_written_with_its_protocol() -> None:
    head = ResponseHead(101, ((b"sec-websocket-accept", b"x"),), None, False)
    assert response_head_bytes(head, keep_alive=False, upgrade="websocket") == (
        b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\n\r\n"
    )


FRAMING = [
    (ResponseHead(200), 1, True, False),
    (ResponseHead(200), 0, False, True),
    (ResponseHead(200, (), 0), 1, False, False),
    (ResponseHead(200, (), 0), 0, False, False),
    (ResponseHead(304, (), None, False), 1, False, False),
    (ResponseHead(304, (), None, False), 0, False, False),
]


@pytest.mark.parametrize(("head", "minor_version", "chunked", "ends"), FRAMING)
def test_framing_of_a_body_follows_from_its_length(
    head: ResponseHead, minor_version: int, chunked: bool, ends: bool
) -> None:
    assert is_chunked(head, minor_version) is chunked
    assert ends_with_connection(head, minor_version) is ends


def test_chunks_are_written() -> None:
    assert chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
    assert chunk(b"") == b""  # and not the end
    assert last_chunk() == b"0\r\n\r\n"
    assert last_chunk(((b"grpc-status", b"0"),)) == b"0\r\nGrpc-Status: 0\r\n\r\n"


BAD_FIELDS = [
    *((b"x", b"a\rb"), (b"x", b"a\nb"), (b"x", b"a\r\nb"), (b"x", b"a\0b"), (b"x", b"a\x01"), (b"x", b"\x7f")),
    *((b"x\r", b""), (b"x\n", b""), (b"x y", b""), (b"x:", b""), (b"", b""), (b"\xe4", b""), (b"x\0", b"")),
    *((b"content-length", b"1"), (b"transfer-encoding", b"chunked"), (b"host", b"b"), (b"connection", b"close")),
    *((b"Content-Length", b"1"), (b"upgrade", b"x"), (b"expect", b"100-continue"), (b"keep-alive", b"1")),
]


@pytest.mark.parametrize("field", BAD_FIELDS)
def test_field_that_could_end_a_line_or_frame_a_body_is_not_written(field: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError):
        request_head_bytes(RequestHead("GET", "/", "a", (field,)))
    with pytest.raises(ValueError):
        response_head_bytes(ResponseHead(200, (field,)), keep_alive=True)
    with pytest.raises(ValueError):
        last_chunk((field,))


BAD_REQUESTS = [
    RequestHead("GET /x HTTP/1.1\r\nX:", "/", "a"),
    RequestHead("", "/", "a"),
    RequestHead("GE\xe4", "/", "a"),
    RequestHead("GET", "/ HTTP/1.1\r\nX: y", "a"),
    RequestHead("GET", "", "a"),
    RequestHead("GET", "x", "a"),
    RequestHead("GET", "/\xe4", "a"),
    RequestHead("GET", "/\n", "a"),
    RequestHead("GET", "/#x", "a"),
    RequestHead("GET", "/", ""),
    RequestHead("GET", "/", "a\r\nX: y"),
    RequestHead("GET", "/", "a\n"),
    RequestHead("GET", "/", "a", (), -1),
    RequestHead("GET", "/", "a", (), 0, "x\r\nY: z"),
    RequestHead("GET", "/", "a", (), 0, "x, y"),
]


@pytest.mark.parametrize("head", BAD_REQUESTS)
def test_request_that_is_not_valid_is_not_written(head: RequestHead) -> None:
    with pytest.raises(ValueError):
        request_head_bytes(head)


BAD_RESPONSES = [ResponseHead(99), ResponseHead(1000), ResponseHead(-200), ResponseHead(200, (), -1), ResponseHead(101)]


@pytest.mark.parametrize("head", BAD_RESPONSES)
def test_response_that_is_not_valid_is_not_written(head: ResponseHead) -> None:
    with pytest.raises(ValueError):
        response_head_bytes(head, keep_alive=True)


def test_trailer_that_must_not_be_one_is_not_written() -> None:
    with pytest.raises(ValueError, match="trailer"):
        last_chunk(((b"authorization", b"x"),))
