"""Exchanges between both ends of HTTP/2: heads, bodies, trailers, windows, resets, and the end of connections."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.http2_peers import (
    GET,
    POST,
    PREFACE,
    Fields,
    Http2Peer,
    data,
    frames_of,
    go_away,
    goaway_codes,
    ping,
    raw,
    reset,
    reset_codes,
    settings,
    window_update,
)

from postern.protocols.http.http2.http2_client import Http2ClientConnection
from postern.protocols.http.http2.http2_events import (
    CONNECTION,
    Http2Code,
    Http2Continue,
    Http2Data,
    Http2End,
    Http2Event,
    Http2Failed,
    Http2GoingAway,
    Http2Limits,
    Http2Request,
    Http2RequestRefused,
    Http2Reset,
    Http2Response,
    Http2WindowOpened,
)
from postern.protocols.http.http2.http2_server import Http2ServerConnection
from postern.protocols.http.http_heads import RequestHead, ResponseHead


class Pair:
    """A client and a server that are connected; bytes travel in pieces of `size`."""

    def __init__(self, size: int = 1 << 20) -> None:
        self.client, self.server, self._size = Http2ClientConnection(), Http2ServerConnection(), size
        self.exchange()

    def exchange(self) -> tuple[list[Http2Event], list[Http2Event]]:
        """Return the events of the client and the server, without those of windows."""
        for_client, for_server = list[Http2Event](), list[Http2Event]()
        while sent := self.client.data_to_send():
            for_server += self._feed(self.server, sent)
            for_client += self._feed(self.client, self.server.data_to_send())
        while sent := self.server.data_to_send():
            for_client += self._feed(self.client, sent)
        return _without_windows(for_client), _without_windows(for_server)

    def _feed(self, end: Http2ClientConnection | Http2ServerConnection, sent: bytes) -> list[Http2Event]:
        return [event for at in range(0, len(sent), self._size) for event in end.receive(sent[at : at + self._size])]


def _without_windows(events: Sequence[Http2Event]) -> list[Http2Event]:
    return [event for event in events if not isinstance(event, Http2WindowOpened)]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_request_and_response_with_bodies_and_trailers(size: int) -> None:
    pair = Pair(size)
    request = RequestHead("POST", "/a?b=%20", "app.example:8443", ((b"x", b"y"), (b"cookie", b"a=b; c=d")), None)
    stream_id = pair.client.send_request(request, "https")
    pair.client.send_data(stream_id, b"hello")
    pair.client.send_end(stream_id, ((b"x-sum", b"1"),))
    _, events = pair.exchange()
    assert events == [
        Http2Request(1, request),
        Http2Data(1, b"hello", 5),
        Http2End(1, ((b"x-sum", b"1"),)),
    ]
    response = ResponseHead(200, ((b"content-type", b"application/grpc"), (b"set-cookie", b"a"), (b"set-cookie", b"b")))
    pair.server.send_response(1, response)
    pair.server.send_data(1, b"world")
    pair.server.send_end(1, ((b"grpc-status", b"0"),))
    events, _ = pair.exchange()
    assert events == [
        Http2Response(1, response),
        Http2Data(1, b"world", 5),
        Http2End(1, ((b"grpc-status", b"0"),)),
    ]
    assert (pair.client.open_streams, pair.server.open_streams) == (0, 0)


def test_messages_without_body() -> None:
    pair = Pair()
    stream_id = pair.client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    _, events = pair.exchange()
    assert events == [Http2Request(1, RequestHead("GET", "/", "a")), Http2End(1)]
    pair.server.send_response(stream_id, ResponseHead(200, (), 0), end=True)
    events, _ = pair.exchange()
    assert events == [Http2Response(1, ResponseHead(200, (), 0)), Http2End(1)]


def test_continue_is_asked_and_answered() -> None:
    server, client, peer = Http2ServerConnection(), Http2ClientConnection(), Http2Peer()
    [*_, event] = server.receive(PREFACE + settings() + peer.headers(1, [*POST, ("expect", "100-Continue")], end=False))
    assert event == Http2Request(1, RequestHead("POST", "/", "a.example", (), None), True)
    client.send_request(RequestHead("POST", "/", "a", (), 1), "https")
    server.send_continue(1)
    assert _without_windows(client.receive(server.data_to_send())) == [Http2Continue(1)]


REQUESTS: dict[str, tuple[Fields, bool, RequestHead]] = {
    "host in capitals": (
        [*GET[:2], (":authority", "A.Example:80"), GET[3]],
        True,
        RequestHead("GET", "/", "a.example:80"),
    ),
    "host alone": ([*GET[:2], GET[3], ("host", "A")], True, RequestHead("GET", "/", "a")),
    "host equal to authority": ([*GET, ("host", "A.example")], True, RequestHead("GET", "/", "a.example")),
    "cookies are joined": (
        [*GET, ("cookie", "a=b"), ("x", "y"), ("cookie", "c=d")],
        True,
        RequestHead("GET", "/", "a.example", ((b"x", b"y"), (b"cookie", b"a=b; c=d"))),
    ),
    "length": ([*POST, ("content-length", "5")], False, RequestHead("POST", "/", "a.example", (), 5)),
    "length of zero": ([*POST, ("content-length", "0")], True, RequestHead("POST", "/", "a.example")),
    "length unknown": (POST, False, RequestHead("POST", "/", "a.example", (), None)),
    "fields of the connection": (
        [*GET, ("te", "trailers"), ("trailer", "x"), ("proxy-authorization", "y"), ("http2-settings", "z")],
        True,
        RequestHead("GET", "/", "a.example"),
    ),
    "asterisk": ([(":method", "OPTIONS"), *GET[1:3], (":path", "*")], True, RequestHead("OPTIONS", "*", "a.example")),
    "plain scheme": ([GET[0], (":scheme", "http"), *GET[2:]], True, RequestHead("GET", "/", "a.example")),
    "value beyond ASCII": (
        [*GET, (b"x", b"\xff")],
        True,
        RequestHead("GET", "/", "a.example", ((b"x", b"\xff"),)),
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_request_is_read(name: str) -> None:
    fields, end, head = REQUESTS[name]
    server, peer = Http2ServerConnection(), Http2Peer()
    server.receive(PREFACE + settings())
    assert server.receive(peer.headers(1, fields, end=end))[0] == Http2Request(1, head)


REFUSALS: dict[str, tuple[Fields, bool, int]] = {
    "CONNECT": ([(":method", "CONNECT"), GET[2]], False, 405),
    "TRACE": ([(":method", "TRACE"), *GET[1:]], True, 405),
    "method that is not a token": ([(":method", "G ET"), *GET[1:]], True, 400),
    "no authority": ([*GET[:2], GET[3]], True, 400),
    "empty authority": ([*GET[:2], (":authority", ""), GET[3]], True, 400),
    "authority with a user": ([*GET[:2], (":authority", "x@a"), GET[3]], True, 400),
    "another host": ([*GET, ("host", "b.example")], True, 400),
    "relative path": ([*GET[:3], (":path", "a")], True, 400),
    "absolute path": ([*GET[:3], (":path", "https://b/")], True, 400),
    "fragment": ([*GET[:3], (":path", "/#a")], True, 400),
    "space in the path": ([*GET[:3], (":path", "/a b HTTP/1.1")], True, 400),
    "path beyond ASCII": ([*GET[:3], (b":path", b"/\xff")], True, 400),
    "encoded NUL": ([*GET[:3], (":path", "/%00")], True, 400),
    "asterisk of GET": ([*GET[:3], (":path", "*")], True, 400),
    "HEAD with a body": ([(":method", "HEAD"), *GET[1:]], False, 400),
    "other expectation": ([*POST, ("expect", "x")], False, 417),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_request_is_refused_and_answered(name: str) -> None:
    fields, end, status = REFUSALS[name]
    server, peer = Http2ServerConnection(), Http2Peer()
    server.receive(PREFACE + settings())
    [refusal] = server.receive(peer.headers(1, fields, end=end))
    assert isinstance(refusal, Http2RequestRefused)
    assert (refusal.stream_id, refusal.status) == (1, status)
    server.send_response(1, ResponseHead(status, (), 2))
    server.send_data(1, b"no", end=True)
    if not end:  # its body is not returned
        assert server.receive(data(1, b"x" * 100) + data(1, end=True)) == []
    assert server.open_streams == 0
    assert not server.has_failed


RESPONSES: dict[str, tuple[str, Fields, bool, ResponseHead]] = {
    "length": ("GET", [(":status", "200"), ("content-length", "5")], False, ResponseHead(200, (), 5)),
    "length unknown": ("GET", [(":status", "200")], False, ResponseHead(200)),
    "without body": ("GET", [(":status", "200")], True, ResponseHead(200, (), 0)),
    "HEAD": ("HEAD", [(":status", "200"), ("content-length", "5")], True, ResponseHead(200, (), 5, False)),
    "HEAD without length": ("HEAD", [(":status", "200")], True, ResponseHead(200, (), None, False)),
    "204": ("GET", [(":status", "204")], True, ResponseHead(204, (), None, False)),
    "304": ("GET", [(":status", "304"), ("content-length", "5")], True, ResponseHead(304, (), 5, False)),
    "other status": ("GET", [(":status", "999")], True, ResponseHead(999, (), 0)),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_response_is_read(name: str) -> None:
    method, fields, end, head = RESPONSES[name]
    client, peer = Http2ClientConnection(), Http2Peer()
    client.send_request(RequestHead(method, "/", "a"), "https", end=True)
    client.receive(settings())
    assert client.receive(peer.headers(1, fields, end=end))[0] == Http2Response(1, head)


def test_empty_data_end_a_304_with_a_length() -> None:
    client, peer = Http2ClientConnection(), Http2Peer()
    client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    head = peer.headers(1, [(":status", "304"), ("content-length", "5")], end=False)
    events = _without_windows(client.receive(settings() + head + data(1, end=True)))
    assert events == [Http2Response(1, ResponseHead(304, (), 5, False)), Http2End(1)]


BAD_RESPONSES: dict[str, Fields] = {
    "no status": [("x", "y")],
    "status twice": [(":status", "200"), (":status", "200")],
    "status that is no number": [(":status", "2x0")],
    "status of two digits": [(":status", "20")],
    "101": [(":status", "101")],
    "pseudo-header of requests": [(":status", "200"), (":path", "/")],
    "connection": [(":status", "200"), ("connection", "close")],
    "LF": [(":status", "200"), ("x", "a\nb")],
    "capitals": [(":status", "200"), (b"X", b"a")],
    "many fields": [(":status", "200"), *[("x", "y")] * 300],
    "length without body": [(":status", "200"), ("content-length", "5")],
}


@pytest.mark.parametrize("name", BAD_RESPONSES)
def test_malformed_response_ends_its_stream_alone(name: str) -> None:
    client, peer = Http2ClientConnection(), Http2Peer()
    client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    client.receive(settings())
    client.data_to_send()
    events = client.receive(peer.headers(1, BAD_RESPONSES[name], end=name != "101"))
    assert [type(event) for event in events] == [Http2Reset]
    if name == "101":  # else the stream has ended in both directions
        assert reset_codes(frames_of(client.data_to_send())) == [(1, Http2Code.PROTOCOL_ERROR)]
    assert isinstance(client.receive(peer.headers(3, [(":status", "200")]))[0], Http2Response)


def test_body_that_is_longer_than_its_length_ends_its_stream_alone() -> None:
    client, peer = Http2ClientConnection(), Http2Peer()
    client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    client.receive(settings() + peer.headers(1, [(":status", "200"), ("content-length", "1")], end=False))
    [event] = client.receive(data(1, b"ab"))
    assert event == Http2Reset(1, Http2Code.PROTOCOL_ERROR, "the body is longer than its content-length")
    assert not client.has_failed


def test_body_of_a_response_without_body_ends_its_stream() -> None:
    client, peer = Http2ClientConnection(), Http2Peer()
    client.send_request(RequestHead("HEAD", "/", "a"), "https", end=True)
    client.receive(settings() + peer.headers(1, [(":status", "200")], end=False))
    assert [type(event) for event in client.receive(data(1, b"x"))] == [Http2Reset]


def test_push_of_a_target_ends_the_connection() -> None:
    client, peer = Http2ClientConnection(), Http2Peer()
    client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    promise = raw(5, 1, b"\0\0\0\x02" + peer.block(GET), 4)
    assert isinstance(client.receive(settings() + promise)[-1], Http2Failed)


def test_request_carries_its_secrets_out_of_the_tables_of_hpack() -> None:
    client = Http2ClientConnection()
    head = RequestHead("GET", "/", "a", ((b"authorization", b"secret"), (b"x", b"y")))
    client.send_request(head, "https", end=True)
    table = client._library.encoder.header_table.dynamic_entries
    assert (b"x", b"y") in table
    assert not any(name == b"authorization" for name, _ in table)


def test_te_trailers_is_sent_and_not_returned() -> None:
    pair = Pair()
    pair.client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    sent = pair.client.data_to_send()
    block = b"".join([frame.data for frame in frames_of(sent) if hasattr(frame, "data")])
    assert (b"te", b"trailers") in [tuple(pair) for pair in Http2PeerDecoder().decode(block)]


class Http2PeerDecoder:
    def decode(self, block: bytes) -> Sequence[tuple[bytes, bytes]]:
        from hpack import Decoder

        return [(bytes(name), bytes(value)) for name, value in Decoder().decode(block, raw=True)]


BAD_REQUESTS = [
    RequestHead("GET", "/", "a", ((b"x", b"a\nb"),)),
    RequestHead("GET", "/", "a", ((b"X", b"a"),)),
    RequestHead("GET", "/", "a", ((b":path", b"/x"),)),
    RequestHead("GET", "/", "a", ((b"host", b"b"),)),
    RequestHead("GET", "/", "a", ((b"content-length", b"1"),)),
    RequestHead("GET", "/", "a", ((b"connection", b"close"),)),
    RequestHead("GET", "x", "a"),
    RequestHead("GET", "/\n", "a"),
    RequestHead("G T", "/", "a"),
    RequestHead("GET", "/", "a b"),
    RequestHead("GET", "/", "a", (), 0, "websocket"),
]


@pytest.mark.parametrize("head", BAD_REQUESTS)
def test_request_that_is_not_valid_is_not_sent(head: RequestHead) -> None:
    client = Http2ClientConnection()
    with pytest.raises(ValueError):
        client.send_request(head, "https")
    assert client.open_streams == 0
    assert client.send_request(RequestHead("GET", "/", "a"), "https") == 1


BAD_ANSWERS = [
    *(ResponseHead(101), ResponseHead(1000), ResponseHead(200, ((b"x", b"\r"),)), ResponseHead(200, ((b"te", b"x"),))),
    *(ResponseHead(200, ((b"transfer-encoding", b"chunked"),)), ResponseHead(200, ((b"x y", b""),))),
]


@pytest.mark.parametrize("head", BAD_ANSWERS)
def test_response_that_is_not_valid_is_not_sent(head: ResponseHead) -> None:
    pair = Pair()
    pair.client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    pair.exchange()
    with pytest.raises(ValueError):
        pair.server.send_response(1, head)
    pair.server.send_response(1, ResponseHead(200))
    with pytest.raises(ValueError):
        pair.server.send_end(1, ((b"content-length", b"1"),))


def test_windows_limit_what_is_sent() -> None:
    server, peer = Http2ServerConnection(), Http2Peer()
    server.receive(PREFACE + settings({4: 10}) + peer.headers(1) + peer.headers(3))
    for stream_id in (1, 3):
        server.send_response(stream_id, ResponseHead(200))
    assert server.sendable(1) == 10
    with pytest.raises(ValueError, match="exceed"):
        server.send_data(1, b"x" * 11)
    server.send_data(1, b"x" * 10)
    assert (server.sendable(1), server.sendable(3)) == (0, 10)
    assert server.receive(window_update(1, 5)) == [Http2WindowOpened(1)]
    assert server.sendable(1) == 5
    assert server.receive(settings({4: 2})) == [Http2WindowOpened(CONNECTION)]
    assert (server.sendable(1), server.sendable(3)) == (0, 2)  # the first is negative
    assert server.receive(settings({4: 100_000})) == [Http2WindowOpened(CONNECTION)]
    assert server.sendable(3) == 65535 - 10  # the connection's


def test_large_body_is_sent_in_frames() -> None:
    pair = Pair()
    pair.client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    pair.exchange()
    pair.server.send_response(1, ResponseHead(200))
    pair.server.send_data(1, b"x" * 200_000, end=True)
    events, _ = pair.exchange()
    pieces = [event.data for event in events if isinstance(event, Http2Data)]
    assert b"".join(pieces) == b"x" * 200_000


def test_window_is_opened_by_what_was_acknowledged() -> None:
    pair = Pair()
    stream_id = pair.client.send_request(RequestHead("POST", "/", "a", (), None), "https")
    pair.exchange()
    window = pair.client.sendable(stream_id)
    assert window == 256 * 1024
    pair.client.send_data(stream_id, b"x" * window)
    _, events = pair.exchange()
    assert pair.client.sendable(stream_id) == 0
    sizes = [event.size for event in events if isinstance(event, Http2Data)]
    for size in sizes[: len(sizes) // 2 + 1]:
        pair.server.acknowledge(stream_id, size)
    pair.exchange()
    assert pair.client.sendable(stream_id) >= window // 2
    for size in sizes:
        pair.server.acknowledge(stream_id, size)  # more than there is to acknowledge
    pair.exchange()
    assert pair.client.sendable(stream_id) <= window


def test_windows_survive_streams_that_are_reset() -> None:
    """What was not acknowledged of a stream that ended must not be lost to the connection's window."""
    pair = Pair()
    for _ in range(50):
        stream_id = pair.client.send_request(RequestHead("POST", "/", "a", (), None), "https")
        pair.client.send_data(stream_id, b"x" * 100_000)
        pair.exchange()
        pair.server.reset(stream_id, Http2Code.CANCEL)
        events, _ = pair.exchange()
        assert [type(event) for event in events] == [Http2Reset]
    assert not pair.server.has_failed


