"""One relay worker: its listeners, links, exec runs, heartbeat, and clean shutdown."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from postern.domain.server import Endpoint, Listener
from postern.gateway.clients.listener import HandshakeRunner
from postern.gateway.clients.native_port import NativeListener
from postern.gateway.clients.pending_logins import PendingLogins
from postern.gateway.clients.tunnel_endpoint import TunnelEndpoint
from postern.gateway.close_retry_queue import CloseRetryQueue
from postern.gateway.gateway_protocols import Closing, Gate
from postern.gateway.gateway_tunnels import GatewayTunnels
from postern.gateway.link_registry import LinkRegistry
from postern.gateway.rules.violations import Violations
from postern.gateway.script_execution import Executions
from postern.gateway.shared_session import SharedSessions
from postern.gateway.target_task_runner import TargetTaskRunner
from postern.gateway.worker_heartbeat import WorkerHeartbeat
from postern.gateway.worker_hooks import SessionHooks
from postern.relay.relay_handshake import StreamHandshake
from postern.services.server.server_configs import ServerConfigs
from postern.settings import Settings
from postern.store.ports.common_ports import Signals, Topic
from postern.transport import websocket
from postern.transport.served_certificate import ServedCertificate

log = logging.getLogger(__name__)

# Less in total than the supervisor's patience: first flush messages to clients, then seal and close sessions.
STOP_GRACE = 2.0
CLOSE_GRACE = 2.0
HOOK_GRACE = 2.0  # for the hooks of sessions that end now, less the time that their clients took
_RETRY = 5.0  # seconds before a listener with a new certificate is tried again


class Worker:
    """Runs until `stop` is called. `recover` closes what an earlier run of this worker left open."""

    def __init__(
        self,
        *,
        settings: Settings,
        certificate: ServedCertificate,
        gates: Mapping[str, Gate],
        links: LinkRegistry,
        waiting: PendingLogins,
        unclosed: CloseRetryQueue,
        shared_sessions: SharedSessions,
        violations: Violations,
        hooks: SessionHooks,
        executions: Executions,
        target_tasks: TargetTaskRunner,
        door: TunnelEndpoint,
        tunnels: GatewayTunnels,
        logins: HandshakeRunner,
        presence: WorkerHeartbeat,
        server_configs: ServerConfigs,
        signals: Signals,
        recover: Callable[[], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._links = links
        self._waiting = waiting
        self._unclosed = unclosed
        self._shared_sessions = shared_sessions
        self._violations = violations
        self._hooks = hooks
        self._executions = executions
        self._target_tasks = target_tasks
        self._door = door
        self._tunnels = tunnels
        self._logins = logins
        self._presence = presence
        presence.on_lost = self.stop
        self._server_configs = server_configs
        self._native = {
            name: NativeListener(
                name, functools.partial(self._load_listener, name), functools.partial(self._accept, gate), signals
            )
            for name, gate in gates.items()
        }
        self._tunnel_server: asyncio.Server
        self._recover = recover
        self._closing = [gate for gate in gates.values() if isinstance(gate, Closing)]
        self._certificate = certificate
        for topic in (Topic.CERTIFICATES_CHANGED, Topic.RESUMED):
            signals.subscribe(topic, certificate.wake)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def serve(self, ready: Callable[[], None]) -> None:
        """Call `ready` once all listeners accept. Raises Misconfigured when a port is not available."""
        await self._recover()
        settings = self._settings
        for name, listener in self._native.items():
            await listener.start(Endpoint(settings.host, getattr(settings, f"{name}_port")))
        self._tunnel_server = await self._listen_for_tunnels()
        await self._presence.start()
        await self._executions.take_waiting()
        work = (
            self._links.sweep(),
            self._presence.keep(),
            *(listener.follow() for listener in self._native.values()),
            self._executions.follow(),
            self._unclosed.forever(),
            self._certificate.follow(),
            self._follow_certificate(),
        )
        background = [asyncio.create_task(each) for each in work]
        ready()
        try:
            await self._stopping.wait()
        finally:
            self._executions.take_no_more()
            self._target_tasks.take_no_more()
            for task in background:
                task.cancel()
            for listener in self._native.values():
                listener.close()
            self._tunnel_server.close()
            self._tunnels.drain()
            await self._presence.stop()
            began = time.monotonic()
            await self._waiting.stop(STOP_GRACE)
            await self._links.stop(STOP_GRACE)
            await self._hooks.stop(HOOK_GRACE - (time.monotonic() - began))
            self._door.close("the gateway is stopping")
            for gate in self._closing:
                gate.close("the gateway is stopping")
            ends = (self._logins, self._executions, self._target_tasks, self._shared_sessions)
            await asyncio.gather(*(end.stop(CLOSE_GRACE) for end in ends))
            await self._violations.once()
            await self._unclosed.once()
            await self._hooks.stop(0.0)  # of the sessions that ended last

    async def _listen_for_tunnels(self) -> asyncio.Server:
        return await websocket.serve(
            self._door.accept_tunnel,
            self._settings.host,
            self._settings.tunnel_port,
            self._certificate.current.context,
            why_not=self._logins.why_not,
        )

    async def _follow_certificate(self) -> None:
        """Replace the listener for tunnels when there is a new certificate, until cancelled. Open tunnels stay."""
        while True:
            await self._certificate.changed.wait()
            self._certificate.changed.clear()
            try:
                opened = await self._listen_for_tunnels()
            except OSError as error:
                log.error("tunnels still get the old certificate (%s); retrying", error.strerror)
                self._certificate.changed.set()
                await asyncio.sleep(_RETRY)
                continue
            former, self._tunnel_server = self._tunnel_server, opened
            former.close()

    def _accept(self, gate: Gate, endpoint: Endpoint) -> asyncio.Protocol:
        """Accept a client. Beyond loopback, TLS is required."""
        certificate = self._certificate.current
        stream = _Accepted(certificate.context, certificate=certificate.der)
        serve = functools.partial(gate.native, require_tls=not endpoint.is_loopback)
        stream.accepted = lambda: self._logins.start(stream, serve, gate.reject)
        return stream

    async def _load_listener(self, name: str) -> Listener:
        return (await self._server_configs.current()).listeners[name]


class _Accepted(StreamHandshake):
    """Starts its login at the first `connection_made`; `start_tls` calls that again."""

    accepted: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            with suppress(OSError):
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        start, self.accepted = self.accepted, None
        if start is not None:
            start()
