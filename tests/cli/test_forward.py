"""The local port against a tunnel's end that is ours, without a gateway behind it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from postern.cli.terminal.forward import LOOPBACK, PortForward, StreamRequest
from postern.domain.secret import Secret
from postern.transport import certificates, websocket
from postern.transport.certificates import TlsFiles
from postern.transport.mux import Incoming, Mux
from postern.transport.websocket import WebSocketTransport

SIZE = 8 * 1024 * 1024


class Echo(asyncio.Protocol):
    """Sends back what comes, no faster than it is taken."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.stream = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.stream.write(data)

    def pause_writing(self) -> None:
        self.stream.pause_reading()

    def resume_writing(self) -> None:
        self.stream.resume_reading()


class Far:
    """The gateway's end: remembers who came, and echoes, or turns them away."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.wanted: list[dict[str, object]] = []
        self.tunnels: list[Mux] = []
        self.refusing = ""

    def opened(self, transport: WebSocketTransport, token: str) -> None:
        self.came.append(token)
        if self.refusing == "tunnels":
            transport.refuse("not today")
            return
        mux = Mux(dialler=False, hello={"worker": "one"}, on_open=self._take)
        self.tunnels.append(mux)
        transport.set_protocol(mux)
        mux.connection_made(transport)

    def _take(self, incoming: Incoming) -> None:
        self.wanted.append(dict(incoming.request))
        if self.refusing == "streams":
            incoming.refuse("Unauthenticated", "who are you?")
        else:
            incoming.accept({}, Echo())


@pytest.fixture
def material(tmp_path: Path) -> TlsFiles:
    return certificates.ensure(tmp_path / "tls", [LOOPBACK])


@pytest.fixture
def far() -> Far:
    return Far()


@pytest.fixture
def failures() -> list[str]:
    return []


@pytest.fixture
async def port(material: TlsFiles, far: Far, failures: list[str]) -> AsyncIterator[int]:
    server = await websocket.serve(far.opened, LOOPBACK, 0, material.server_context())
    at = server.sockets[0].getsockname()[1]
    request = StreamRequest(f"wss://{LOOPBACK}:{at}", Secret("t0ken"), "shop demo/1", material.authority.read_text())
    forward = PortForward(request, failures.append)
    yield await forward.start(0)
    await forward.stop()
    server.close()


async def test_bytes_come_back_as_they_went(port: int, far: Far, failures: list[str]) -> None:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    sent = os.urandom(SIZE)
    writer.write(sent)
    assert await asyncio.wait_for(reader.readexactly(SIZE), 60) == sent
    assert far.came == ["t0ken"]
    assert far.wanted == [{"connect": "shop demo/1", "token": "t0ken"}]
    assert failures == []
    writer.close()


async def test_a_client_that_does_not_read_slows_only_itself(port: int, far: Far) -> None:
    # The reader's own limit makes the client stop reading its socket when nobody takes from it.
    stalled, stalled_writer = await asyncio.open_connection(LOOPBACK, port, limit=1024)
    sent = bytes(4 * SIZE)
    stalled_writer.write(sent)
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    for number in range(20):
        writer.write(bytes([number]) * 1000)
        assert await asyncio.wait_for(reader.readexactly(1000), 60) == bytes([number]) * 1000
    assert await asyncio.wait_for(stalled.readexactly(len(sent)), 60) == sent
    for one in (stalled_writer, writer):
        one.close()


async def test_all_connections_share_one_tunnel_which_is_dialled_again_when_it_is_lost(port: int, far: Far) -> None:
    for expected in (1, 1, 2):
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"hello")
        assert await asyncio.wait_for(reader.readexactly(5), 60) == b"hello"
        assert len(far.tunnels) == expected
        if len(far.wanted) == 2:
            far.tunnels[0].close("the gateway is stopping")
            assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


@pytest.mark.parametrize(("what", "said"), [("tunnels", "not today"), ("streams", "who are you?")])
async def test_the_gateways_refusal_ends_the_client_and_is_said(
    port: int, far: Far, failures: list[str], what: str, said: str
) -> None:
    far.refusing = what
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 60) == b""
    assert len(failures) == 1
    assert said in failures[0]
    writer.close()


async def test_a_gateway_that_is_not_there_is_said(material: TlsFiles, failures: list[str]) -> None:
    request = StreamRequest(f"wss://{LOOPBACK}:1", Secret("t"), "shop", material.authority.read_text())
    forward = PortForward(request, failures.append)
    reader, writer = await asyncio.open_connection(LOOPBACK, await forward.start(0))
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(reader.readexactly(1), 60)
    assert len(failures) == 1
    assert "cannot be reached" in failures[0]
    writer.close()
    await forward.stop()


async def test_a_server_that_is_not_the_gateway_is_given_no_byte(far: Far, tmp_path: Path, failures: list[str]) -> None:
    impostor = certificates.ensure(tmp_path / "impostor", [LOOPBACK])
    trusted = certificates.ensure(tmp_path / "trusted", [LOOPBACK])
    server = await websocket.serve(far.opened, LOOPBACK, 0, impostor.server_context())
    url = f"wss://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    forward = PortForward(StreamRequest(url, Secret("t"), "shop", trusted.authority.read_text()), failures.append)
    reader, writer = await asyncio.open_connection(LOOPBACK, await forward.start(0))
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(reader.readexactly(1), 60)
    assert far.came == []
    assert "CERTIFICATE_VERIFY_FAILED" in failures[0]
    writer.close()
    await forward.stop()
    server.close()
