"""Servers and clients of MySQL's protocol for tests: a real MariaDB, and our own side of a login on a real port."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import Issued
from tests.support.mariadb import MariaDbServer, program
from tests.support.mysql_links import links

from postern.domain.secret import Secret
from postern.interception.events import Event
from postern.interception.pipeline import Interceptor
from postern.protocols.mysql.login.mysql_login import ClientLogin, MysqlTargetLogin, connect
from postern.protocols.wire_base import Side
from postern.relay import endpoint
from postern.relay.driver import Driver
from postern.relay.relay_handshake import StreamHandshake


@contextlib.contextmanager
def running_mariadb(*settings: str) -> Iterator[MariaDbServer]:
    """Missing binaries are an error under CI=true, else a visible skip."""
    if program("mariadbd") is None and os.environ.get("CI") != "true":
        pytest.skip("MariaDB is not installed")
    server = MariaDbServer(settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def server_context(issued: Issued, folder: Path) -> ssl.SSLContext:
    """TLS as a server, with that certificate."""
    (folder / "certificate.pem").write_bytes(issued.certificate)
    (folder / "key.pem").write_bytes(issued.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


@contextlib.asynccontextmanager
async def listening(
    behave: Callable[[StreamHandshake], Awaitable[None]], context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """A port on which each client is given to `behave`; its errors come out at the end."""
    tasks: set[asyncio.Task[None]] = set()

    class Accepting(StreamHandshake):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            if self not in known:
                known.add(self)
                tasks.add(asyncio.create_task(one(self)))

    known: set[StreamHandshake] = set()

    async def one(stream: StreamHandshake) -> None:
        with contextlib.suppress(ConnectionError):
            await behave(stream)
        stream.close()

    server = await asyncio.get_running_loop().create_server(lambda: Accepting(context), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*tasks)
    finally:
        server.close()
        for task in tasks:
            task.cancel()


@dataclass
class Relay:
    """A gateway between clients and one server, of nothing but logins and links. `events` is what was recorded."""

    server: MariaDbServer
    interceptors: tuple[Interceptor, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def record(self, events: list[Event], micros: int) -> None:
        self.events += events

    async def __call__(self, client: StreamHandshake) -> None:
        login = ClientLogin(client, (1 << 31) + 1)
        startup = await login.greet(require_tls=False)
        login.let_in()
        target = StreamHandshake()
        await asyncio.get_running_loop().create_connection(lambda: target, "127.0.0.1", self.server.port)
        await connect(
            target,
            MysqlTargetLogin(
                startup.user,
                Secret(""),
                startup.database,
                capabilities=startup.capabilities,
                collation=startup.collation,
            ),
        )
        login.welcome()
        options = {"capabilities": startup.capabilities, "collation": startup.collation, "user": startup.user}
        link = links(*self.interceptors, **options, **self.options)()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        driver = Driver(link, self, clock=lambda: 0, cancel_target=lambda: done)
        for side, stream in ((Side.TARGET, target), (Side.CLIENT, client)):
            transport = stream.transport
            assert transport is not None
            waiting = stream.hand_over(endpoint.connect(driver, side, transport))
            if waiting:
                (driver.from_client if side is Side.CLIENT else driver.from_target)(waiting)
        await driver.done
