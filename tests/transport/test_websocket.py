"""Tunnels over real sockets and TLS on loopback."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop
from tests.support.certificates import Issued, issue
from tests.support.muxes import Sink
from tests.support.promises import until, within

from postern.errors import Unavailable
from postern.transport import mux as mux_module
from postern.transport import websocket
from postern.transport.mux import Incoming, Mux
from postern.transport.stream_windows import WINDOW
from postern.transport.websocket import WebSocketTransport

pytestmark = pytest.mark.ci

SIZE = 200 << 20
BLOCK = os.urandom(1 << 20)


@pytest.fixture(scope="module")
def issued() -> Issued:
    return issue("localhost")


def context_of(issued: Issued, folder: Path) -> ssl.SSLContext:
    (folder / "certificate.pem").write_bytes(issued.certificate)
    (folder / "key.pem").write_bytes(issued.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


class Gateway:
    """Accepts every stream; `sinks` are its ends."""

    def __init__(self) -> None:
        self.port = 0
        self.tokens: list[str] = []
        self.transports: list[WebSocketTransport] = []
        self.muxes: list[Mux] = []
        self.sinks: list[Sink] = []
        self.make: Callable[[], Sink] = Sink
        self.refusing = ""

    @property
    def url(self) -> str:
        return f"wss://localhost:{self.port}"

    def opened(self, transport: WebSocketTransport, token: str) -> None:
        self.tokens.append(token)
        self.transports.append(transport)
        if self.refusing:
            transport.refuse(self.refusing)
            return
        mux = Mux(dialler=False, hello={"worker": "one"}, on_open=self._take)
        self.muxes.append(mux)
        transport.set_protocol(mux)
        mux.connection_made(transport)

    def _take(self, incoming: Incoming) -> None:
        sink = self.make()
        self.sinks.append(sink)
        incoming.accept({}, sink)


@pytest.fixture
async def gateway(issued: Issued, tmp_path: Path) -> AsyncIterator[Gateway]:
    gateway = Gateway()
    server = await websocket.serve(gateway.opened, "127.0.0.1", 0, context_of(issued, tmp_path))
    gateway.port = server.sockets[0].getsockname()[1]
    async with asyncio.timeout(300):
        yield gateway
    for mux in gateway.muxes:
        mux.close("the test is over")
    server.close()


async def dial(url: str, issued: Issued) -> Mux:
    _, made = await websocket.connect(
        url, token="xagt-1", ca=issued.authority, protocol=lambda: Mux(dialler=True, hello={}, on_open=_nothing)
    )
    mux = cast("Mux", made)
    assert await mux.greeting == {"worker": "one"}
    return mux


def _nothing(incoming: Incoming) -> None:
    incoming.refuse("Denied", "nobody opens streams here")


class Hashing(Sink):
    """Keeps a hash and a count, not the bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.hash = hashlib.blake2b()
        self.size = 0

    def data_received(self, data: bytes) -> None:
        self.hash.update(data)
        self.size += len(data)


async def pour(sink: Sink, size: int) -> bytes:
    """Writes `size` bytes as fast as they are taken, and closes; answers their hash."""
    room = asyncio.Event()
    room.set()
    sink.actions["pause"] = lambda _sink: room.clear()
    sink.actions["resume"] = lambda _sink: room.set()
    digest = hashlib.blake2b()
    for start in range(0, size, len(BLOCK)):
        block = BLOCK[: size - start]
        await room.wait()
        digest.update(block)
        sink.stream.write(block)
    sink.stream.close()
    return digest.digest()


async def test_tunnel_socket_has_no_delay_and_default_buffer_sizes(gateway: Gateway, issued: Issued) -> None:
    mux = await dial(gateway.url, issued)
    ends = mux.about("socket", None), gateway.transports[0].get_extra_info("socket")
    for end in ends:
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    fresh = socket.create_connection(("127.0.0.1", gateway.port))
    assert ends[0].getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= fresh.getsockopt(
        socket.SOL_SOCKET, socket.SO_RCVBUF
    )
    fresh.close()
    mux.close("the test is over")