def test_reset_by_the_client_drops_what_is_sent_afterwards() -> None:
    pair = Pair()
    stream_id = pair.client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    pair.exchange()
    pair.server.send_response(stream_id, ResponseHead(200))
    pair.client.reset(stream_id, Http2Code.CANCEL)
    _, events = pair.exchange()
    assert events == [Http2Reset(stream_id, Http2Code.CANCEL, "the peer ended the stream")]
    assert pair.server.sendable(stream_id) > 0
    pair.server.send_data(stream_id, b"x" * 100)
    pair.server.send_end(stream_id)
    pair.server.reset(stream_id)
    pair.server.acknowledge(stream_id, 5)
    assert pair.server.data_to_send() == b""


def test_first_settings_are_reported() -> None:
    client = Http2ClientConnection()
    assert client.receive(settings()[:-1]) == []
    assert client.receive(settings()[-1:]) == [Http2WindowOpened(CONNECTION)]


def test_body_after_its_end_is_not_sent() -> None:
    client = Http2ClientConnection()
    stream_id = client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    client.send_end(stream_id)  # once more
    with pytest.raises(ValueError, match="after its end"):
        client.send_data(stream_id, b"x")


def test_interim_response_to_a_reset_stream_ends_nothing_else() -> None:
    client, peer = Http2ClientConnection(), Http2Peer()
    for _ in range(2):
        client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    client.receive(settings())
    client.reset(1, Http2Code.CANCEL)
    assert client.receive(peer.headers(1, [(":status", "103")], end=False)) == []
    assert isinstance(client.receive(peer.headers(3, [(":status", "200")]))[0], Http2Response)


