"""A relay worker's interface to a protocol: the steady state of its links, and its gate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from postern.domain.rules.permit import Permit
from postern.errors import PosternError
from postern.gateway.agent_dialers import ReachableAgent
from postern.gateway.clients.listener import HandshakeRunner
from postern.gateway.clients.session_setup import SessionSetup
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.link_registry import LinkRegistry
from postern.gateway.rules.row_counts import RowCounter
from postern.protocols.registry import PROTOCOLS
from postern.protocols.wire_base import Wire
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Dialer, Start
from postern.services.bundle import Services
from postern.settings import Settings
from postern.store.ports.common_ports import Signals
from postern.transport.served_certificate import ServedCertificate

OpenWire = Callable[[Permit, Start, Mapping[str, str]], Wire]
"""Makes the wire of one link; the mapping is what the target said at login."""


@dataclass(frozen=True, slots=True)
class WireParts:
    """The parts of a wire, the same for all links of a worker. `links` are those that a client can end; None where it
    must not, as in previews. `shared_secret` is the same in every worker; empty in previews."""

    settings: Settings
    links: LinkRegistry | None
    signals: Signals
    shared_secret: bytes = b""


class WireSpec(Protocol):
    """A protocol's interface for links."""

    @property
    def wires(self) -> Callable[[WireParts], OpenWire]: ...


@dataclass(frozen=True, slots=True)
class GateParts:
    """The parts of a gate. `decoy_secret` makes unknown user names look like wrong passwords, and is the same in every
    worker. `certificate` is the one that the worker presents."""

    settings: Settings
    certificate: ServedCertificate
    fronts: SessionSetup
    logins: HandshakeRunner
    services: Services
    signals: Signals
    decoy_secret: bytes


class Gate(Protocol):
    """Logs in native clients of one protocol."""

    async def native(self, stream: StreamHandshake, *, require_tls: bool) -> Awaitable[None] | None: ...

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Tell a client in its own protocol why it cannot log in."""


class TunnelServer(Protocol):
    """Serves tunnel clients, which name a connection."""

    async def serve_tunnel(self, stream: StreamHandshake, request: TunnelRequest) -> Awaitable[None] | None: ...

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Tell a client why it cannot connect."""


@runtime_checkable
class TunnelGate(Gate, TunnelServer, Protocol):
    """A gate that also serves tunnel clients."""


class Runner(Protocol):
    """Serves tunnel clients that start a program at the target."""

    async def serve_tunnel(
        self, stream: StreamHandshake, request: TunnelRequest, start: Start
    ) -> Awaitable[None] | None: ...

    async def reject(self, stream: StreamHandshake, error: PosternError, *, start: Start) -> None:
        """Tell a client why its program cannot be started."""


@runtime_checkable
class Closing(Protocol):
    """A gate whose clients have connections that outlive their links."""

    def close(self, reason: str) -> None:
        """End all connections, and tell their clients why."""


class GatewaySpec(Protocol):
    """A protocol's interface for serving its clients."""

    @property
    def gate(self) -> Callable[[GateParts], Gate] | None: ...

    @property
    def local_port(self) -> Callable[[SessionSetup], TunnelServer] | None: ...

    @property
    def runner(self) -> Callable[[SessionSetup], Runner] | None: ...

    @property
    def row_counts(self) -> Callable[[Dialer], RowCounter] | None: ...

    @property
    def checked_agent(self) -> Callable[[ReachableAgent, Services], ReachableAgent] | None: ...


WIRE_SPECS: Final[Mapping[str, WireSpec]] = PROTOCOLS
GATEWAY_SPECS: Final[Mapping[str, GatewaySpec]] = PROTOCOLS
