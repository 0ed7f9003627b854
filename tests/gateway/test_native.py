"""Real sockets: a listener that moves, and clients that stay connected."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from tests.support.postgres import free_port
from tests.support.promises import until, within

from postern.domain.server import Endpoint, Listener
from postern.errors import Conflict, Invalid, Misconfigured
from postern.gateway.clients.native_port import NativeListener
from postern.gateway.clients.ports import probe
from postern.store.ports.common_ports import Topic
from postern.store.signals import LocalSignals


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Gateway:
    def __init__(self) -> None:
        self.listener = Listener(True, Endpoint("127.0.0.1", free_port()))
        self.signals = LocalSignals()
        self.accepted: list[Endpoint] = []
        self.native = NativeListener("postgres", self._wanted, self._accept, self.signals)

    async def _wanted(self) -> Listener:
        return self.listener

    def _accept(self, endpoint: Endpoint) -> asyncio.Protocol:
        self.accepted.append(endpoint)
        return Echo()

    async def change(self, listener: Listener) -> None:
        self.listener = listener
        await self.signals.publish(Topic.SETTINGS_CHANGED, name="server")


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    made = Gateway()
    await made.native.start(made.listener.endpoint)
    following = asyncio.create_task(made.native.follow())
    yield made
    following.cancel()
    made.native.close()


async def is_open(endpoint: Endpoint) -> bool:
    try:
        _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    except OSError:
        return False
    writer.close()
    return True


async def becomes(endpoint: Endpoint, wanted: bool) -> None:
    """Within a second."""

    async def so() -> bool:
        return await is_open(endpoint) is wanted

    await until(so, within(1))


async def test_moved_listener_keeps_its_connected_clients(gateway: Gateway) -> None:
    old = gateway.listener.endpoint
    reader, writer = await asyncio.open_connection(old.host, old.port)
    new = Endpoint("127.0.0.1", free_port())
    await gateway.change(Listener(True, new))
    await becomes(new, True)
    await becomes(old, False)
    writer.write(b"still here")
    assert await asyncio.wait_for(reader.readexactly(10), 60) == b"still here"
    writer.close()
    assert gateway.accepted[-1] == new


async def test_listener_is_disabled_and_enabled(gateway: Gateway) -> None:
    endpoint = gateway.listener.endpoint
    await gateway.change(Listener(False, endpoint))
    await becomes(endpoint, False)
    await gateway.change(Listener(True, endpoint))
    await becomes(endpoint, True)


async def test_old_listener_stays_if_the_new_port_cannot_be_bound(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    old = gateway.listener.endpoint
    with socket.create_server(("127.0.0.1", 0)) as other:
        await gateway.change(Listener(True, Endpoint("127.0.0.1", other.getsockname()[1])))
        await until(lambda: "cannot listen on" in caplog.text, within(1))
        assert await is_open(old)


async def test_start_fails_only_if_the_configured_port_cannot_be_bound() -> None:
    made = Gateway()
    with socket.create_server(("127.0.0.1", 0)) as other:
        made.listener = Listener(True, Endpoint("127.0.0.1", other.getsockname()[1]))
        with pytest.raises(Misconfigured, match="POSTERN_POSTGRES_PORT"):
            await made.native.start(made.listener.endpoint)
        await made.native.start(Endpoint("127.0.0.1", 1))  # chosen through the API, which must stay there
        assert made.accepted == []


async def test_port_probe_binds_like_the_workers(gateway: Gateway) -> None:
    probe(gateway.listener.endpoint, "listen")  # workers share it
    probe(Endpoint("127.0.0.1", free_port()), "listen")
    with socket.create_server(("127.0.0.1", 0)) as other:
        with pytest.raises(Conflict, match="in use"):
            probe(Endpoint("127.0.0.1", other.getsockname()[1]), "listen")
        with pytest.raises(Conflict, match="in use"):
            probe(Endpoint("0.0.0.0", other.getsockname()[1]), "listen")
    with pytest.raises(Invalid, match="cannot listen on"):
        probe(Endpoint("192.0.2.1", 7000), "listen")  # an address that is not ours (RFC 5737)
