"""Tunnels to this worker: their authentication, and their streams.

    bearer xagt-…        an agent: the gateway opens streams on it, it opens none
    any other bearer     a command line: OPEN {"connect": connection, "token": …} for each local connection,
                         and "protocol", which its client uses there (DEFAULT_PROTOCOL if omitted); with
                         "terminal" for each run of a command (start_of in tunnel_request.py); with "reason" and
                         "duration", in seconds, for the approvers (pending_logins.py); and with "tracker_fields",
                         texts by name, for the issue that the session opens

Each stream of a command line is authenticated and admitted separately: its owner's permissions can change meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Protocol
from uuid import UUID

from postern.descriptors import no_room
from postern.domain.secret import Secret
from postern.domain.targets.agent import SECRET_PREFIX, Agent
from postern.errors import PosternError, ProtocolViolation, TooMany
from postern.gateway.clients.listener import HandshakeRunner
from postern.gateway.clients.tunnel_request import TunnelRequest, fields_of, read_reason_and_duration, start_of
from postern.gateway.gateway_protocols import Runner, TunnelGate
from postern.gateway.gateway_tunnels import GatewayTunnels
from postern.gateway.link_registry import LinkRegistry
from postern.protocols.registry import DEFAULT_PROTOCOL
from postern.relay.relay_handshake import StreamHandshake
from postern.services.identity.logins.authentication import Authentication
from postern.transport.mux import Incoming, Message, Mux
from postern.transport.stream_windows import PROCESS, Reserve
from postern.transport.websocket import WebSocketTransport

log = logging.getLogger(__name__)

MOST_STREAMS = 1_000  # of one command line
MOST_TUNNELS = 100  # of one user, at this worker


class TunnelEnroller(Protocol):
    async def enrol(self, secret: Secret, *, name: str | None, address: str) -> Agent:
        """Authenticate an agent by its key. Raises Unauthenticated."""


class TunnelEndpoint:
    """Accepts tunnels. `worker` is this process's id among all live workers; `links` are those of this process."""

    def __init__(
        self,
        *,
        worker: str,
        authentication: Authentication,
        agents: TunnelEnroller,
        tunnels: GatewayTunnels,
        carriers: Mapping[str, TunnelGate],
        commands: Runner,
        links: LinkRegistry,
        logins: HandshakeRunner,
    ) -> None:
        self._hello = {"worker": worker}
        self._authentication = authentication
        self._agents = agents
        self._tunnels = tunnels
        self._carriers = carriers
        self._commands = commands
        self._links = links
        self._logins = logins
        self._open: set[Mux] = set()
        self._people: Counter[UUID] = Counter()  # number of tunnels per user
        self._reserve = Reserve(PROCESS)

    def accept_tunnel(self, transport: WebSocketTransport, token: str) -> None:
        stream = StreamHandshake()
        transport.set_protocol(stream)
        stream.connection_made(transport)

        async def login(stream: StreamHandshake) -> Awaitable[None] | None:
            try:
                if token.startswith(SECRET_PREFIX):
                    return await self._agent(stream, Secret(token))
                return await self._person(stream, Secret(token))
            except PosternError as error:
                transport.refuse(error.message)
                return None

        async def reject(_stream: StreamHandshake, error: PosternError) -> None:
            transport.refuse(error.message)

        self._logins.start(stream, login, reject)

    @property
    def tunnels(self) -> int:
        """Return how many tunnels are open, of agents and of command lines."""
        return len(self._open)

    def close(self, reason: str) -> None:
        for mux in list(self._open):
            mux.close(reason)

    async def _agent(self, stream: StreamHandshake, secret: Secret) -> Awaitable[None]:
        agent = await self._agents.enrol(secret, name=None, address=stream.peer)
        mux = Mux(dialler=False, hello=self._hello, on_open=_nothing, reserve=self._reserve)
        self._start(mux, stream)
        instance = (await mux.greeting).get("instance")
        if not isinstance(instance, str) or not 0 < len(instance) <= 64:
            mux.close("this agent did not send its instance id")
            raise ProtocolViolation(f"agent {agent.name!r} did not send its instance id")
        log.info("agent %r has come from %s", agent.name, stream.peer)
        self._tunnels.add(agent, instance, mux)
        return _until_lost(mux)

    async def _person(self, stream: StreamHandshake, token: Secret) -> Awaitable[None]:
        person = (await self._authentication.caller(token, address=stream.peer)).principal
        if self._people[person.id] >= MOST_TUNNELS:
            raise TooMany(f"you have {MOST_TUNNELS} tunnels here already; end a command that holds one, then try again")
        peer = stream.peer

        def take(incoming: Incoming) -> None:
            incoming.serve(self._connect(incoming, token, peer))

        mux = Mux(dialler=False, hello=self._hello, on_open=take, most=MOST_STREAMS, reserve=self._reserve)
        self._people[person.id] += 1
        mux.lost.add_done_callback(lambda _lost: self._leave(person.id))
        self._start(mux, stream)
        return _until_lost(mux)

    def _leave(self, person: UUID) -> None:
        self._people[person] -= 1
        if not self._people[person]:
            del self._people[person]

    def _start(self, mux: Mux, stream: StreamHandshake) -> None:
        assert stream.transport is not None
        rest = stream.hand_over(mux)
        self._open.add(mux)
        mux.lost.add_done_callback(lambda _lost: self._open.discard(mux))
        mux.connection_made(stream.transport)
        if rest:
            mux.data_received(rest)

    def _carrier(self, request: Message) -> TunnelGate:
        protocol = request.get("protocol", DEFAULT_PROTOCOL)
        carrier = self._carriers.get(protocol) if isinstance(protocol, str) else None
        if carrier is None:
            raise ProtocolViolation(
                f"this gateway does not support protocol {protocol!r}; is it older than the command line?"
            )
        return carrier

    async def _connect(self, incoming: Incoming, token: Secret, address: str) -> None:
        connection, bearer = _stream_target(incoming.request, token)
        start, (reason, duration) = start_of(incoming.request), read_reason_and_duration(incoming.request)
        carrier = self._carrier(incoming.request)
        fields = fields_of(incoming.request)
        since = self._links.changes
        if not self._logins.has_room():
            raise no_room()
        caller = await self._authentication.caller(bearer, address=address)
        standing = partial(self._authentication.standing, caller, address=address)
        wanted = TunnelRequest(caller.principal, caller.means, connection, since, standing, reason, duration, fields)
        client = StreamHandshake()
        incoming.accept({}, client)

        async def login(client: StreamHandshake) -> Awaitable[None] | None:
            if start is not None:
                return await self._commands.serve_tunnel(client, wanted, start)
            return await carrier.serve_tunnel(client, wanted)

        reject = carrier.reject if start is None else partial(self._commands.reject, start=start)
        self._logins.start(client, login, reject)


def _stream_target(request: Message, token: Secret) -> tuple[str, Secret]:
    """Return the connection's name, and the token: the newest that the command line has."""
    connection, given = request.get("connect"), request.get("token")
    if not isinstance(connection, str) or not isinstance(given, str | None):
        raise ProtocolViolation("a stream request does not name a connection")
    return connection, Secret(given) if given else token


def _nothing(incoming: Incoming) -> None:
    incoming.refuse("Denied", "an agent opens nothing at its gateway")


async def _until_lost(mux: Mux) -> None:
    await asyncio.shield(mux.lost)