async def test_long_streams_arrive_unchanged_in_both_directions(gateway: Gateway, issued: Issued) -> None:
    gateway.make = Hashing
    mux = await dial(gateway.url, issued)
    assert gateway.tokens == ["xagt-1"]
    up, down = Hashing(), Hashing()
    await mux.open({}, up)
    await mux.open({}, down)
    far_up, far_down = cast("list[Hashing]", gateway.sinks)
    sent_up, sent_down = await asyncio.gather(pour(up, SIZE), pour(far_down, SIZE))
    await asyncio.gather(far_up.lost, down.lost)
    assert (far_up.size, down.size) == (SIZE, SIZE)
    assert (far_up.hash.digest(), down.hash.digest()) == (sent_up, sent_down)
    mux.close("done")
    assert await gateway.muxes[0].lost


async def test_five_hundred_concurrent_streams_carry_their_own_bytes(gateway: Gateway, issued: Issued) -> None:
    mux = await dial(gateway.url, issued)

    def echo(sink: Sink) -> None:
        sink.stream.write(bytes(sink.heard))
        sink.heard.clear()

    gateway.make = lambda: Sink(data=echo, eof=lambda sink: sink.stream.close())
    sinks = [Sink() for _ in range(500)]
    await asyncio.gather(*(mux.open({}, sink) for sink in sinks))
    sent = [BLOCK[number : number + 20_000] * 2 for number in range(500)]
    for sink, data in zip(sinks, sent, strict=True):
        sink.stream.write(data)
        sink.stream.write_eof()
    await asyncio.gather(*(sink.lost for sink in sinks))
    assert [bytes(sink.heard) for sink in sinks] == sent
    assert mux.streams == 0
    mux.close("done")


async def test_stalled_stream_does_not_block_another_stream(gateway: Gateway, issued: Issued) -> None:
    gateway.make = Hashing
    mux = await dial(gateway.url, issued)
    stalled, lively = Sink(), Sink()
    await mux.open({}, stalled)
    await mux.open({}, lively)
    slow, fast = cast("list[Hashing]", gateway.sinks)
    slow.stream.pause_reading()
    pouring = asyncio.create_task(pour(stalled, 16 << 20))
    sent = await pour(lively, 32 << 20)
    await fast.lost
    assert fast.hash.digest() == sent
    assert not pouring.done()
    assert not slow.size
    assert [lane for lane in gateway.muxes[0]._lanes.values() if 0 < sum(len(one) for one in lane._held) <= WINDOW]
    slow.stream.resume_reading()
    assert slow.hash.digest() != await pouring
    await slow.lost
    assert slow.hash.digest() == await pouring
    mux.close("done")


async def test_client_rejects_a_certificate_of_another_authority(gateway: Gateway) -> None:
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await dial(gateway.url, issue("localhost"))
    assert not gateway.tokens


async def test_failed_tls_handshake_is_logged_without_a_traceback(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    other = issue("localhost")
    for _ in range(3):
        with pytest.raises(Unavailable):
            await dial(gateway.url, other)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        await reader.read()
    writer.close()
    await until(lambda: "TLS handshake of a tunnel failed" in caplog.text)
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]
    assert [record for record in caplog.records if "TLS handshake of a tunnel failed" in record.message]


async def test_client_rejects_a_certificate_of_another_host(tmp_path: Path) -> None:
    gateway, other = Gateway(), issue("elsewhere.example")
    context = context_of(other, tmp_path)
    server = await websocket.serve(gateway.opened, "127.0.0.2", 0, context)
    try:
        with pytest.raises(Unavailable, match=r"(?i)mismatch|not valid for|verify_failed"):
            await dial(f"wss://127.0.0.2:{server.sockets[0].getsockname()[1]}", other)
    finally:
        server.close()
    assert not gateway.tokens


async def test_client_never_sends_its_token_without_tls(issued: Issued) -> None:
    came: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(await reader.read(1000))
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for url in (f"ws://127.0.0.1:{port}", f"http://127.0.0.1:{port}"):
        with pytest.raises(Unavailable, match="wss"):
            await dial(url, issued)
    assert not came
    server.close()


async def test_rejected_tunnel_gives_the_reason(gateway: Gateway, issued: Issued) -> None:
    gateway.refusing = "this token was revoked, " + "ü" * 200
    with pytest.raises(Unavailable, match="this token was revoked"):
        await dial(gateway.url, issued)


