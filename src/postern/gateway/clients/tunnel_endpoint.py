"""Tunnels to this worker: their authentication, and their streams.

    bearer xagt-…        an agent: the gateway opens streams on it, it opens none
    any other bearer     a command line: OPEN {"connect": connection, "token": …} for each local connection,
                         and "protocol", which its client uses there (DEFAULT_PROTOCOL if omitted); with
                         "terminal" for each run of a command (start_of in tunnel_request.py); with "reason" and
                         "duration", in seconds, for the approvers (pending_logins.py); and with "tracker_fields",
                         texts by name, for the issue that the session opens
                         the API's process opens a terminal of a browser in the same way, with the browser's token,
                         with "browser", which has its address and a attestation (terminal_attestations.py), and with
                         "protocol", that of the connection

Each stream of a command line is authenticated and admitted separately: its owner's permissions can change meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol
from uuid import UUID

from postern.descriptors import no_room
from postern.domain.identity.login import BrowserTerminal, ClientKind
from postern.domain.secret import Secret
from postern.domain.targets.agent import SECRET_PREFIX, Agent
from postern.domain.targets.connection import OPAQUE
from postern.errors import Denied, PosternError, ProtocolViolation, TooMany
from postern.gateway.clients.listener import HandshakeRunner, Reject
from postern.gateway.clients.tunnel_request import (
    TunnelRequest,
    browser_of,
    fields_of,
    read_reason_and_duration,
    start_of,
)
from postern.gateway.gateway_protocols import Runner, TunnelServer
from postern.gateway.gateway_tunnels import GatewayTunnels
from postern.gateway.link_registry import LinkRegistry
from postern.protocols.registry import COMMAND_PROTOCOL, DEFAULT_PROTOCOL
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start
from postern.services.identity.logins.authentication import Authentication, Caller
from postern.services.targets.terminal_attestations import TerminalAttestations
from postern.transport.mux import Incoming, Message, Mux
from postern.transport.stream_windows import PROCESS, Reserve
from postern.transport.websocket import WebSocketTransport

log = logging.getLogger(__name__)

ServeTunnel = Callable[[StreamHandshake, TunnelRequest], Awaitable[Awaitable[None] | None]]

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
        attestations: TerminalAttestations,
        agents: TunnelEnroller,
        tunnels: GatewayTunnels,
        carriers: Mapping[str, TunnelServer],
        runners: Mapping[str, Runner],
        links: LinkRegistry,
        logins: HandshakeRunner,
    ) -> None:
        self._attestations = attestations
        self._hello = {"worker": worker}
        self._authentication = authentication
        self._agents = agents
        self._tunnels = tunnels
        self._carriers = carriers
        self._runners = runners
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
        log.info("agent %r opened a tunnel from %s", agent.name, stream.peer)
        self._tunnels.add(agent, instance, mux)
        return _until_lost(mux)

    async def _person(self, stream: StreamHandshake, token: Secret) -> Awaitable[None]:
        person = (await self._authentication.caller(token, address=stream.peer)).principal
        if self._people[person.id] >= MOST_TUNNELS:
            raise TooMany(
                f"you already have {MOST_TUNNELS} tunnels to this gateway, the maximum; end a command that uses "
                "one, then try again"
            )
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

    def _carrier(self, request: Message) -> TunnelServer:
        protocol = request.get("protocol", DEFAULT_PROTOCOL)
        carrier = self._carriers.get(protocol) if isinstance(protocol, str) else None
        if carrier is None:
            raise ProtocolViolation(
                f"this gateway does not support protocol {protocol!r}; if it is older than the command line, upgrade it"
            )
        return carrier

    def _server(self, request: Message, start: Start | None, *, in_browser: bool) -> tuple[ServeTunnel, Reject]:
        """Return what serves the stream's client, and what rejects it."""
        if start is None:
            carrier = self._carrier(request)
            return carrier.serve_tunnel, carrier.reject
        protocol = request.get("protocol") if in_browser else COMMAND_PROTOCOL
        runner = self._runners.get(protocol) if isinstance(protocol, str) else None
        if runner is None:
            raise ProtocolViolation(f"protocol {protocol!r} has no terminals")
        return partial(runner.serve_tunnel, start=start), partial(runner.reject, start=start)

    async def _connect(self, incoming: Incoming, token: Secret, address: str) -> None:
        connection, bearer = _stream_target(incoming.request, token)
        start, (reason, duration) = start_of(incoming.request), read_reason_and_duration(incoming.request)
        browser = browser_of(incoming.request)
        serve, reject = self._server(incoming.request, start, in_browser=browser is not None)
        fields = fields_of(incoming.request)
        since = self._links.changes
        if not self._logins.has_room():
            raise no_room()
        if browser is not None:
            address = await self._require_browser(browser, bearer, start)
        caller = await self._authentication.caller(bearer, address=address)
        standing = partial(self._authentication.standing, caller, address=address)
        request = TunnelRequest(
            caller.principal,
            caller.means,
            connection,
            since,
            standing,
            reason,
            duration,
            fields,
            expires_at=caller.access_until,
            metadata=caller.session_metadata({}),
        )
        if browser is not None:
            request = _in_browser(request, caller)
        protocol = incoming.request.get("protocol")
        client = StreamHandshake(half_open=isinstance(protocol, str) and protocol in OPAQUE)
        incoming.accept({}, client)
        client.peer = address

        async def login(client: StreamHandshake) -> Awaitable[None] | None:
            return await serve(client, request)

        self._logins.start(client, login, reject)

    async def _require_browser(self, browser: tuple[str, Secret], token: Secret, start: Start | None) -> str:
        """Return the browser's address. Raises Denied, ProtocolViolation."""
        address, attestation = browser
        if start is None:
            raise ProtocolViolation("a browser can only open terminals")
        await self._attestations.require(token, address, attestation)
        return address


def _in_browser(request: TunnelRequest, caller: Caller) -> TunnelRequest:
    """Return the request of a terminal in a browser, which lasts no longer than its login. Raises Denied."""
    login = caller.login
    if login is None or login.client is not ClientKind.WEB:
        raise Denied("terminals in a browser need the login of a browser; use `postern connect` instead")
    return replace(request, expires_at=login.ends_at, browser=BrowserTerminal(login, datetime.now(UTC)))


def _stream_target(request: Message, token: Secret) -> tuple[str, Secret]:
    """Return the connection's name, and the token: the newest that the command line has."""
    connection, newest_token = request.get("connect"), request.get("token")
    if not isinstance(connection, str) or not isinstance(newest_token, str | None):
        raise ProtocolViolation("a stream request does not name a connection")
    return connection, Secret(newest_token) if newest_token else token


def _nothing(incoming: Incoming) -> None:
    incoming.refuse("Denied", "agents cannot open streams to the gateway")


async def _until_lost(mux: Mux) -> None:
    await asyncio.shield(mux.lost)
