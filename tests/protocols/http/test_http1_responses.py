"""Responses of HTTP/1.1 as the strict reader reads them: bodies by request and status, and what ends the connection."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from postern.protocols.http.http1.http1_events import BodyData, BodyEnd, Http1Limits
from postern.protocols.http.http1.http1_response_reader import Http1ResponseReader
from postern.protocols.http.http_heads import Headers, ResponseHead
from postern.protocols.http.http_syntax import HttpSyntaxError

SIZES = (1, 2, 3, 7, 64, 1 << 20)


@dataclass
class Answer:
    head: ResponseHead
    body: bytes
    trailers: Headers = ()
    keep_alive: bool = True


def drain(reader: Http1ResponseReader, answer: Answer) -> bool:
    """Add the events so far to an answer; return whether it has ended."""
    while (event := reader.next_event()) is not None:
        if isinstance(event, ResponseHead):
            answer.head = event
        elif isinstance(event, BodyData):
            answer.body += event.data
        else:
            assert isinstance(event, BodyEnd)
            answer.trailers = event.trailers
            return True
    return False


def read(data: bytes, size: int, method: str = "GET", *, upgrade: bool = False) -> Answer:
    """Return the response to a request, fed in pieces of `size`, and closed where it does not end before."""
    reader = Http1ResponseReader()
    reader.begin(method, upgrade=upgrade)
    answer = Answer(ResponseHead(0), b"")
    ended = False
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
        ended = drain(reader, answer) or ended
    if not ended and answer.head.status != 101:
        reader.end_of_stream()
        assert drain(reader, answer)
    answer.keep_alive = reader.keep_alive
    return answer


def lines(*fields: str, line: str = "HTTP/1.1 200 OK") -> bytes:
    return "".join(f"{text}\r\n" for text in [line, *fields, ""]).encode("latin-1")


CHUNKED = "Transfer-Encoding: chunked"

READ = {
    "length": ("GET", lines("Content-Length: 3") + b"abc", Answer(ResponseHead(200, (), 3), b"abc")),
    "empty": ("GET", lines("Content-Length: 0"), Answer(ResponseHead(200, (), 0), b"")),
    "chunks": (
        "GET",
        lines(CHUNKED) + b"2;x\r\nab\r\n1\r\nc\r\n0\r\nX: y\r\nTrailer: a\r\n\r\n",
        Answer(ResponseHead(200), b"abc", ((b"x", b"y"),)),
    ),
    "until the connection ends": (
        "GET",
        lines("Server: a") + b"abc\r\n\r\n",
        Answer(ResponseHead(200, ((b"server", b"a"),)), b"abc\r\n\r\n", (), False),
    ),
    "HTTP/1.0": (
        "GET",
        lines("Content-Length: 1", line="HTTP/1.0 200 OK") + b"x",
        Answer(ResponseHead(200, (), 1), b"x", (), False),
    ),
    "HTTP/1.0 that keeps the connection": (
        "GET",
        lines("Content-Length: 1", "Connection: keep-alive", line="HTTP/1.0 200 OK") + b"x",
        Answer(ResponseHead(200, (), 1), b"x"),
    ),
    "close": (
        "GET",
        lines("Content-Length: 1", "Connection: close") + b"x",
        Answer(ResponseHead(200, (), 1), b"x", (), False),
    ),
    "HEAD with a length": ("HEAD", lines("Content-Length: 9"), Answer(ResponseHead(200, (), 9, False), b"")),
    "HEAD that would be chunked": ("HEAD", lines(CHUNKED), Answer(ResponseHead(200, (), None, False), b"")),
    "HEAD without length": ("HEAD", lines(), Answer(ResponseHead(200, (), None, False), b"")),
    "204": ("DELETE", lines(line="HTTP/1.1 204 No Content"), Answer(ResponseHead(204, (), None, False), b"")),
    "204 with a length of zero": (
        "GET",
        lines("Content-Length: 0", line="HTTP/1.1 204 No Content"),
        Answer(ResponseHead(204, (), None, False), b""),
    ),
    "204 with a body": (
        "GET",
        lines("Content-Length: 3", line="HTTP/1.1 204 No Content") + b"abc",
        Answer(ResponseHead(204, (), None, False), b"", (), False),
    ),
    "204 with chunks": (
        "GET",
        lines(CHUNKED, line="HTTP/1.1 204 No Content") + b"0\r\n\r\n",
        Answer(ResponseHead(204, (), None, False), b"", (), False),
    ),
    "304 with a length": (
        "GET",
        lines('ETag: "x"', "Content-Length: 9", line="HTTP/1.1 304 Not Modified"),
        Answer(ResponseHead(304, ((b"etag", b'"x"'),), 9, False), b""),
    ),
    "304 with chunks": (
        "GET",
        lines(CHUNKED, line="HTTP/1.1 304 Not Modified"),
        Answer(ResponseHead(304, (), None, False), b"", (), False),
    ),
    "no reason": ("GET", lines("Content-Length: 0", line="HTTP/1.1 200"), Answer(ResponseHead(200, (), 0), b"")),
    "empty reason": ("GET", lines("Content-Length: 0", line="HTTP/1.1 200 "), Answer(ResponseHead(200, (), 0), b"")),
    "reason beyond ASCII": (
        "GET",
        lines("Content-Length: 0", line="HTTP/1.1 404 \xfcber"),
        Answer(ResponseHead(404, (), 0), b""),
    ),
    "unknown status": (
        "GET",
        lines("Content-Length: 0", line="HTTP/1.1 999 Denied"),
        Answer(ResponseHead(999, (), 0), b""),
    ),
    "interim responses": (
        "POST",
        lines(line="HTTP/1.1 100 Continue")
        + lines("Link: </a>", line="HTTP/1.1 103 Early Hints")
        + lines("Content-Length: 1")
        + b"x",
        Answer(ResponseHead(200, (), 1), b"x"),
    ),
    "fields of the connection": (
        "GET",
        lines("Connection: X-A", "X-A: 1", "Keep-Alive: 1", "Proxy-Authenticate: x", "X-B: 2", "Content-Length: 0"),
        Answer(ResponseHead(200, ((b"x-b", b"2"),), 0), b""),
    ),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", READ)
def test_response_is_read(name: str, size: int) -> None:
    method, data, answer = READ[name]
    assert read(data, size, method) == answer


REFUSED = {
    "length and chunked": lines("Content-Length: 3", CHUNKED) + b"0\r\n\r\n",
    "two lengths": lines("Content-Length: 3", "Content-Length: 4") + b"abcd",
    "the same length twice": lines("Content-Length: 3", "Content-Length: 3") + b"abc",
    "gzip, chunked": lines("Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    "chunked in HTTP/1.0": lines(CHUNKED, line="HTTP/1.0 200 OK") + b"0\r\n\r\n",
    "obs-fold": lines("X: a", " b", "Content-Length: 0"),
    "LF": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "LF after a field": b"HTTP/1.1 200 OK\r\nContent-Length: 0\n\r\n",
    "CR within a field": lines("X: a\rSet-Cookie: b", "Content-Length: 0"),
    "NUL": lines("X: \0", "Content-Length: 0"),
    "space before the colon": lines("Content-Length : 0"),
    "HTTP/0.9": b"<html>\r\n",
    "HTTP/2.0": lines("Content-Length: 0", line="HTTP/2.0 200 OK"),
    "HTTP/1.2": lines("Content-Length: 0", line="HTTP/1.2 200 OK"),
    "ICY": lines("Content-Length: 0", line="ICY 200 OK"),
    "status of two digits": lines("Content-Length: 0", line="HTTP/1.1 20 OK"),
    "status of four digits": lines("Content-Length: 0", line="HTTP/1.1 2000 OK"),
    "status 0xx": lines("Content-Length: 0", line="HTTP/1.1 099 OK"),
    "two spaces": lines("Content-Length: 0", line="HTTP/1.1  200 OK"),
    "empty line ahead": b"\r\n" + lines("Content-Length: 0"),
    "101 that was not asked for": lines("Connection: Upgrade", "Upgrade: h2c", line="HTTP/1.1 101 Switching"),
    "chunk that is longer than its size": lines(CHUNKED) + b"1\r\nab\r\n0\r\n\r\n",
    "chunk size of 17 digits": lines(CHUNKED) + b"00000000000000001\r\na\r\n0\r\n\r\n",
    "end within the status line": b"HTTP/1.1 20",
    "end within the head": lines("Content-Length: 0")[:-2],
    "end within the body": lines("Content-Length: 3") + b"ab",
    "end within a chunk": lines(CHUNKED) + b"3\r\nab",
    "end before the last chunk": lines(CHUNKED) + b"3\r\nabc\r\n",
    "end within the trailers": lines(CHUNKED) + b"0\r\n",
    "end after interim responses": lines(line="HTTP/1.1 100 Continue"),
    "nothing": b"",
    "interim responses without end": lines(line="HTTP/1.1 103 Early Hints") * 1000,
    "long interim responses": lines("X: " + "y" * 10000, line="HTTP/1.1 103 Early Hints") * 10,
    "long head": lines("X: " + "y" * 70000, "Content-Length: 0"),
    "long status line": lines("Content-Length: 0", line="HTTP/1.1 200 " + "y" * 20000),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", REFUSED)
def test_response_is_refused(name: str, size: int) -> None:
    if size < 64 and len(REFUSED[name]) > 4096:
        size = 4096
    with pytest.raises(HttpSyntaxError) as caught:
        read(REFUSED[name], size)
    assert caught.value.status == 502


UPGRADED = {
    "websocket": ("Connection: upgrade", "Upgrade: WebSocket"),
    "other": ("Connection: Upgrade", "Upgrade: SPDY/3.1"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", UPGRADED)
def test_bytes_after_101_are_raw(name: str, size: int) -> None:
    reader = Http1ResponseReader()
    reader.begin("GET", upgrade=True)
    data = lines(*UPGRADED[name], "X: y", line="HTTP/1.1 101 Switching Protocols") + b"\x81\x01x"
    head = None
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
        head = head or reader.next_event()
        assert reader.next_event() is None
    assert head == ResponseHead(101, ((b"x", b"y"),), None, False)
    assert reader.upgraded_to == UPGRADED[name][1].partition(": ")[2].lower()
    assert reader.take_rest() == b"\x81\x01x"
    assert not reader.keep_alive


@pytest.mark.parametrize(
    "fields", [(), ("Upgrade: x",), ("Connection: upgrade",), ("Connection: upgrade", "Upgrade: a, b")]
)
def test_101_must_name_one_protocol(fields: tuple[str, ...]) -> None:
    with pytest.raises(HttpSyntaxError, match="does not name one"):
        read(lines(*fields, line="HTTP/1.1 101 Switching Protocols"), 64, upgrade=True)


def test_target_that_does_not_upgrade_gives_an_ordinary_response() -> None:
    assert read(lines("Content-Length: 2") + b"no", 3, upgrade=True) == Answer(ResponseHead(200, (), 2), b"no")


def test_100_is_reported() -> None:
    reader = Http1ResponseReader()
    reader.begin("POST")
    reader.feed(lines(line="HTTP/1.1 103 Early Hints"))
    assert reader.next_event() is None
    assert not reader.may_continue
    reader.feed(lines(line="HTTP/1.1 100 Continue"))
    assert reader.next_event() is None
    assert reader.may_continue
    reader.feed(lines("Content-Length: 0"))
    assert reader.next_event() == ResponseHead(200, (), 0)
    assert reader.next_event() == BodyEnd()
    reader.begin("POST")
    assert not reader.may_continue


def test_one_response_follows_another() -> None:
    reader = Http1ResponseReader()
    for length in (0, 3):
        reader.begin("GET")
        reader.feed(lines(f"Content-Length: {length}") + b"x" * length)
        answer = Answer(ResponseHead(0), b"")
        assert drain(reader, answer)
        assert answer == Answer(ResponseHead(200, (), length), b"x" * length)
        assert reader.keep_alive
    reader.end_of_stream()
    assert not reader.keep_alive


def test_more_than_a_response_ends_the_connection() -> None:
    reader = Http1ResponseReader()
    reader.begin("GET")
    reader.feed(lines("Content-Length: 0") + lines("Content-Length: 0"))
    assert drain(reader, Answer(ResponseHead(0), b""))
    assert not reader.keep_alive
    with pytest.raises(ValueError, match="last one"):
        reader.begin("GET")


def test_response_ahead_of_its_request_is_refused() -> None:
    reader = Http1ResponseReader()
    reader.begin("GET")
    reader.feed(lines("Content-Length: 0"))
    assert drain(reader, Answer(ResponseHead(0), b""))
    reader.feed(lines("Content-Length: 0"))
    assert reader.next_event() is None
    with pytest.raises(HttpSyntaxError, match="before the request"):
        reader.begin("GET")


def test_body_that_ends_with_the_connection_is_complete_when_it_was_not_taken_yet() -> None:
    reader = Http1ResponseReader()
    reader.begin("GET")
    reader.feed(lines() + b"abc")
    assert isinstance(reader.next_event(), ResponseHead)
    reader.end_of_stream()
    assert reader.next_event() == BodyData(b"abc")
    assert reader.next_event() == BodyEnd()


def test_bytes_that_nobody_asked_for_have_a_limit() -> None:
    reader = Http1ResponseReader(Http1Limits(waiting=10))
    reader.feed(b"x" * 20)
    with pytest.raises(HttpSyntaxError, match="ahead"):
        reader.feed(b"x")
