"""The gateway's two logins of MongoDB between clients and a server, without anything that inspects what follows."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import uuid4

from tests.support.mongodb import PASSWORD, USER, MongoServer
from tests.support.waiting import somebody

from postern.agent.agent_policy import LocalPolicy
from postern.agent.secrets import ResolvedSecrets
from postern.domain.identity.credential import Grant
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import ConnectionType
from postern.errors import PosternError, Unauthenticated
from postern.gateway.clients.listener import HandshakeRunner
from postern.gateway.clients.session_setup import ClientSession, SessionSetup
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.protocols.mongodb.mongodb_listener import MongodbGate
from postern.protocols.mongodb.mongodb_target import MongodbTargets
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target
from postern.services.identity.credentials import make_verifier

ANN: Final = "ann-orders-abc234"
SECRET: Final = "a long enough password"
VERIFIER: Final = make_verifier(Secret(SECRET))


def keys(server: MongoServer, **more: str) -> dict[str, str]:
    return {
        "HOST": "127.0.0.1",
        "PORT": str(server.port),
        "USER": USER,
        "PASS": PASSWORD,
        "SSLMODE": "disable",
        **more,
    }


async def dial(values: Mapping[str, str], start: Start | None = None) -> Target:
    order = Order(
        session_id=uuid4(),
        user_id="u",
        user_email="ann@example.com",
        verb=Verb.CONNECT,
        connection_id=uuid4(),
        connection="orders",
        type=ConnectionType.DATABASE,
        subtype="mongodb",
        command=(),
        secret={},
        start=start or Start(),
        timeout=60.0,
    )
    secrets = ResolvedSecrets({name: Secret(value) for name, value in values.items()}, {})
    return await MongodbTargets(LocalPolicy()).dial(order, secrets)


def tunnel_request() -> TunnelRequest:
    """A stream of somebody's tunnel."""
    person = somebody()

    async def standing() -> Principal:
        return person

    return TunnelRequest(person, "login:1", "orders", 0, standing)


@dataclass
class SplicingFronts:
    """Stands for `SessionSetup`: a client that has authenticated is given to the server, byte by byte."""

    server: MongoServer
    starts: list[Start] = field(default_factory=list)
    refused: list[PosternError] = field(default_factory=list)
    failure: PosternError | None = None  # in place of the target
    decided: asyncio.Event = field(default_factory=asyncio.Event)  # a review, before the target is dialled

    def __post_init__(self) -> None:
        self.decided.set()
        self.engine = SimpleNamespace(links=SimpleNamespace(changes=0), turned_away=self.refused.append)

    async def find_grant(self, username: str) -> Grant | None:
        return Grant(uuid4(), ANN, VERIFIER, somebody(), cast(Any, None), None, None) if username == ANN else None

    async def by_credential(self, client: ClientSession, grant: Grant | None) -> Awaitable[None] | None:
        if grant is None:
            client.turn_away(Unauthenticated("there is no such credential"))
            return None
        return await self._start(client)

    async def by_tunnel(self, client: ClientSession, request: TunnelRequest) -> Awaitable[None] | None:
        return await self._start(client)

    async def _start(self, client: ClientSession) -> Awaitable[None] | None:
        client.stream.on_known()
        await self.decided.wait()
        if self.failure is not None:
            client.turn_away(self.failure)
            return None
        start = client.start(cast(Any, SimpleNamespace(principal=somebody())))
        self.starts.append(start)
        target = await dial(keys(self.server), start)
        assert client.welcome(target) == b""
        return splice(client.stream, target.stream)


class _Other(asyncio.Protocol):
    """One side of a spliced connection."""

    def __init__(self, other: asyncio.Transport, lost: asyncio.Future[None]) -> None:
        self._other = other
        self._lost = lost

    def data_received(self, data: bytes) -> None:
        self._other.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._other.close()
        if not self._lost.done():
            self._lost.set_result(None)


async def splice(client: StreamHandshake, target: StreamHandshake) -> None:
    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    assert client.transport is not None
    assert target.transport is not None
    ours, theirs = client.transport, target.transport
    for stream, other in ((client, theirs), (target, ours)):
        rest = stream.hand_over(_Other(other, lost))
        if rest:
            other.write(rest)
    await lost


@contextlib.asynccontextmanager
async def listening_gate(
    fronts: SplicingFronts,
    context: ssl.SSLContext | None = None,
    *,
    require_tls: bool = False,
    tunnel: TunnelRequest | None = None,
) -> AsyncIterator[int]:
    """The port of a listener, as a relay worker has it; with `tunnel` each connection is a stream of such a tunnel."""
    gate = MongodbGate(cast(SessionSetup, fronts), version="7.0", decoy_secret=b"decoy")
    logins = HandshakeRunner(timeout=60.0, most=100, most_per_address=100)
    known: set[StreamHandshake] = set()

    async def serve(stream: StreamHandshake) -> Awaitable[None] | None:
        if tunnel is not None:
            return await gate.serve_tunnel(stream, tunnel)
        return await gate.native(stream, require_tls=require_tls)

    class Accepted(StreamHandshake):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            if self not in known:
                known.add(self)
                logins.start(self, serve, gate.reject)

    server = await asyncio.get_running_loop().create_server(lambda: Accepted(context), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await logins.stop(1.0)