@pytest.mark.parametrize(
    "request_line", ["/tunnel", "/connect/db", "/tunnel/x", "/"], ids=["no token", "retired path", "longer path", "/"]
)
async def test_request_that_is_not_for_a_tunnel_gets_404(gateway: Gateway, issued: Issued, request_line: str) -> None:
    context = ssl.create_default_context(cadata=issued.authority)
    reader, writer = await asyncio.open_connection("localhost", gateway.port, ssl=context)
    token = "" if request_line == "/tunnel" else "Authorization: Bearer x\r\n"
    writer.write(
        f"GET {request_line} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{token}"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
    )
    assert (await reader.read(1000)).startswith(b"HTTP/1.1 404")
    writer.close()
    assert not gateway.tokens


async def test_server_that_closes_during_the_handshake_is_unavailable(issued: Issued, tmp_path: Path) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context_of(issued, tmp_path))
    with pytest.raises(Unavailable, match="closed the connection"):
        await dial(f"wss://localhost:{server.sockets[0].getsockname()[1]}", issued)
    server.close()


async def test_server_that_never_answers_times_out(issued: Issued, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "CONNECT", 0.3)
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    with pytest.raises(Unavailable, match="did not answer in time"):
        await dial(f"wss://localhost:{server.sockets[0].getsockname()[1]}", issued)
    server.close()


async def test_cancelled_dial_opens_no_connection_later(issued: Issued, tmp_path: Path) -> None:
    """The answer to the upgrade arrives after the dial was cancelled."""
    came, go_on, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
    made: list[Any] = []

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        came.set()
        await go_on.wait()
        writer.write(_upgraded(request))
        with contextlib.suppress(ConnectionError):
            await reader.read()
        gone.set()
        writer.close()

    def protocol() -> asyncio.Protocol:
        made.append(Sink())
        return cast("Sink", made[0])

    server = await asyncio.start_server(slow, "127.0.0.1", 0, ssl=context_of(issued, tmp_path))
    url = f"wss://localhost:{server.sockets[0].getsockname()[1]}"
    dialling = asyncio.create_task(websocket.connect(url, token="t", ca=issued.authority, protocol=protocol))
    await came.wait()
    dialling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dialling
    go_on.set()
    async with asyncio.timeout(60):
        await gone.wait()
    assert not made
    server.close()


def _upgraded(request: bytes) -> bytes:
    key = request.lower().split(b"sec-websocket-key: ")[1].split(b"\r\n")[0]
    at = request.lower().index(key)
    digest = hashlib.sha1(request[at : at + len(key)] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        + base64.b64encode(digest)
        + b"\r\n\r\n"
    )


