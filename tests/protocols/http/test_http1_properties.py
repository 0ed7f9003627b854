"""Properties of the HTTP/1.1 codec: pieces do not matter, what is written is read back, other readers agree.

h11 and llhttp (by httptools) are more lenient than our reader. So only one direction holds: what our reader accepts,
they read in the same way. A message that two readers understand differently is what request smuggling needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import h11
import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from postern.protocols.http.http1.http1_events import BodyData, BodyEnd
from postern.protocols.http.http1.http1_request_reader import Http1RequestReader
from postern.protocols.http.http1.http1_response_reader import Http1ResponseReader
from postern.protocols.http.http1.http1_writer import (
    chunk,
    is_chunked,
    last_chunk,
    request_head_bytes,
    response_head_bytes,
)
from postern.protocols.http.http_heads import HOP_BY_HOP, RequestHead, ResponseHead
from postern.protocols.http.http_syntax import FORBIDDEN_TRAILERS, HttpSyntaxError

Events = list[object]

REQUEST_PARTS = [
    *(b"GET / HTTP/1.1\r\n", b"POST /a?b HTTP/1.1\r\n", b"GET http://a/ HTTP/1.1\r\n", b"HEAD / HTTP/1.0\r\n"),
    *(b"Host: a\r\n", b"Host: b\r\n", b"\r\n", b"\r", b"\n", b" ", b"\0", b":", b"a", b"\xff", b"%", b";x"),
    *(b"Content-Length: 3\r\n", b"Content-Length: 0\r\n", b"Content-Length: 3, 3\r\n", b"content-length:+3\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding : chunked\r\n"),
    *(b"Transfer-Encoding:\r\n chunked\r\n", b"Connection: close\r\n", b"Connection: x, keep-alive\r\n", b"X: y\r\n"),
    *(b"Expect: 100-continue\r\n", b"abc", b"3\r\nabc\r\n", b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"1;a=b\r\nx\r\n"),
    *(b"0\r\nX: y\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
]
RESPONSE_PARTS = [
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 204 No\r\n", b"HTTP/1.0 304\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
    *(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n", *REQUEST_PARTS[4:]),
]
# A whole message with parts put into it anywhere.
SKELETONS = [
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX: y\r\n\r\nabcGET /next HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    b"GET /n HTTP/1.1\r\nHost: a\r\n\r\n",
]
ANSWER_SKELETONS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX: y\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nabc",
]


@st.composite
def messages(draw: st.DrawFn, skeletons: Sequence[bytes], parts: Sequence[bytes]) -> bytes:
    data = draw(st.sampled_from(skeletons) | st.lists(st.sampled_from(parts), max_size=8).map(b"".join))
    for part in draw(st.lists(st.sampled_from(parts), max_size=2)):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + part + data[at + draw(st.sampled_from((0, 0, 1, 2))) :]
    return data


REQUEST_BYTES = messages(SKELETONS, REQUEST_PARTS)
RESPONSE_BYTES = messages(ANSWER_SKELETONS, RESPONSE_PARTS)
PIECES = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def pieces(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Cut data into pieces of these sizes in turn."""
    cut, at, turn = [], 0, 0
    while at < len(data):
        cut.append(data[at : at + sizes[turn % len(sizes)]])
        at += sizes[turn % len(sizes)]
        turn += 1
    return cut


def take(next_event: Callable[[], object], events: Events) -> None:
    """Add the events so far; data that follow other data are joined."""
    while (event := next_event()) is not None:
        if isinstance(event, BodyData) and events and isinstance(events[-1], BodyData):
            event = BodyData(events.pop().data + event.data)  # type: ignore[attr-defined]
        events.append(event)


def request_events(cut: Sequence[bytes]) -> Events:
    """Return the events of all requests, and the status and text of a refusal."""
    reader, events = Http1RequestReader(), Events()
    try:
        for piece in cut:
            reader.feed(piece)
            take(reader.next_event, events)
            while reader.is_done and reader.keep_alive:
                events.append((reader.minor_version, reader.expects_continue))
                reader.next_request()
                take(reader.next_event, events)
    except HttpSyntaxError as error:
        events.append((error.status, str(error)))
    return events


def response_events(cut: Sequence[bytes], method: str = "GET") -> Events:
    reader, events = Http1ResponseReader(), Events()
    reader.begin(method, upgrade=True)
    try:
        for piece in cut:
            reader.feed(piece)
            take(reader.next_event, events)
        reader.end_of_stream()
        take(reader.next_event, events)
        events.append((reader.minor_version, reader.may_continue, reader.upgraded_to))
    except HttpSyntaxError as error:
        events.append((error.status, str(error)))
    return events


