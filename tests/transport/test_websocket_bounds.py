"""WebSockets of browsers over real sockets: what uvicorn's own protocol leaves open."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from tests.support.promises import until

from postern.transport import websocket_bounds
from postern.transport.http_bounds import HttpLimits, bounded_http
from postern.transport.websocket_bounds import MAX_FRAGMENTS, WEBSOCKET_OPTIONS

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
App = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]


def masked(opcode: int, payload: bytes = b"", *, final: bool = True) -> bytes:
    return bytes([opcode | (0x80 if final else 0), 0x80 | len(payload)]) + b"\0\0\0\0" + payload


class Idle:
    """An application that accepts and takes no message."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.entered = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return
        self.entered += 1
        await receive()
        await send({"type": "websocket.accept"})
        await scope["state"]["lost"].wait()
        self.gone.set()


@asynccontextmanager
async def served(app: App, **options: Any) -> AsyncIterator[int]:
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        lifespan="off",
        log_config=None,
        http=bounded_http(HttpLimits(head=0.5)),
        timeout_graceful_shutdown=1,
        **{**WEBSOCKET_OPTIONS, **options},
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield int(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        await server.shutdown()


async def opened(port: int, handshake: bytes = HANDSHAKE) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(handshake)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    return reader, writer, head


async def test_peer_whose_messages_are_not_taken_is_not_taken_for_dead_and_its_end_is_noticed() -> None:
    app = Idle()
    async with served(app, ws_ping_interval=0.1, ws_ping_timeout=0.1) as port:
        _, writer, head = await opened(port)
        assert head.startswith(b"HTTP/1.1 101")
        for _ in range(3):
            writer.write(masked(0x2, b"x"))
            await asyncio.sleep(0.3)
        assert not app.gone.is_set()  # its pongs wait behind its messages
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()
        await asyncio.wait_for(app.gone.wait(), 20)


async def test_silent_peer_is_closed() -> None:
    app = Idle()
    async with served(app, ws_ping_interval=0.1, ws_ping_timeout=0.1) as port:
        reader, _writer, _ = await opened(port)
        rest = await asyncio.wait_for(reader.read(), 20)
        assert b"keepalive" in rest
        await asyncio.wait_for(app.gone.wait(), 20)


async def test_connection_outlasts_the_deadline_of_a_requests_head() -> None:
    app = Idle()
    async with served(app) as port:
        reader, _writer, _ = await opened(port)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 1.2)
        assert not app.gone.is_set()


async def test_too_many_fragments_close_the_connection() -> None:
    app = Idle()
    async with served(app) as port:
        reader, writer, _ = await opened(port)
        writer.write(masked(0x2, final=False) + masked(0x0, final=False) * (MAX_FRAGMENTS - 1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.3)
        writer.write(masked(0x0, final=False) * 10)
        rest = await asyncio.wait_for(reader.read(), 20)
        assert struct.pack(">H", 1009) in rest


@pytest.mark.parametrize(
    "change",
    [
        (b"Version: 13", b"Version: 12"),
        (b"Sec-WebSocket-Key: ", b"Key: "),
        (b"GET ", b"PUT "),
        (b"Host: localhost", b"Host: localhost\r\nX: " + b"y" * 9_000),
    ],
)
async def test_invalid_handshake_is_answered_and_closed_without_the_application(change: tuple[bytes, bytes]) -> None:
    app = Idle()
    async with served(app) as port:
        reader, _writer, head = await opened(port, HANDSHAKE.replace(*change))
        assert head.startswith(b"HTTP/1.1 4")
        await asyncio.wait_for(reader.read(), 20)
        assert app.entered == 0


async def test_peer_that_reads_nothing_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_bounds, "READING", 0.3)
    ended = asyncio.Event()

    async def flood(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        with suppress(OSError):
            while True:
                await send({"type": "websocket.send", "bytes": b"x" * 65536})
        ended.set()

    async with served(flood) as port:
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.sendall(HANDSHAKE)
            await until(ended.is_set, 30)