class Hop:
    """A proxy between the two, that passes TLS on in small pieces, and can swallow everything."""

    def __init__(self, port: int, piece: int) -> None:
        self._to = port
        self._piece = piece
        self.swallowing = False
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0, limit=self._piece)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to, limit=self._piece)
        for each in (writer, far_writer):
            self._writers.append(each)
            each.transport.set_write_buffer_limits(self._piece)
        for pair in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pass(*pair))
            self._tasks.add(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(self._piece):
                if not self.swallowing:
                    writer.write(data)
                    await writer.drain()
        writer.close()


async def test_streams_through_a_proxy_with_small_buffers_arrive_unchanged(gateway: Gateway, issued: Issued) -> None:
    gateway.make = Hashing
    hop = Hop(gateway.port, 1500)
    await hop.start()
    mux = await dial(f"wss://localhost:{hop.port}", issued)
    near = [Hashing(), Hashing()]
    for sink in near:
        await mux.open({}, sink)
    up, down = cast("list[Hashing]", gateway.sinks)
    sent = await asyncio.gather(pour(near[0], 8 << 20), pour(down, 8 << 20))
    await asyncio.gather(up.lost, near[1].lost)
    assert [up.hash.digest(), near[1].hash.digest()] == list(sent)
    mux.close("done")
    await hop.stop()


async def test_proxy_that_swallows_all_bytes_is_detected_by_both_sides(
    gateway: Gateway, issued: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mux_module, "BEAT", 0.5)
    monkeypatch.setattr(mux_module, "DEAD", 2.0)
    hop = Hop(gateway.port, 1 << 16)
    await hop.start()
    mux = await dial(f"wss://localhost:{hop.port}", issued)
    await mux.open({}, sink := Sink())
    await asyncio.sleep(3.0)
    assert not mux.lost.done()
    hop.swallowing = True
    started = time.monotonic()
    assert "silent" in await mux.lost
    assert "silent" in await gateway.muxes[0].lost
    assert time.monotonic() - started < within(2.0 + 0.4)
    assert isinstance(await sink.lost, ConnectionResetError)
    assert isinstance(await gateway.sinks[0].lost, ConnectionResetError)
    await hop.stop()


_CHILD = """
import asyncio, sys
from postern.transport import websocket
from postern.transport.mux import Mux
async def main():
    _, mux = await websocket.connect(sys.argv[1], token="t", ca=sys.stdin.read(),
        protocol=lambda: Mux(dialler=True, hello={}, on_open=lambda incoming: None))
    await mux.open({}, asyncio.Protocol())
    await mux.lost
asyncio.run(main())
"""


@pytest.mark.slow
async def test_stopped_process_is_detected_within_fifteen_seconds(gateway: Gateway, issued: Issued) -> None:
    child = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", _CHILD, gateway.url],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert child.stdin is not None
        child.stdin.write(issued.authority.encode())
        child.stdin.close()
        await until(lambda: bool(gateway.sinks))
        await asyncio.sleep(7)  # it answers when it is asked
        assert not gateway.muxes[0].lost.done()
        child.send_signal(signal.SIGSTOP)
        started = time.monotonic()
        assert isinstance(await gateway.sinks[0].lost, ConnectionResetError)
        assert time.monotonic() - started < within(15.5)
    finally:
        child.kill()
        child.wait()


async def test_peer_that_does_not_read_its_last_bytes_is_disconnected(
    gateway: Gateway, issued: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "FLUSH", 0.3)
    mux = await dial(gateway.url, issued)
    await mux.open({}, Sink())
    transport = cast("WebSocketTransport", mux._transport)
    transport.pause_reading()
    far = gateway.transports[0]
    far.write(bytes(64 << 20))
    far.close()
    async with asyncio.timeout(60):
        await until(lambda: far._wire.is_disconnected)


async def test_pings_of_a_peer_that_does_not_read_are_not_buffered(gateway: Gateway, issued: Issued) -> None:
    mux = await dial(gateway.url, issued)
    transport = cast("WebSocketTransport", mux._transport)
    transport.pause_reading()
    far = gateway.transports[0]
    far.write(bytes(64 << 20))  # the way back is full
    await asyncio.sleep(0.2)
    under = far._wire.underlying_transport
    before = under.get_write_buffer_size()
    assert before
    for _ in range(5_000):
        transport._wire.send_ping(bytes(100))
    await until(lambda: far._ping == bytes(100))
    assert under.get_write_buffer_size() <= before
    transport.abort()


async def test_bytes_received_before_a_protocol_is_set_are_kept(issued: Issued, tmp_path: Path) -> None:
    opened: asyncio.Future[WebSocketTransport] = asyncio.get_running_loop().create_future()
    server = await websocket.serve(
        lambda transport, token: opened.set_result(transport), "127.0.0.1", 0, context_of(issued, tmp_path)
    )
    url = f"wss://localhost:{server.sockets[0].getsockname()[1]}"
    near, made = await websocket.connect(url, token="t", ca=issued.authority, protocol=Sink)
    for _ in range(20):
        near.write(BLOCK)
    transport = await opened
    await asyncio.sleep(0.2)
    assert sum(map(len, transport._waiting)) <= 2 << 20
    sink = Sink()
    transport.set_protocol(sink)
    async with asyncio.timeout(60):
        await until(lambda: len(sink.heard) >= 20 << 20)
    assert sink.heard == BLOCK * 20
    near.close()
    await sink.lost
    await cast("Sink", made).lost
    server.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_listener_with_a_new_certificate_replaces_the_old_one_and_tunnels_stay(
    run: Callable[..., None], issued: Issued, tmp_path: Path
) -> None:
    run(_check_replaced_listener(issued, tmp_path))


async def _check_replaced_listener(old: Issued, tmp_path: Path) -> None:
    gateway, new = Gateway(), issue("localhost")
    first = await websocket.serve(gateway.opened, "127.0.0.1", 0, context_of(old, tmp_path))
    port = first.sockets[0].getsockname()[1]
    url = f"wss://localhost:{port}"
    tunnel = await dial(url, old)
    second = await websocket.serve(gateway.opened, "127.0.0.1", port, context_of(new, tmp_path))
    first.close()
    later = await dial(url, new)  # with the new certificate
    for mux in (tunnel, later):
        up = Sink()
        await mux.open({}, up)
        up.stream.write(b"still here")
        up.stream.close()
        far = gateway.sinks[-1]
        await far.lost
        assert bytes(far.heard) == b"still here"
        mux.close("the test is over")
    second.close()