def test_response_that_does_not_need_the_whole_request_resets_without_an_error() -> None:
    pair = Pair()
    stream_id = pair.client.send_request(RequestHead("POST", "/", "a", (), None), "https")
    pair.exchange()
    pair.server.send_response(stream_id, ResponseHead(413, (), 0), end=True)
    pair.server.reset(stream_id)
    events, _ = pair.exchange()
    assert [type(event) for event in events] == [Http2Response, Http2End, Http2Reset]
    assert isinstance(events[2], Http2Reset)
    assert events[2].code == Http2Code.NO_ERROR


def test_refused_request_can_be_sent_again() -> None:
    client = Http2ClientConnection()
    stream_id = client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    [event] = _without_windows(client.receive(settings() + reset(stream_id, Http2Code.REFUSED_STREAM)))
    assert isinstance(event, Http2Reset)
    assert event.is_unprocessed


def test_target_limits_the_requests() -> None:
    client, peer = Http2ClientConnection(), Http2Peer()
    client.receive(settings({3: 1}))
    assert client.can_send_request
    client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    assert not client.can_send_request
    with pytest.raises(ValueError, match="no more"):
        client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    client.receive(peer.headers(1, [(":status", "200")]))
    assert client.can_send_request


def test_target_that_goes_away_finishes_what_it_accepted() -> None:
    client, peer = Http2ClientConnection(), Http2Peer()
    for _ in range(2):
        client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    events = _without_windows(client.receive(settings() + go_away(1)))
    assert [type(event) for event in events] == [Http2GoingAway, Http2Reset]
    assert isinstance(events[1], Http2Reset)
    assert (events[1].stream_id, events[1].is_unprocessed) == (3, True)
    assert not client.can_send_request
    events = client.receive(peer.headers(1, [(":status", "200")], end=False) + data(1, b"x", end=True))
    assert [type(event) for event in events] == [Http2Response, Http2Data, Http2End]
    assert client.open_streams == 0
    assert not client.has_failed


