"""What a server must do with frames that are not allowed, or seldom: as in h2spec, by sections of RFC 7540 and 9113.

Each case begins with the preface and SETTINGS. It expects one of these:
- `Connection`: the connection ends with GOAWAY and one of the codes.
- `Stream`: stream 1 is reset with one of the codes, and the connection serves another request.
- `Served`: as many requests as `requests` are read, and nothing is reset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hyperframe.frame import Frame, PingFrame, SettingsFrame
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

from postern.protocols.http.http2.http2_events import Http2Code, Http2Event, Http2Failed, Http2Request
from postern.protocols.http.http2.http2_server import Http2ServerConnection

PROTOCOL, FLOW, CLOSED = Http2Code.PROTOCOL_ERROR, Http2Code.FLOW_CONTROL_ERROR, Http2Code.STREAM_CLOSED
SIZE, COMPRESSION, CALM = Http2Code.FRAME_SIZE_ERROR, Http2Code.COMPRESSION_ERROR, Http2Code.ENHANCE_YOUR_CALM


class Outcome:
    """What a conforming server does."""

    def __init__(self, *codes: int) -> None:
        self.codes = set(map(int, codes))


class Connection(Outcome):
    """The connection ends."""


class Stream(Outcome):
    """Stream 1 ends."""


@dataclass
class Served:
    """Requests are read."""

    requests: int = 1


Build = Callable[[Http2Peer], bytes]


def with_field(name: str | bytes, value: str | bytes = "x") -> Build:
    return lambda peer: peer.headers(1, [*GET, (name, value)])


def fields(*changed: tuple[str, str], without: str = "") -> Build:
    kept: Fields = [pair for pair in GET if pair[0] != without]
    return lambda peer: peer.headers(1, [*changed, *kept])


def setting(key: int, value: int) -> Build:
    return lambda _: raw(4, 0, key.to_bytes(2, "big") + value.to_bytes(4, "big"))


def block(content: bytes) -> Build:
    """Return the build of a request with a header block that HPACK did not encode."""
    return lambda _: raw(1, 1, content, 5)


PADDED, PRIORITY_FLAG = 0x8, 0x20
HALF_CLOSED: Build = lambda peer: peer.headers(1, GET)  # noqa: E731
OPEN: Build = lambda peer: peer.headers(1, POST, end=False)  # noqa: E731

CASES: dict[str, tuple[Build, Outcome | Served]] = {
    # 4: frames
    "4.1 unknown type": (lambda p: raw(0x16, 0, b"x" * 8) + p.headers(1), Served()),
    "4.1 unknown type on a stream": (lambda p: OPEN(p) + raw(0x16, 1, b"x") + data(1, end=True), Served()),
    "4.1 undefined flags": (lambda p: raw(6, 0, b"12345678", 0x16) + p.headers(1), Served()),
    "4.1 reserved bit": (lambda p: raw(6, 1 << 31, b"12345678") + p.headers(1), Served()),
    "4.2 DATA of the maximum size": (lambda p: OPEN(p) + data(1, b"x" * 16384), Served()),
    "4.2 DATA beyond the maximum": (lambda p: OPEN(p) + data(1, b"x" * 16385), Connection(SIZE)),
    "4.2 HEADERS beyond the maximum": (block(b"x" * 16385), Connection(SIZE)),
    "4.2 length of 16 MB, before it arrives": (lambda _: b"\xff\xff\xff\x00\x00\0\0\0\x01", Connection(SIZE)),
    "4.3 invalid block": (block(b"\x80"), Connection(COMPRESSION)),
    "4.3 PRIORITY within a head": (
        lambda p: raw(1, 1, p.block(GET), 1) + raw(2, 1, bytes(5)),
        Connection(PROTOCOL),
    ),
    "4.3 HEADERS of another stream within a head": (
        lambda p: raw(1, 1, p.block(GET), 1) + raw(1, 3, p.block(GET), 5),
        Connection(PROTOCOL),
    ),
    # 5.1: states of streams
    "5.1 idle: DATA": (lambda _: data(1, b"x", end=True), Connection(PROTOCOL)),
    "5.1 idle: RST_STREAM": (lambda _: reset(1), Connection(PROTOCOL)),
    "5.1 idle: WINDOW_UPDATE": (lambda _: window_update(1, 100), Connection(PROTOCOL)),
    "5.1 idle: CONTINUATION": (lambda p: raw(9, 1, p.block(GET), 4), Connection(PROTOCOL)),
    "5.1 half closed: DATA": (lambda p: HALF_CLOSED(p) + data(1, b"x"), Stream(CLOSED)),
    "5.1 half closed: HEADERS": (lambda p: HALF_CLOSED(p) + p.headers(1), Stream(CLOSED)),
    "5.1 half closed: CONTINUATION": (lambda p: HALF_CLOSED(p) + raw(9, 1, b"", 4), Connection(CLOSED, PROTOCOL)),
    "5.1 half closed: WINDOW_UPDATE": (lambda p: HALF_CLOSED(p) + window_update(1, 9), Served()),
    "5.1 reset: DATA": (lambda p: OPEN(p) + reset(1) + data(1, b"x"), Stream(CLOSED)),
    "5.1 reset: HEADERS": (lambda p: OPEN(p) + reset(1) + p.headers(1), Stream(CLOSED)),
    "5.1 reset: CONTINUATION": (lambda p: OPEN(p) + reset(1) + raw(9, 1, b"", 4), Connection(CLOSED, PROTOCOL)),
    "5.1 reset: RST_STREAM": (lambda p: OPEN(p) + reset(1) + reset(1), Served()),
    "5.1 reset: WINDOW_UPDATE": (lambda p: OPEN(p) + reset(1) + window_update(1, 9), Served()),
    "5.1.1 even number": (lambda p: p.headers(2), Connection(PROTOCOL)),
    "5.1.1 lower number": (lambda p: p.headers(5) + p.headers(3), Connection(PROTOCOL)),
    "5.3.1 HEADERS depends on itself": (
        lambda p: p.headers(1, depends_on=1, stream_weight=5),
        Connection(PROTOCOL),
    ),
    "5.3.1 PRIORITY depends on itself": (lambda p: raw(2, 1, b"\0\0\0\x01\x0f"), Connection(PROTOCOL)),
    "5.3 PRIORITY of an idle stream": (lambda p: raw(2, 7, b"\0\0\0\0\x0f") + p.headers(1), Served()),
    "5.5 unknown type within a head": (
        lambda p: raw(1, 1, p.block(GET), 1) + raw(0x16, 0, b"x"),
        Connection(PROTOCOL),
    ),
    # 6.1 to 6.4
    "6.1 DATA of no stream": (lambda _: raw(0, 0, b"x"), Connection(PROTOCOL)),
    "6.1 padding beyond the frame": (lambda p: OPEN(p) + raw(0, 1, b"\x05abc", PADDED), Connection(PROTOCOL)),
    "6.1 padding": (lambda p: OPEN(p) + raw(0, 1, b"\x02abc\0\0", PADDED), Served()),
    "6.2 HEADERS of no stream": (lambda p: raw(1, 0, p.block(GET), 5), Connection(PROTOCOL)),
    "6.2 padding beyond the frame": (lambda p: raw(1, 1, b"\xff" + p.block(GET), 5 | PADDED), Connection(PROTOCOL)),
    "6.3 PRIORITY of no stream": (lambda _: raw(2, 0, bytes(5)), Connection(PROTOCOL)),
    "6.3 PRIORITY of a wrong size": (lambda p: OPEN(p) + raw(2, 1, bytes(4)), Connection(SIZE)),
    "6.4 RST_STREAM of no stream": (lambda _: raw(3, 0, bytes(4)), Connection(PROTOCOL)),
    "6.4 RST_STREAM of a wrong size": (lambda p: OPEN(p) + raw(3, 1, bytes(3)), Connection(SIZE)),
    # 6.5: settings
    "6.5 ACK with content": (lambda _: raw(4, 0, bytes(6), 1), Connection(SIZE)),
    "6.5 SETTINGS of a stream": (lambda _: raw(4, 1), Connection(PROTOCOL)),
    "6.5 SETTINGS of a wrong size": (lambda _: raw(4, 0, bytes(3)), Connection(SIZE)),
    "6.5.2 ENABLE_PUSH of 2": (setting(2, 2), Connection(PROTOCOL)),
    "6.5.2 INITIAL_WINDOW_SIZE of 2^31": (setting(4, 1 << 31), Connection(FLOW)),
    "6.5.2 MAX_FRAME_SIZE of 16383": (setting(5, 16383), Connection(PROTOCOL)),
    "6.5.2 MAX_FRAME_SIZE of 2^24": (setting(5, 1 << 24), Connection(PROTOCOL)),
    "6.5.2 unknown setting": (lambda p: setting(0xFF, 1)(p) + p.headers(1), Served()),
    "6.5.2 ENABLE_CONNECT_PROTOCOL of 2": (setting(8, 2), Connection(PROTOCOL)),
    # 6.6 to 6.8
    "6.6 PUSH_PROMISE": (lambda p: OPEN(p) + raw(5, 1, b"\0\0\0\x02" + p.block(GET), 4), Connection(PROTOCOL)),
    "6.7 PING of a stream": (lambda _: raw(6, 1, bytes(8)), Connection(PROTOCOL)),
    "6.7 PING of a wrong size": (lambda _: raw(6, 0, bytes(7)), Connection(SIZE)),
    "6.8 GOAWAY of a stream": (lambda _: raw(7, 1, bytes(8)), Connection(PROTOCOL)),
    "6.8 GOAWAY of a wrong size": (lambda _: raw(7, 0, bytes(7)), Connection(SIZE)),
    # 6.9: windows
    "6.9 WINDOW_UPDATE of 0": (lambda _: raw(8, 0, bytes(4)), Connection(PROTOCOL)),
    "6.9 WINDOW_UPDATE of 0 of a stream": (lambda p: OPEN(p) + raw(8, 1, bytes(4)), Connection(PROTOCOL)),
    "6.9 WINDOW_UPDATE of a wrong size": (lambda _: raw(8, 0, bytes(3)), Connection(SIZE)),
    "6.9.1 window of the connection above 2^31": (
        lambda _: window_update(0, (1 << 31) - 1) * 2,
        Connection(FLOW),
    ),
    "6.9.1 window of a stream above 2^31": (
        lambda p: OPEN(p) + window_update(1, (1 << 31) - 1) * 2,
        Stream(FLOW),
    ),
    "6.9.2 windows of streams above 2^31 by a setting": (
        lambda p: OPEN(p) + window_update(1, (1 << 31) - 1 - 65535) + setting(4, (1 << 31) - 1)(p),
        Connection(FLOW),
    ),
    # 6.10
    "6.10 several CONTINUATION": (lambda p: p.headers(1, [*GET, ("x", "y" * 200)], pieces=5), Served()),
    "6.10 CONTINUATION after the head": (lambda p: OPEN(p) + raw(9, 1, b"", 4), Connection(PROTOCOL)),
    "6.10 CONTINUATION of no stream": (
        lambda p: raw(1, 1, p.block(GET), 1) + raw(9, 0, b"", 4),
        Connection(PROTOCOL),
    ),
    "6.10 CONTINUATION after DATA": (lambda p: OPEN(p) + data(1, b"x") + raw(9, 1, b"", 4), Connection(PROTOCOL)),
    # 8.1: messages
    "8.1 second head without the end": (
        lambda p: OPEN(p) + p.headers(1, [("x", "y")], end=False),
        Connection(PROTOCOL),
    ),
    "8.2.1 capitals": (with_field(b"X-Test"), Stream(PROTOCOL)),
    "8.2.1 NUL in a value": (with_field("x", "a\0b"), Stream(PROTOCOL)),
    "8.2.1 LF in a value": (with_field("x", "a\r\ny: b"), Stream(PROTOCOL)),
    "8.2.1 space around a value": (with_field("x", " a"), Stream(PROTOCOL)),
    "8.2.1 colon in a name": (with_field("x:y"), Stream(PROTOCOL)),
    "8.2.1 space in a name": (with_field("x y"), Stream(PROTOCOL)),
    "8.2.1 empty name": (with_field(b"", "x"), Stream(PROTOCOL)),
    "8.2.2 connection": (with_field("connection", "keep-alive"), Stream(PROTOCOL)),
    "8.2.2 keep-alive": (with_field("keep-alive", "5"), Stream(PROTOCOL)),
    "8.2.2 transfer-encoding": (with_field("transfer-encoding", "chunked"), Stream(PROTOCOL)),
    "8.2.2 upgrade": (with_field("upgrade", "h2c"), Stream(PROTOCOL)),
    "8.2.2 proxy-connection": (with_field("proxy-connection", "close"), Stream(PROTOCOL)),
    "8.2.2 TE other than trailers": (with_field("te", "trailers, deflate"), Stream(PROTOCOL)),
    "8.2.2 TE of trailers": (with_field("te", "trailers"), Served()),
    "8.3 unknown pseudo-header": (fields((":test", "x")), Stream(PROTOCOL)),
    "8.3 pseudo-header of responses": (fields((":status", "200")), Stream(PROTOCOL)),
    "8.3 extended CONNECT": (fields((":protocol", "websocket")), Stream(PROTOCOL)),
    "8.3 pseudo-header as a trailer": (lambda p: OPEN(p) + p.headers(1, [(":method", "GET")]), Stream(PROTOCOL)),
    "8.3 pseudo-header after a field": (
        lambda p: p.headers(1, [*GET[:3], ("x", "y"), GET[3]]),
        Stream(PROTOCOL),
    ),
    "8.3.1 empty path": (fields((":path", ""), without=":path"), Stream(PROTOCOL)),
    "8.3.1 no method": (fields(without=":method"), Stream(PROTOCOL)),
    "8.3.1 no scheme": (fields(without=":scheme"), Stream(PROTOCOL)),
    "8.3.1 no path": (fields(without=":path"), Stream(PROTOCOL)),
    "8.3.1 other scheme": (fields((":scheme", "ftp"), without=":scheme"), Stream(PROTOCOL)),
    "8.3.1 method twice": (fields((":method", "GET")), Stream(PROTOCOL)),
    "8.3.1 scheme twice": (fields((":scheme", "https")), Stream(PROTOCOL)),
    "8.3.1 path twice": (fields((":path", "/")), Stream(PROTOCOL)),
    "8.3.1 authority twice": (fields((":authority", "a.example")), Stream(PROTOCOL)),
    "8.1.1 longer than its content-length": (
        lambda p: p.headers(1, [*POST, ("content-length", "1")], end=False) + data(1, b"ab", end=True),
        Stream(PROTOCOL),
    ),
    "8.1.1 shorter than its content-length": (
        lambda p: p.headers(1, [*POST, ("content-length", "3")], end=False) + data(1, b"a") + data(1, b"b", end=True),
        Stream(PROTOCOL),
    ),
    "8.1.1 shorter than its content-length, with trailers": (
        lambda p: (
            p.headers(1, [*POST, ("content-length", "3")], end=False) + data(1, b"a") + p.headers(1, [("x", "y")])
        ),
        Stream(PROTOCOL),
    ),
    "8.1.1 content-length without a body": (
        lambda p: p.headers(1, [*POST, ("content-length", "3")]),
        Stream(PROTOCOL),
    ),
    "8.1.1 signed content-length": (
        lambda p: p.headers(1, [*POST, ("content-length", "+1")], end=False),
        Connection(PROTOCOL),
    ),
    "8.1.1 content-length with an underscore": (
        lambda p: p.headers(1, [*POST, ("content-length", "1_0")], end=False),
        Connection(PROTOCOL),
    ),
    "8.1.1 two content-lengths": (
        lambda p: p.headers(1, [*POST, ("content-length", "1"), ("content-length", "1")], end=False),
        Stream(PROTOCOL),
    ),
    "8.1.1 trailers": (lambda p: OPEN(p) + data(1, b"x") + p.headers(1, [("x", "y")]), Served()),
    # HPACK (RFC 7541)
    "2.3.3 index beyond the tables": (block(b"\xff\x80\x01"), Connection(COMPRESSION)),
    "4.2 table size beyond the limit": (block(b"\x3f\xe1\xff\x03\x82\x84\x87"), Connection(COMPRESSION)),
    "4.2 table size after a field": (block(b"\x82\x20\x84\x87"), Connection(COMPRESSION)),
    "5.1 integer without end": (block(b"\xff" + b"\x80" * 1000), Connection(COMPRESSION)),
    "5.2 padding of 8 bits": (block(b"\x82\x84\x87\x41\x82\xff\xff"), Connection(COMPRESSION)),
    "5.2 string beyond the block": (block(b"\x82\x84\x87\x41\x20a"), Connection(COMPRESSION)),
    "6.1 index 0": (block(b"\x80"), Connection(COMPRESSION)),
}


def run(content: bytes, size: int = 1 << 20) -> tuple[Http2ServerConnection, list[Http2Event], list[Frame]]:
    server = Http2ServerConnection()
    events: list[Http2Event] = []
    for at in range(0, len(content), size):
        events += server.receive(content[at : at + size])
    return server, events, frames_of(server.data_to_send())


@pytest.mark.parametrize("size", [1 << 20, 64, 1])
@pytest.mark.parametrize("name", CASES)
def test_server_does_what_the_protocol_demands(name: str, size: int) -> None:
    build, outcome = CASES[name]
    peer = Http2Peer()
    content = PREFACE + settings() + build(peer)
    server, events, frames = run(content, size if len(content) < 4096 else 4096)
    failures = [event.code for event in events if isinstance(event, Http2Failed)]
    if isinstance(outcome, Connection):
        assert failures == goaway_codes(frames)
        assert len(failures) == 1
        assert failures[0] in outcome.codes
        assert server.receive(peer.headers(9)) == []
        return
    assert failures == goaway_codes(frames) == []
    if isinstance(outcome, Outcome):
        [(stream_id, code)] = reset_codes(frames)[-1:]
        assert stream_id == 1
        assert code in outcome.codes
    else:
        assert len([event for event in events if isinstance(event, Http2Request)]) == outcome.requests
        assert reset_codes(frames) == []
    [request] = [event for event in server.receive(peer.headers(9)) if isinstance(event, Http2Request)]
    assert request.stream_id == 9


@pytest.mark.parametrize(
    "begin",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        PREFACE[:-1] + b"x",
        PREFACE + ping(),
        PREFACE + raw(4, 0, b"", 1),
        PREFACE + raw(1, 1, b"\x82\x84\x87", 5),
    ],
)
def test_connection_begins_with_preface_and_settings(begin: bytes) -> None:
    _, events, frames = run(begin)
    assert isinstance(events[-1], Http2Failed)
    assert goaway_codes(frames) == [PROTOCOL]


def test_server_begins_with_its_settings() -> None:
    server = Http2ServerConnection()
    first = frames_of(server.data_to_send())[0]
    assert isinstance(first, SettingsFrame)
    assert first.settings == {1: 4096, 2: 0, 3: 100, 4: 256 * 1024, 5: 16384, 6: 64 * 1024, 8: 0}


def test_settings_and_pings_are_acknowledged() -> None:
    server, _, _ = run(PREFACE + settings())
    server.receive(settings({3: 10}) + ping() + raw(6, 0, b"87654321", 1))
    acknowledged = frames_of(server.data_to_send())
    assert [type(frame) for frame in acknowledged] == [SettingsFrame, PingFrame]
    assert all("ACK" in frame.flags for frame in acknowledged)
    assert isinstance(acknowledged[1], PingFrame)
    assert acknowledged[1].opaque_data == b"12345678"


def test_client_that_goes_away_gets_its_responses() -> None:
    peer = Http2Peer()
    server, events, _ = run(PREFACE + settings() + peer.headers(1) + go_away(0))
    assert [event.stream_id for event in events if isinstance(event, Http2Request)] == [1]
    assert server.is_going_away
    assert server.open_streams == 1
