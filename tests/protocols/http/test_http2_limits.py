"""Attacks on an HTTP/2 connection, and that ordinary use of the same frames is not mistaken for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.support.http2_peers import (
    GET,
    POST,
    PREFACE,
    Http2Peer,
    data,
    frames_of,
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
    Http2Code,
    Http2Data,
    Http2Event,
    Http2Failed,
    Http2Limits,
    Http2Request,
    Http2RequestRefused,
    Http2Reset,
)
from postern.protocols.http.http2.http2_server import Http2ServerConnection
from postern.protocols.http.http_heads import RequestHead, ResponseHead

Flood = Callable[[Http2Peer], Iterator[bytes]]


def rapid_reset(peer: Http2Peer) -> Iterator[bytes]:
    for stream_id in range(1, 1 << 20, 2):
        yield peer.headers(stream_id) + reset(stream_id)


def resets_by_the_server(peer: Http2Peer) -> Iterator[bytes]:
    """Make the server reset each stream (CVE-2025-8671): DATA after the end."""
    for stream_id in range(1, 1 << 20, 2):
        yield peer.headers(stream_id) + data(stream_id, b"x")


def malformed_requests(peer: Http2Peer) -> Iterator[bytes]:
    for stream_id in range(1, 1 << 20, 2):
        yield peer.headers(stream_id, [*GET, ("connection", "close")])


def requests_beyond_the_limit(peer: Http2Peer) -> Iterator[bytes]:
    for stream_id in range(1, 1 << 20, 2):
        yield peer.headers(stream_id)


def data_of_a_reset_stream(peer: Http2Peer) -> Iterator[bytes]:
    yield peer.headers(1, POST, end=False) + reset(1)
    while True:
        yield data(1, b"x")


def once(frame: bytes) -> Flood:
    def repeat(peer: Http2Peer) -> Iterator[bytes]:
        yield peer.headers(1, POST, end=False)
        while True:
            yield frame

    return repeat


def many_settings(keys: range) -> bytes:
    return raw(4, 0, b"".join([key.to_bytes(2, "big") + bytes(4) for key in keys]))


def unknown_settings(peer: Http2Peer) -> Iterator[bytes]:
    for begin in range(16, 1 << 16, 2000):
        yield many_settings(range(begin, min(begin + 2000, 1 << 16)))
    while True:
        yield settings()


def continuations(peer: Http2Peer) -> Iterator[bytes]:
    yield raw(1, 1, b"", 0)
    while True:
        yield raw(9, 1, b"")


def encoded_head_without_end(peer: Http2Peer) -> Iterator[bytes]:
    yield raw(1, 1, b"\0\x01x\x01y" * 3000, 0)
    while True:
        yield raw(9, 1, b"\0\x01x\x01y" * 3000)


def hpack_bomb(peer: Http2Peer) -> Iterator[bytes]:
    """Send one field of 4 KB, then thousands of references to it (CVE-2016-6581)."""
    large = peer.block([*GET, ("x", "y" * 4000)])
    yield raw(1, 1, large + b"\xbe" * (16384 - len(large)), 4 | 1)
    while True:
        yield b""


FLOODS: dict[str, Flood] = {
    "rapid reset": rapid_reset,
    "resets by the server": resets_by_the_server,
    "malformed requests": malformed_requests,
    "requests beyond the limit": requests_beyond_the_limit,
    "data of a reset stream": data_of_a_reset_stream,
    "PING": once(ping()),
    "acknowledgements of PING": once(raw(6, 0, bytes(8), 1)),
    "SETTINGS": once(settings({4: 65535})),
    "acknowledgements of SETTINGS": once(raw(4, 0, b"", 1)),
    "unknown settings": unknown_settings,
    "PRIORITY": once(raw(2, 1, b"\0\0\0\0\x0f")),
    "empty DATA": once(data(1)),
    "padding alone": once(raw(0, 1, b"\0", 8)),
    "small WINDOW_UPDATE": once(window_update(1, 1)),
    "small WINDOW_UPDATE of the connection": once(window_update(0, 1)),
    "unknown frames": once(raw(0x20, 1, b"x")),
    "CONTINUATION": continuations,
    "encoded head without end": encoded_head_without_end,
    "HPACK bomb": hpack_bomb,
}


@pytest.mark.parametrize("name", FLOODS)
def test_flood_ends_the_connection(name: str) -> None:
    server, peer = Http2ServerConnection(), Http2Peer()
    server.receive(PREFACE + settings())
    for turn, piece in enumerate(FLOODS[name](peer)):
        events = server.receive(piece)
        failures = [event for event in events if isinstance(event, Http2Failed)]
        if failures:
            assert failures[0].code == Http2Code.ENHANCE_YOUR_CALM
            break
        assert turn < 2000
        assert len(server.data_to_send()) < 10_000
    assert goaway_codes(frames_of(server.data_to_send()))[-1] == Http2Code.ENHANCE_YOUR_CALM
    assert server.open_streams == 0
    assert server.receive(ping()) == []


def test_head_that_is_too_large_decoded_ends_the_connection() -> None:
    server, peer = Http2ServerConnection(), Http2Peer()
    fields = [*GET, *[(f"x-{number}", "y" * 1000) for number in range(80)]]
    [failure] = server.receive(PREFACE + settings() + peer.headers(1, fields, pieces=10))[-1:]
    assert isinstance(failure, Http2Failed)
    assert failure.code == Http2Code.ENHANCE_YOUR_CALM


def test_head_with_many_fields_is_answered() -> None:
    server, peer = Http2ServerConnection(), Http2Peer()
    server.receive(PREFACE + settings())
    [refusal] = server.receive(peer.headers(1, [*GET, *[("x", "y")] * 250]))
    assert refusal == Http2RequestRefused(1, 431, "the head has more than 200 header fields")


def test_unknown_settings_are_not_stored() -> None:
    server = Http2ServerConnection()
    server.receive(PREFACE + settings(dict.fromkeys(range(100, 2000), 1)))
    assert set(server._library.remote_settings) <= {1, 2, 3, 4, 5, 6, 8}


def test_table_of_the_encoder_stays_small() -> None:
    server, peer = Http2ServerConnection(), Http2Peer()
    server.receive(PREFACE + settings({1: (1 << 32) - 1}))
    for stream_id in range(1, 401, 2):
        server.receive(peer.headers(stream_id))
        server.send_response(stream_id, ResponseHead(200, ((b"x-request", b"%d" % stream_id * 50),)), end=True)
    assert server._library.encoder.header_table_size <= 4096


def test_requests_beyond_the_limit_are_refused_and_can_be_repeated() -> None:
    server, peer = Http2ServerConnection(Http2Limits(streams=2)), Http2Peer()
    server.receive(PREFACE + settings())
    server.data_to_send()
    events = server.receive(b"".join([peer.headers(stream_id) for stream_id in (1, 3, 5, 7)]))
    assert [event.stream_id for event in events if isinstance(event, Http2Request)] == [1, 3]
    refused = Http2Code.REFUSED_STREAM
    assert reset_codes(frames_of(server.data_to_send())) == [(5, refused), (7, refused)]
    server.send_response(1, ResponseHead(200, (), 0), end=True)
    assert [type(event) for event in server.receive(peer.headers(9))][:1] == [Http2Request]


def serve(server: Http2ServerConnection, events: list[Http2Event], body: int = 10) -> None:
    for event in events:
        assert not isinstance(event, Http2Failed)
        if isinstance(event, Http2Request):
            server.send_response(event.stream_id, ResponseHead(200, (), body))
            server.send_data(event.stream_id, b"x" * body, end=True)
        elif isinstance(event, Http2Data):
            server.acknowledge(event.stream_id, event.size)


def test_busy_client_is_not_mistaken_for_an_attack() -> None:
    """Two thousand requests on a connection, each with a PING and two window updates, as some clients send."""
    server, peer = Http2ServerConnection(), Http2Peer()
    server.receive(PREFACE + settings())
    for stream_id in range(1, 4000, 2):
        more = ping() + window_update(0, 10)
        serve(server, server.receive(peer.headers(stream_id) + more))
        server.data_to_send()
    assert not server.has_failed


def test_download_with_an_update_for_each_frame_is_not_mistaken_for_an_attack() -> None:
    server, peer = Http2ServerConnection(), Http2Peer()
    server.receive(PREFACE + settings() + peer.headers(1))
    server.send_response(1, ResponseHead(200))
    for _ in range(5000):
        server.send_data(1, b"x" * 4096)
        server.data_to_send()
        server.receive(window_update(1, 4096) + window_update(0, 4096))
    assert not server.has_failed


def test_page_whose_requests_are_cancelled_is_not_mistaken_for_an_attack() -> None:
    server, peer = Http2ServerConnection(), Http2Peer()
    server.receive(PREFACE + settings())
    for _ in range(2):
        ids = [2 * number + 1 for number in range(server._library.highest_inbound_stream_id // 2 + 1, 90)]
        server.receive(b"".join(map(peer.headers, ids)))
        server.receive(b"".join(map(reset, ids)))
    assert not server.has_failed


def test_idle_client_with_pings_lives_by_the_passing_time() -> None:
    server = Http2ServerConnection(Http2Limits(budget=20, refill=1))
    server.receive(PREFACE + settings(), 1.0)
    for second in range(2, 1000):
        assert not any(isinstance(event, Http2Failed) for event in server.receive(ping(), float(second)))
    assert isinstance(server.receive(ping() * 100, 1000.0)[-1], Http2Failed)


def test_target_is_limited_as_well() -> None:
    client, peer = Http2ClientConnection(), Http2Peer()
    stream_id = client.send_request(RequestHead("GET", "/", "a"), "https", end=True)
    client.receive(settings())
    interim = peer.headers(stream_id, [(":status", "103"), ("link", "</a>")], end=False)
    events = client.receive(interim * 20)
    assert isinstance(events[-1], Http2Reset)
    for _ in range(2000):
        events = client.receive(ping())
        if events:
            break
    assert isinstance(events[-1], Http2Failed)
    assert client.has_failed


def test_unread_bodies_are_bounded_by_the_windows() -> None:
    """The peer that ignores the windows is disconnected; nothing is acknowledged that the caller did not pass on."""
    limits = Http2Limits(stream_window=100_000, connection_window=150_000)
    server, peer = Http2ServerConnection(limits), Http2Peer()
    server.receive(PREFACE + settings())
    held = 0
    for stream_id in (1, 3, 5):
        server.receive(peer.headers(stream_id, POST, end=False))
        for _ in range(6):
            for event in server.receive(data(stream_id, b"x" * 16000)):
                if isinstance(event, Http2Failed):
                    assert event.code == Http2Code.FLOW_CONTROL_ERROR
                    assert held <= 150_000
                    return
                assert isinstance(event, Http2Data)
                held += event.size
    pytest.fail("the connection did not end")