def test_server_that_goes_away_finishes_what_it_accepted() -> None:
    server, peer = Http2ServerConnection(), Http2Peer()
    server.receive(PREFACE + settings() + peer.headers(1))
    server.go_away()
    frames = frames_of(server.data_to_send())
    assert goaway_codes(frames) == [Http2Code.NO_ERROR]
    assert server.receive(peer.headers(3)) == []
    assert reset_codes(frames_of(server.data_to_send())) == [(3, Http2Code.REFUSED_STREAM)]
    server.send_response(1, ResponseHead(200, (), 2))
    server.send_data(1, b"ok", end=True)
    assert [type(frame).__name__ for frame in frames_of(server.data_to_send())] == ["HeadersFrame", "DataFrame"]
    assert server.open_streams == 0


def test_stream_that_breaks_the_protocol_is_reported() -> None:
    server, peer = Http2ServerConnection(), Http2Peer()
    server.receive(PREFACE + settings() + peer.headers(1))
    events = server.receive(data(1, b"x"))
    assert [type(event) for event in events] == [Http2Reset]
    server.send_response(1, ResponseHead(200))  # dropped
    assert server.open_streams == 0


PARTS = st.lists(
    st.one_of(
        st.sampled_from(
            [settings({4: 5}), ping(), window_update(0, 5), go_away(0), data(1, b"abc"), data(1, end=True)]
        ),
        st.sampled_from([reset(1), reset(3), window_update(1, 7), window_update(3, 7), raw(9, 1, b"", 4)]),
        st.builds(
            raw,
            st.integers(0, 11),
            st.sampled_from([0, 1, 2, 3, 5]),
            st.binary(max_size=20),
            st.integers(0, 255),
        ),
        st.integers(0, 4),  # a head
    ),
    max_size=12,
)
HEADS = [GET, POST, [*POST, ("content-length", "3")], [*GET, ("connection", "x")], [("x", "y")]]


