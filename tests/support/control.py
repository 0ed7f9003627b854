"""The control service on loopback over TLS, and links to it that fail in the ways that networks do."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from uuid import UUID, uuid4

from tests.support.certificates import Issued, issue
from tests.support.postgres import free_port
from tests.support.world import MACHINE, World

from postern.api.control.control_server import ControlServer
from postern.client.client_control import attend
from postern.domain.identity.principal import Principal
from postern.domain.server import Endpoint
from postern.domain.targets.agent import AgentKey, AgentMode
from postern.domain.targets.control import AgentOrder
from postern.domain.targets.declaration import Declaration
from postern.services.bundle import Services

TUNNEL_URL = "wss://localhost:7443"
ISSUED = issue("localhost", "127.0.0.1")


@dataclass
class Place:
    """A control service, and an administrator who makes keys for it."""

    world: World
    services: Services
    admin: Principal
    port: int
    issued: Issued
    server: ControlServer | None = None

    @classmethod
    async def make(cls, world: World, issued: Issued = ISSUED) -> Place:
        port = free_port()
        machine = replace(MACHINE, control=Endpoint("localhost", port))
        place = cls(world, world.services(machine), await world.add_user("admin", "admin"), port, issued)
        await place.start()
        return place

    async def start(self) -> None:
        self.server = ControlServer(
            self.services,
            Endpoint("127.0.0.1", self.port),
            certificate=lambda: (self.issued.key, self.issued.certificate),
            tunnel_url=TUNNEL_URL,
        )
        await self.server.start()

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop()
            self.server = None

    async def key(self, name: str = "edge", mode: AgentMode = AgentMode.STANDARD) -> AgentKey:
        made = await self.services.agent_keys.create(self.admin, {"name": name, "mode": mode})
        return self.trusting(AgentKey.read(made.key))

    def trusting(self, key: AgentKey) -> AgentKey:
        return replace(key, authority=self.issued.der)


@dataclass
class Attending:
    """An agent's side, in a task of its own; what it hears comes to `orders`."""

    key: AgentKey
    facts: dict[str, str] = field(default_factory=dict)
    instance: UUID = field(default_factory=uuid4)
    declaration: Declaration | None = None
    orders: asyncio.Queue[AgentOrder] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        self.task = asyncio.create_task(self._attend())

    async def _attend(self) -> None:
        async for order in attend(self.key, self.facts, self.instance, self.declaration):
            self.orders.put_nowait(order)

    async def next(self, seconds: float = 30.0) -> AgentOrder:
        """Raises what ended it, when it ended."""
        getting = asyncio.create_task(self.orders.get())
        done, _ = await asyncio.wait({getting, self.task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if getting in done:
            return getting.result()
        getting.cancel()
        if self.task in done:
            self.task.result()
        raise TimeoutError(f"nothing was heard for {seconds} s")

    async def ended(self, seconds: float = 30.0) -> None:
        """Raises what ended it."""
        await asyncio.wait_for(asyncio.shield(self.task), seconds)

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self.task


class Link:
    """A link of TCP to a port, which can freeze: no byte passes any more, and nobody is told."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.accepted = 0

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def freeze(self) -> None:
        self._flowing.clear()

    def thaw(self) -> None:
        """For connections from now on; those that were frozen stay so, as behind a router that forgot them."""
        for task in self._tasks:
            task.cancel()
        self._flowing.set()

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, target_writer]
        for source, sink in ((reader, target_writer), (target_reader, writer)):
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                await self._flowing.wait()
                sink.write(data)
                await sink.drain()
            sink.close()
