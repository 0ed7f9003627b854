"""Requests of HTTP/1.1 as the strict reader reads them: what it accepts, and what it refuses with which status."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from postern.protocols.http.http1.http1_events import BodyData, BodyEnd, Http1Limits
from postern.protocols.http.http1.http1_request_reader import Http1RequestReader
from postern.protocols.http.http_heads import Headers, RequestHead
from postern.protocols.http.http_syntax import HttpSyntaxError

SIZES = (1, 2, 3, 7, 64, 1 << 20)


@dataclass
class Exchange:
    """A request as it was read, or the status of its refusal."""

    head: RequestHead
    body: bytes
    trailers: Headers
    keep_alive: bool
    expects_continue: bool


def read(data: bytes, size: int = 1 << 20, limits: Http1Limits | None = None) -> list[Exchange | int]:
    """Return all requests in `data`, fed in pieces of `size`; after a refusal comes its status."""
    reader = Http1RequestReader(limits or Http1Limits())
    exchanges: list[Exchange | int] = []
    head, body = RequestHead("", "", ""), b""
    for at in range(0, len(data), size):
        try:
            reader.feed(data[at : at + size])
            while True:
                event = reader.next_event()
                if isinstance(event, RequestHead):
                    head, body = event, b""
                elif isinstance(event, BodyData):
                    assert event.data
                    body += event.data
                elif isinstance(event, BodyEnd):
                    flags = (reader.keep_alive, reader.expects_continue)
                    exchanges.append(Exchange(head, body, event.trailers, *flags))
                    if not reader.keep_alive:
                        return exchanges
                    reader.next_request()
                else:
                    break
        except HttpSyntaxError as error:
            assert not reader.keep_alive
            with pytest.raises(HttpSyntaxError):
                reader.next_event()
            return [*exchanges, error.status]
    return exchanges


def lines(*fields: str, line: str = "GET / HTTP/1.1", host: str = "Host: a.example") -> bytes:
    return "".join(f"{text}\r\n" for text in [line, *([host] if host else []), *fields, ""]).encode("latin-1")


POST = "POST /p HTTP/1.1"
CHUNKED = "Transfer-Encoding: chunked"

ACCEPTED = {
    "get": (lines(), RequestHead("GET", "/", "a.example"), b""),
    "host in capitals": (lines(host="HOST: A.Example:8080"), RequestHead("GET", "/", "a.example:8080"), b""),
    "ipv6 host": (lines(host="Host: [::1]:80"), RequestHead("GET", "/", "[::1]:80"), b""),
    "absolute form": (
        lines(line="GET http://A.example/x?y HTTP/1.1"),
        RequestHead("GET", "/x?y", "a.example"),
        b"",
    ),
    "absolute form without path": (
        lines(line="GET HTTPS://a.example HTTP/1.1"),
        RequestHead("GET", "/", "a.example"),
        b"",
    ),
    "absolute form with query alone": (
        lines(line="GET http://a.example?q HTTP/1.1"),
        RequestHead("GET", "/?q", "a.example"),
        b"",
    ),
    "asterisk": (lines(line="OPTIONS * HTTP/1.1"), RequestHead("OPTIONS", "*", "a.example"), b""),
    "asterisk as URL": (lines(line="OPTIONS http://a.example HTTP/1.1"), RequestHead("OPTIONS", "*", "a.example"), b""),
    "raw percent in query": (lines(line="GET /?q=100% HTTP/1.1"), RequestHead("GET", "/?q=100%", "a.example"), b""),
    "encoded path": (lines(line="GET /%C3%BC%2f HTTP/1.1"), RequestHead("GET", "/%C3%BC%2f", "a.example"), b""),
    "any token as method": (lines(line="M-SEARCH / HTTP/1.1"), RequestHead("M-SEARCH", "/", "a.example"), b""),
    "empty line ahead": (b"\r\n" + lines(), RequestHead("GET", "/", "a.example"), b""),
    "values are stripped": (
        lines("X:\t a b \t", "Y:", "Z: \xff"),
        RequestHead("GET", "/", "a.example", ((b"x", b"a b"), (b"y", b""), (b"z", b"\xff"))),
        b"",
    ),
    "repeated fields keep their order": (
        lines("A: 1", "B: 2", "a: 3"),
        RequestHead("GET", "/", "a.example", ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))),
        b"",
    ),
    "length": (lines("Content-Length: 3", line=POST) + b"abc", RequestHead("POST", "/p", "a.example", (), 3), b"abc"),
    "length with zeros": (
        lines("Content-Length: 003", line=POST) + b"abc",
        RequestHead("POST", "/p", "a.example", (), 3),
        b"abc",
    ),
    "body of GET": (lines("Content-Length: 1") + b"x", RequestHead("GET", "/", "a.example", (), 1), b"x"),
    "HEAD with an empty body": (
        lines("Content-Length: 0", line="HEAD / HTTP/1.1"),
        RequestHead("HEAD", "/", "a.example"),
        b"",
    ),
    "chunks": (
        lines("transfer-encoding: CHUNKED", line=POST) + b"3\r\nabc\r\nA\r\n0123456789\r\n00\r\n\r\n",
        RequestHead("POST", "/p", "a.example", (), None),
        b"abc0123456789",
    ),
    "chunk extensions are dropped": (
        lines(CHUNKED, line=POST) + b'1;a=b\r\nx\r\n1 ; c="d e"\r\ny\r\n0;z\r\n\r\n',
        RequestHead("POST", "/p", "a.example", (), None),
        b"xy",
    ),
    "chunk size of 16 digits": (
        lines(CHUNKED, line=POST) + b"0000000000000001\r\nx\r\n0000000000000000\r\n\r\n",
        RequestHead("POST", "/p", "a.example", (), None),
        b"x",
    ),
    "fields of the connection": (
        lines("Connection: keep-alive, X-Secret, te", "Keep-Alive: 5", "TE: trailers", "X-Secret: 1", "X-Other: 2"),
        RequestHead("GET", "/", "a.example", ((b"x-other", b"2"),)),
        b"",
    ),
    "connection names fields that the codec reads": (
        lines("Connection: host, content-length", "Content-Length: 1", line=POST) + b"x",
        RequestHead("POST", "/p", "a.example", (), 1),
        b"x",
    ),
    "proxy credentials": (
        lines("Proxy-Authorization: Basic eDp5", "Proxy-Connection: keep-alive"),
        RequestHead("GET", "/", "a.example"),
        b"",
    ),
    "websocket": (
        lines("Connection: keep-alive, Upgrade", "Upgrade: WebSocket"),
        RequestHead("GET", "/", "a.example", (), 0, "websocket"),
        b"",
    ),
    "websocket among others": (
        lines("Connection: Upgrade", "Upgrade: h2c, websocket"),
        RequestHead("GET", "/", "a.example", (), 0, "websocket"),
        b"",
    ),
    "other upgrade": (
        lines("Connection: Upgrade", "Upgrade: SPDY/3.1", line=POST),
        RequestHead("POST", "/p", "a.example", (), 0, "spdy/3.1"),
        b"",
    ),
    "upgrade without connection": (lines("Upgrade: websocket"), RequestHead("GET", "/", "a.example"), b""),
    "h2c": (
        lines("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
        RequestHead("GET", "/", "a.example"),
        b"",
    ),
    "h2c and others": (
        lines("Connection: Upgrade", "Upgrade: h2c, HTTP/2.0"),
        RequestHead("GET", "/", "a.example"),
        b"",
    ),
    "TLS": (lines("Connection: Upgrade", "Upgrade: TLS/1.0"), RequestHead("GET", "/", "a.example"), b""),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ACCEPTED)
def test_request_is_read(name: str, size: int) -> None:
    data, head, body = ACCEPTED[name]
    exchanges = read(data + lines(line="GET /next HTTP/1.1"), size)
    assert exchanges == [
        Exchange(head, body, (), True, False),
        Exchange(RequestHead("GET", "/next", "a.example"), b"", (), True, False),
    ]


CHUNKS = lines(CHUNKED, line=POST)

REFUSED = {
    # where the body ends
    "length and chunked": (lines("Content-Length: 3", CHUNKED, line=POST) + b"0\r\n\r\n", 400),
    "chunked and length": (lines(CHUNKED, "Content-Length: 3", line=POST) + b"0\r\n\r\n", 400),
    "two lengths": (lines("Content-Length: 3", "Content-Length: 4", line=POST) + b"abcd", 400),
    "the same length twice": (lines("Content-Length: 3", "Content-Length: 3", line=POST) + b"abc", 400),
    "a list of lengths": (lines("Content-Length: 3, 3", line=POST) + b"abc", 400),
    "signed length": (lines("Content-Length: +3", line=POST) + b"abc", 400),
    "negative length": (lines("Content-Length: -3", line=POST) + b"abc", 400),
    "hexadecimal length": (lines("Content-Length: 0x3", line=POST) + b"abc", 400),
    "length with an underscore": (lines("Content-Length: 1_0", line=POST) + b"0123456789", 400),
    "length with other digits": (lines("Content-Length: \xb2", line=POST) + b"ab", 400),
    "empty length": (lines("Content-Length:", line=POST), 400),
    "length of 19 digits": (lines("Content-Length: 9999999999999999999", line=POST), 400),
    "gzip, chunked": (lines("Transfer-Encoding: gzip, chunked", line=POST) + b"0\r\n\r\n", 501),
    "chunked, identity": (lines("Transfer-Encoding: chunked, identity", line=POST) + b"0\r\n\r\n", 501),
    "identity": (lines("Transfer-Encoding: identity", line=POST), 501),
    "xchunked": (lines("Transfer-Encoding: xchunked", line=POST) + b"0\r\n\r\n", 501),
    "chunked with a parameter": (lines("Transfer-Encoding: chunked;a", line=POST) + b"0\r\n\r\n", 501),
    "chunked in quotes": (lines('Transfer-Encoding: "chunked"', line=POST) + b"0\r\n\r\n", 501),
    "chunked after a vertical tab": (lines("Transfer-Encoding: \x0bchunked", line=POST) + b"0\r\n\r\n", 400),
    "chunked twice": (lines(CHUNKED, CHUNKED, line=POST) + b"0\r\n\r\n", 400),
    "chunked and another": (lines(CHUNKED, "Transfer-Encoding: x", line=POST) + b"0\r\n\r\n", 400),
    "empty coding": (lines("Transfer-Encoding:", line=POST), 501),
    "chunked in HTTP/1.0": (lines(CHUNKED, line="POST / HTTP/1.0") + b"0\r\n\r\n", 400),
    "body of HEAD": (lines("Content-Length: 1", line="HEAD / HTTP/1.1") + b"x", 400),
    "chunked body of HEAD": (lines(CHUNKED, line="HEAD / HTTP/1.1") + b"0\r\n\r\n", 400),
    # chunks
    "chunk size of 17 digits": (CHUNKS + b"00000000000000001\r\nx\r\n0\r\n\r\n", 400),
    "empty chunk size": (CHUNKS + b"\r\nx\r\n0\r\n\r\n", 400),
    "chunk size in other notation": (CHUNKS + b"0x1\r\nx\r\n0\r\n\r\n", 400),
    "signed chunk size": (CHUNKS + b"+1\r\nx\r\n0\r\n\r\n", 400),
    "chunk size with a space ahead": (CHUNKS + b" 1\r\nx\r\n0\r\n\r\n", 400),
    "chunk size with a space after": (CHUNKS + b"1 \r\nx\r\n0\r\n\r\n", 400),
    "chunk size with LF": (CHUNKS + b"1\nx\r\n0\r\n\r\n", 400),
    "chunk extension with LF": (CHUNKS + b"1;a\nx\r\n0\r\n\r\n", 400),
    "chunk extension with CR": (CHUNKS + b"1;a\rb\r\nx\r\n0\r\n\r\n", 400),
    "chunk extension without semicolon": (CHUNKS + b"1 a\r\nx\r\n0\r\n\r\n", 400),
    "chunk that is longer than its size": (CHUNKS + b"1\r\nxy\r\n0\r\n\r\n", 400),
    "chunk that ends with LF": (CHUNKS + b"1\r\nx\n0\r\n\r\n", 400),
    "chunk that ends with CR": (CHUNKS + b"1\r\nx\r0\r\n\r\n", 400),
    "chunk line that does not end": (CHUNKS + b"1;" + b"a" * 2000, 400),
    "too many chunk extensions": (CHUNKS + (b"1;" + b"a" * 1000 + b"\r\nx\r\n") * 20, 400),
    "trailer with LF": (CHUNKS + b"0\r\nA: b\n\r\n", 400),
    "trailers that are too long": (CHUNKS + b"0\r\nA: " + b"b" * 20000 + b"\r\n\r\n", 431),
    "length as a trailer": (CHUNKS + b"0\r\nContent-Length: 3\r\n\r\n", 400),
    "coding as a trailer": (CHUNKS + b"0\r\ntransfer-encoding: chunked\r\n\r\n", 400),
    "connection as a trailer": (CHUNKS + b"0\r\nConnection: close\r\n\r\n", 400),
    "upgrade as a trailer": (CHUNKS + b"0\r\nUpgrade: websocket\r\n\r\n", 400),
    "trailer without colon": (CHUNKS + b"0\r\nabc\r\n\r\n", 400),
    # lines and fields
    "obs-fold": (lines("X: a", " b"), 400),
    "obs-fold with a tab": (lines("X: a", "\tb"), 400),
    "obs-fold of Transfer-Encoding": (lines("Transfer-Encoding:", " chunked", line=POST), 400),
    "folded first field": (lines(" b", host=""), 400),
    "LF ends all lines": (b"GET / HTTP/1.1\nHost: a.example\n\n", 400),
    "LF ends the request line": (b"GET / HTTP/1.1\nHost: a.example\r\n\r\n", 400),
    "LF ends a field": (lines("X: a\nY: b"), 400),
    "LF ends the head": (b"GET / HTTP/1.1\r\nHost: a.example\r\n\n", 400),
    "CR within a field": (lines("X: a\rY: b"), 400),
    "CR CR LF": (lines("X: a\r"), 400),
    "CR within the request line": (lines(line="GET / HTTP/1.1\r"), 400),
    "NUL in a value": (lines("X: a\0b"), 400),
    "NUL in a name": (lines("X\0: a"), 400),
    "control character in a value": (lines("X: a\x01b"), 400),
    "DEL in a value": (lines("X: a\x7f"), 400),
    "space before the colon": (lines("X : a"), 400),
    "tab before the colon": (lines("Content-Length\t: 3", line=POST) + b"abc", 400),
    "no colon": (lines("Accept"), 400),
    "empty name": (lines(": a"), 400),
    "name that is not a token": (lines("X(y): a"), 400),
    "name beyond ASCII": (lines("X\xe4: a"), 400),
    "name with a space": (lines("X y: a"), 400),
    # host
    "no host": (lines(host=""), 400),
    "no host in HTTP/1.0": (lines(line="GET / HTTP/1.0", host=""), 400),
    "two hosts": (lines("Host: b.example"), 400),
    "the same host twice": (lines("Host: a.example"), 400),
    "empty host": (lines(host="Host:"), 400),
    "host with a user": (lines(host="Host: x@a.example"), 400),
    "host with a path": (lines(host="Host: a.example/x"), 400),
    "host with a space": (lines(host="Host: a.example b"), 400),
    "list of hosts": (lines(host="Host: a.example, b.example"), 400),
    "host with a large port": (lines(host="Host: a.example:65536"), 400),
    "host with an empty port": (lines(host="Host: a.example:"), 400),
    "host beyond ASCII": (lines(host="Host: \xe4.example"), 400),
    "URL with another host": (lines(line="GET http://b.example/ HTTP/1.1"), 400),
    "URL with another port": (lines(line="GET http://a.example:81/ HTTP/1.1"), 400),
    "URL with a user": (lines(line="GET http://x@a.example/ HTTP/1.1"), 400),
    "URL without host": (lines(line="GET http:///x HTTP/1.1"), 400),
    "URL with another scheme": (lines(line="GET ftp://a.example/ HTTP/1.1"), 400),
    # request line
    "HTTP/0.9": (b"GET /\r\n", 400),
    "HTTP/2.0": (lines(line="GET / HTTP/2.0"), 505),
    "HTTP/1.2": (lines(line="GET / HTTP/1.2"), 505),
    "HTTP/0.9 with version": (lines(line="GET / HTTP/0.9"), 505),
    "version of two digits": (lines(line="GET / HTTP/1.10"), 400),
    "version in lower case": (lines(line="GET / http/1.1"), 400),
    "no version": (lines(line="GET / HTTP/"), 400),
    "preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "two spaces": (lines(line="GET  / HTTP/1.1"), 400),
    "space at the end": (lines(line="GET / HTTP/1.1 "), 400),
    "space ahead": (lines(line=" GET / HTTP/1.1"), 400),
    "tab": (lines(line="GET\t/ HTTP/1.1"), 400),
    "space in the target": (lines(line="GET /a b HTTP/1.1"), 400),
    "method that is not a token": (lines(line="GE(T / HTTP/1.1"), 400),
    "method of 65 characters": (lines(line="G" * 65 + " / HTTP/1.1"), 400),
    "CONNECT": (lines(line="CONNECT a.example:443 HTTP/1.1"), 405),
    "TRACE": (lines(line="TRACE / HTTP/1.1"), 405),
    "asterisk of GET": (lines(line="GET * HTTP/1.1"), 400),
    "authority form": (lines(line="GET a.example:80 HTTP/1.1"), 400),
    "relative path": (lines(line="GET a HTTP/1.1"), 400),
    "fragment": (lines(line="GET /#a HTTP/1.1"), 400),
    "target beyond ASCII": (lines(line="GET /\xc3\xbc HTTP/1.1"), 400),
    "NUL in the target": (lines(line="GET /\0 HTTP/1.1"), 400),
    "encoded NUL": (lines(line="GET /a%00 HTTP/1.1"), 400),
    "bad percent-encoding": (lines(line="GET /%zz HTTP/1.1"), 400),
    "cut percent-encoding": (lines(line="GET /%4 HTTP/1.1"), 400),
    "two empty lines ahead": (b"\r\n\r\n" + lines(), 400),
    "LF ahead": (b"\n" + lines(), 400),
    "TLS handshake": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", 400),
    # limits
    "long request line": (lines(line=f"GET /{'a' * 20000} HTTP/1.1"), 414),
    "request line that does not end": (b"GET /" + b"a" * 20000, 414),
    "long field": (lines(f"X: {'a' * 70000}"), 431),
    "many fields": (lines(*["X: a"] * 200), 431),
    "head that does not end": (lines()[:-2] + b"X: a\r\n" * 20000, 431),
    # expectations and upgrades
    "another expectation": (lines("Expect: 200-ok", line=POST), 417),
    "two expectations": (lines("Expect: 100-continue", "Expect: 100-continue", line=POST), 417),
    "upgrade that is no token": (lines("Connection: upgrade", "Upgrade: a b"), 400),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", REFUSED)
def test_request_is_refused_with_all_that_follows(name: str, size: int) -> None:
    data, status = REFUSED[name]
    if size < 64 and len(data) > 4096:
        size = 4096
    found = read(data + lines(line="GET /smuggled HTTP/1.1"), size)
    assert found == [status]


@pytest.mark.parametrize("size", SIZES)
def test_one_empty_line_between_requests_is_skipped(size: int) -> None:
    post = lines("Content-Length: 2", line=POST) + b"ab"
    found = read(post + b"\r\n" + post + b"\r\n\r\n" + post, size)
    assert [entry.body if isinstance(entry, Exchange) else entry for entry in found] == [b"ab", b"ab", 400]


@pytest.mark.parametrize("size", SIZES)
def test_requests_before_a_refused_one_are_read(size: int) -> None:
    found = read(lines() + lines("Content-Length: 2", line=POST) + b"ab" + lines("X : a") + lines(), size)
    assert [entry.body if isinstance(entry, Exchange) else entry for entry in found] == [b"", b"ab", 400]


@pytest.mark.parametrize("size", SIZES)
def test_trailers_are_read_without_those_that_must_not_be_there(size: int) -> None:
    trailers = b"Grpc-Status: 0\r\nHost: b\r\nAuthorization: x\r\nSet-Cookie: y\r\nX: z\r\n"
    [entry] = read(CHUNKS + b"1\r\nx\r\n0\r\n" + trailers + b"\r\n", size)
    assert isinstance(entry, Exchange)
    assert entry.trailers == ((b"grpc-status", b"0"), (b"x", b"z"))


KEEP_ALIVE = [
    ("HTTP/1.1", [], True),
    ("HTTP/1.1", ["Connection: Close"], False),
    ("HTTP/1.1", ["Connection: keep-alive, close"], False),
    ("HTTP/1.1", ["Connection: keep-alive", "Connection: close"], False),
    ("HTTP/1.1", ["Connection: ,, ,"], True),
    ("HTTP/1.0", [], False),
    ("HTTP/1.0", ["Connection: Keep-Alive"], True),
    ("HTTP/1.0", ["Connection: keep-alive, close"], False),
]


@pytest.mark.parametrize(("version", "fields", "keeps"), KEEP_ALIVE)
def test_connection_stays_open_as_the_client_says(version: str, fields: list[str], keeps: bool) -> None:
    entries = read(lines(*fields, line=f"GET / {version}"))
    assert [entry.keep_alive for entry in entries if isinstance(entry, Exchange)] == [keeps]


EXPECTATIONS = [
    (lines("Expect: 100-Continue", "Content-Length: 1", line=POST) + b"x", True),
    (lines("Expect: 100-continue", CHUNKED, line=POST) + b"0\r\n\r\n", True),
    (lines("Expect: 100-continue", line=POST), False),  # no body to wait for
    (lines("Expect: 100-continue", "Content-Length: 1", line="POST / HTTP/1.0") + b"x", False),
]


@pytest.mark.parametrize(("data", "expects"), EXPECTATIONS)
def test_expectation_is_reported_and_not_forwarded(data: bytes, expects: bool) -> None:
    [entry] = read(data)
    assert isinstance(entry, Exchange)
    assert (entry.expects_continue, entry.head.headers) == (expects, ())


def test_next_request_is_read_when_it_is_asked_for() -> None:
    reader = Http1RequestReader()
    reader.feed(lines(line="GET /a HTTP/1.1") + lines("X : bad", line="GET /b HTTP/1.1"))
    assert isinstance(reader.next_event(), RequestHead)
    with pytest.raises(ValueError, match="not ended"):
        reader.next_request()
    assert reader.next_event() == BodyEnd()
    assert reader.next_event() is None
    reader.next_request()
    with pytest.raises(HttpSyntaxError):
        reader.next_event()


def test_no_request_follows_the_last_one() -> None:
    reader = Http1RequestReader()
    reader.feed(lines("Connection: close") + lines())
    assert isinstance(reader.next_event(), RequestHead)
    assert reader.next_event() == BodyEnd()
    assert reader.next_event() is None
    with pytest.raises(ValueError, match="last one"):
        reader.next_request()


def test_bytes_after_an_upgrade_are_not_read_as_requests() -> None:
    reader = Http1RequestReader()
    reader.feed(lines("Connection: Upgrade", "Upgrade: websocket") + b"\x81\x01x")
    head = reader.next_event()
    assert isinstance(head, RequestHead)
    assert head.upgrade == "websocket"
    assert reader.next_event() == BodyEnd()
    assert reader.take_rest() == b"\x81\x01x"
    assert reader.next_event() is None


def test_pipelined_bytes_have_a_limit() -> None:
    reader = Http1RequestReader(Http1Limits(waiting=100))
    reader.feed(lines())
    while reader.next_event() is not None:
        pass
    reader.feed(b"x" * 90)
    reader.feed(b"x" * 90)
    with pytest.raises(HttpSyntaxError, match="ahead"):
        reader.feed(b"x")


def test_body_is_returned_as_it_comes() -> None:
    reader = Http1RequestReader()
    reader.feed(lines("Content-Length: 5368709120", line=POST))
    assert isinstance(reader.next_event(), RequestHead)
    piece = b"x" * 65536
    for _ in range(100):
        reader.feed(piece)
        event = reader.next_event()
        assert isinstance(event, BodyData)
        assert event.data is piece
        assert reader.next_event() is None
        assert reader.waiting == 0