def _content(parts: list[bytes | int], peer: Http2Peer) -> bytes:
    frames, stream_id = [], -1
    for part in parts:
        if isinstance(part, int):
            stream_id += 2 if part < 4 else 0
            part = peer.headers(max(stream_id, 1), HEADS[part], end=part == 0)
        frames.append(part)
    return b"".join(frames)


@given(PARTS, st.integers(1, 40))
def test_pieces_do_not_matter_and_no_frame_raises(parts: list[bytes | int], size: int) -> None:
    content = PREFACE + settings() + _content(parts, Http2Peer())
    whole, cut = Http2ServerConnection(), Http2ServerConnection()
    expected = whole.receive(content)
    events = [event for at in range(0, len(content), size) for event in cut.receive(content[at : at + size])]
    assert _joined(events) == _joined(expected)
    assert cut.data_to_send() == whole.data_to_send()
    _use(whole, events)


@given(PARTS)
def test_no_frame_of_a_target_raises(parts: list[bytes | int]) -> None:
    client = Http2ClientConnection(Http2Limits(streams=3))
    for _ in range(2):
        client.send_request(RequestHead("POST", "/", "a", (), None), "https")
    answer = Http2Peer().headers(1, [(":status", "200")], end=False)
    content = settings() + answer + b"".join([part for part in parts if isinstance(part, bytes)])
    events = client.receive(content)
    for stream_id in (1, 3):
        client.send_data(stream_id, b"x" * min(5, client.sendable(stream_id)))
        client.send_end(stream_id)
    assert client.has_failed is any(isinstance(event, Http2Failed) for event in events)
    frames_of(client.data_to_send())


def _joined(events: Sequence[Http2Event]) -> list[Http2Event]:
    """Join data that follow other data of the same stream."""
    joined: list[Http2Event] = []
    for event in events:
        last = joined[-1] if joined else None
        if isinstance(event, Http2Data) and isinstance(last, Http2Data) and last.stream_id == event.stream_id:
            joined[-1] = Http2Data(event.stream_id, last.data + event.data, last.size + event.size)
        else:
            joined.append(event)
    return joined


def _use(server: Http2ServerConnection, events: list[Http2Event]) -> None:
    """Answer all that was read: nothing may raise, whatever happened to the streams meanwhile."""
    for event in events:
        if isinstance(event, Http2Data):
            server.acknowledge(event.stream_id, event.size)
        elif isinstance(event, Http2Request | Http2RequestRefused):
            server.send_response(event.stream_id, ResponseHead(200))
            server.send_data(event.stream_id, b"x" * min(5, server.sendable(event.stream_id)))
            server.send_end(event.stream_id)
            server.reset(event.stream_id)
    frames_of(server.data_to_send())