@example(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n", [1])
@given(REQUEST_BYTES, PIECES)
def test_pieces_of_requests_do_not_matter(data: bytes, sizes: list[int]) -> None:
    assert request_events(pieces(data, sizes)) == request_events([data])


@given(RESPONSE_BYTES, PIECES, st.sampled_from(("GET", "HEAD")))
def test_pieces_of_responses_do_not_matter(data: bytes, sizes: list[int], method: str) -> None:
    assert response_events(pieces(data, sizes), method) == response_events([data], method)


@given(st.binary(max_size=200), PIECES)
def test_any_bytes_are_requests_or_a_syntax_error(data: bytes, sizes: list[int]) -> None:
    assert request_events(pieces(data, sizes)) == request_events([data])


TOKENS = st.text("abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~", min_size=1, max_size=12)
CONTROLLED = HOP_BY_HOP | {b"content-length", b"host", b"expect"}
NAMES = TOKENS.map(str.encode).filter(lambda name: name not in CONTROLLED)
VALUES = st.text([chr(code) for code in (9, *range(32, 127), *range(128, 256))], max_size=20).map(
    lambda text: text.strip("\t ").encode("latin-1")
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=8).map(tuple)
TRAILER_FIELDS = st.lists(st.tuples(NAMES.filter(lambda name: name not in FORBIDDEN_TRAILERS), VALUES), max_size=3).map(
    tuple
)
METHODS = st.sampled_from(("GET", "POST", "PUT", "DELETE", "OPTIONS", "M-SEARCH"))
VISIBLE = [chr(code) for code in range(33, 127)]
TARGETS = st.tuples(
    st.text([mark for mark in VISIBLE if mark not in "#%?"], max_size=12),
    st.text([*VISIBLE[:2], *VISIBLE[3:]], max_size=12),
).map("?".join)
AUTHORITIES = st.sampled_from(("a", "app.example:8443", "[::1]:80", "10.0.0.1", "my_app-1.local"))
BODIES = st.lists(st.binary(max_size=20), max_size=4)
UPGRADES = st.sampled_from(("", "websocket", "spdy/3.1"))


@given(METHODS, TARGETS, AUTHORITIES, FIELDS, BODIES, TRAILER_FIELDS, UPGRADES, PIECES, st.booleans())
def test_written_request_is_read_back(
    method: str,
    target: str,
    authority: str,
    fields: Any,
    body: list[bytes],
    trailers: Any,
    upgrade: str,
    sizes: list[int],
    chunked: bool,
) -> None:
    content = b"".join(body)
    head = RequestHead(method, f"/{target}", authority, fields, None if chunked else len(content), upgrade)
    data = request_head_bytes(head)
    data += b"".join([chunk(piece) for piece in body]) + last_chunk(trailers) if chunked else content
    expected: Events = [head, *([BodyData(content)] if content else []), BodyEnd(trailers if chunked else ())]
    assert request_events(pieces(data, sizes))[: len(expected)] == expected


@given(
    st.integers(200, 999).filter(lambda status: status not in (204, 304)),
    FIELDS,
    BODIES,
    TRAILER_FIELDS,
    PIECES,
    st.booleans(),
)
def test_written_response_is_read_back(
    status: int, fields: Any, body: list[bytes], trailers: Any, sizes: list[int], chunked: bool
) -> None:
    content = b"".join(body)
    head = ResponseHead(status, fields, None if chunked else len(content))
    data = response_head_bytes(head, keep_alive=True)
    assert is_chunked(head) is chunked
    data += b"".join([chunk(piece) for piece in body]) + last_chunk(trailers) if chunked else content
    expected: Events = [head, *([BodyData(content)] if content else []), BodyEnd(trailers if chunked else ())]
    assert response_events(pieces(data, sizes))[: len(expected)] == expected


@given(NAMES | st.binary(max_size=4), VALUES | st.binary(max_size=8))
def test_no_field_adds_a_line(name: bytes, value: bytes) -> None:
    try:
        data = request_head_bytes(RequestHead("GET", "/", "a", ((name, value),)))
    except ValueError:
        return
    assert data.count(b"\r") == data.count(b"\n") == data.count(b"\r\n") == 4
    assert [*map(type, request_events([data]))][:2] == [RequestHead, BodyEnd]


class Understood:
    """A request as another reader understood it."""

    def __init__(self) -> None:
        self.method, self.target = b"", b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.is_complete = False


def read_with_h11(data: bytes) -> list[Understood]:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    requests: list[Understood] = []
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            requests.append(Understood())
            requests[-1].method, requests[-1].target = bytes(event.method), bytes(event.target)
            requests[-1].fields = [(bytes(name), bytes(value)) for name, value in event.headers]
        elif isinstance(event, h11.Data):
            requests[-1].body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            requests[-1].is_complete = True
            connection.send(h11.Response(status_code=200, headers=[(b"content-length", b"0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is h11.DONE and connection.their_state is h11.DONE:
                connection.start_next_cycle()
        else:
            return requests


class Listener:
    """Takes the calls of llhttp."""

    def __init__(self) -> None:
        self.requests: list[Understood] = []
        self._has_head = False

    def on_message_begin(self) -> None:
        self.requests.append(Understood())
        self._has_head = False

    def on_url(self, url: bytes) -> None:
        self.requests[-1].target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # else it is a trailer
            self.requests[-1].fields.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        self.requests[-1].body += body

    def on_message_complete(self) -> None:
        self.requests[-1].is_complete = True


def read_with_llhttp(data: bytes) -> list[Understood]:
    listener = Listener()
    parser: Any = httptools.HttpRequestParser(listener)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserInvalidMethodError:  # it has a list of methods
        return []
    return listener.requests


OTHERS = {"h11": read_with_h11, "llhttp": read_with_llhttp}


def ours(data: bytes) -> tuple[list[tuple[RequestHead, bytes]], bytes]:
    """Return the requests that our reader accepted, and their bytes; without empty lines ahead, which h11 refuses."""
    reader = Http1RequestReader()
    requests: list[tuple[RequestHead, bytes]] = []
    reader.feed(data)
    begin, taken = 0, b""
    try:
        while True:
            events = Events()
            take(reader.next_event, events)
            if not reader.is_done:
                return requests, taken
            head = events[0]
            assert isinstance(head, RequestHead)
            requests.append((head, b"".join([event.data for event in events if isinstance(event, BodyData)])))
            end = len(data) - reader.waiting
            taken += data[begin:end].removeprefix(b"\r\n")
            begin = end
            if not reader.keep_alive or head.upgrade:
                return requests, taken
            reader.next_request()
    except HttpSyntaxError:
        return requests, taken


SMUGGLING = [
    *SKELETONS,
    b"GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nX: y\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\nA: b\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("data", SMUGGLING)
def test_other_readers_understand_the_examples_in_the_same_way(data: bytes, other: str) -> None:
    assert ours(data)[1] == data
    assert_same(data, other)


@pytest.mark.parametrize("other", OTHERS)
@given(data=REQUEST_BYTES)
@example(data=b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nabc")
def test_other_readers_understand_what_was_accepted_in_the_same_way(data: bytes, other: str) -> None:
    assert_same(data, other)


def assert_same(data: bytes, other: str) -> None:
    requests, taken = ours(data)
    if not requests:
        return
    understood = OTHERS[other](taken)
    if other == "llhttp" and not understood:
        return
    assert len(understood) == len(requests)
    for (head, body), same in zip(requests, understood, strict=True):
        assert same.is_complete
        assert same.body == body
        assert same.target.decode().endswith(head.target) or head.target == "/"
        assert same.method in (b"", head.method.encode())
        hidden = {
            name.strip().lower() for key, value in same.fields if key == b"connection" for name in value.split(b",")
        }
        shown = [pair for pair in same.fields if pair[0] not in CONTROLLED and pair[0] not in hidden - {b"close"}]
        assert tuple(shown) == head.headers


class UnderstoodResponse:
    """A response as another reader understood it."""

    def __init__(self) -> None:
        self.status = 0
        self.fields: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.is_complete = False


def read_response_with_h11(data: bytes, method: str) -> UnderstoodResponse:
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
    connection.send(h11.EndOfMessage())
    understood = UnderstoodResponse()
    for piece in (data, b""):
        connection.receive_data(piece)
        while not isinstance(event := connection.next_event(), type(h11.NEED_DATA) | h11.ConnectionClosed):
            if isinstance(event, h11.Response):
                understood.status = event.status_code
                understood.fields = [(bytes(name), bytes(value)) for name, value in event.headers]
            elif isinstance(event, h11.Data):
                understood.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                understood.is_complete = True
                return understood
    return understood


@given(RESPONSE_BYTES, st.sampled_from(("GET", "HEAD")))
@example(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n", "GET")
@example(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "GET")
@example(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", "GET")
def test_h11_understands_accepted_responses_in_the_same_way(data: bytes, method: str) -> None:
    events = response_events([data], method)
    head = events[0]
    if not isinstance(head, ResponseHead) or not any(isinstance(event, BodyEnd) for event in events):
        return
    understood = read_response_with_h11(data, method)
    assert understood.is_complete
    assert understood.status == head.status
    assert understood.body == b"".join([event.data for event in events if isinstance(event, BodyData)])
    named = [value for name, value in understood.fields if name == b"connection"]
    hidden = {name.strip().lower() for value in named for name in value.split(b",")} - {b"close"}
    assert head.headers == tuple(
        pair for pair in understood.fields if pair[0] not in CONTROLLED and pair[0] not in hidden
    )
