"""The listener of the control service, in the API process, and its service ProxyManager.

The command lines of users connect to the ProxyManager, and open and close local ports on request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

import grpc

from postern.api.control.control_calls import Context, Room, address_of, bearer_of, code_of, first_hello, write
from postern.api.control.control_stream import Control
from postern.domain.secret import Secret
from postern.domain.server import Endpoint
from postern.domain.targets.control import HEARTBEAT, SILENCE
from postern.domain.text import one_line
from postern.errors import Denied, Misconfigured, PosternError, Unauthenticated
from postern.services.bundle import Services
from postern.services.identity.logins.authentication import Authentication
from postern.services.targets.proxy_managers import Attached, ProxyManagers, ProxyOrder, ProxyOutcome
from postern.transport.control import control_pb2 as messages
from postern.transport.control.control_pb2_grpc import (
    ProxyManagerServicer,
    add_ControlServicer_to_server,
    add_ProxyManagerServicer_to_server,
)

log = logging.getLogger(__name__)

KeyAndChain = tuple[bytes, bytes]
_MOST_REPORTS = 50  # between two heartbeats of the server
_MAX_FAILURE = 300  # characters
_AGAIN = 3  # heartbeats between two checks of the token


class ProxyManager(ProxyManagerServicer):
    def __init__(self, proxies: ProxyManagers, authentication: Authentication, room: Room, *, tunnel_url: str) -> None:
        self._proxies = proxies
        self._authentication = authentication
        self._room = room
        self._tunnel_url = tunnel_url

    async def Attend(  # noqa: N802 - the proto's name
        self, _requests: object, context: Context
    ) -> None:
        try:
            token, address = bearer_of(context), address_of(context)
            with self._room.one(address):
                attached = await self._attach_manager(context, token, address)
        except PosternError as error:
            await context.abort(code_of(error), error.message)
        heard = _Heard()
        reading = asyncio.create_task(self._read(context, attached, heard))
        try:
            welcome = messages.ProxyWelcome(tunnel_url=self._tunnel_url)
            await write(context, messages.ProxyOrder(welcome=welcome))
            await self._attend(context, attached, heard, token, address)
        finally:
            self._proxies.leave(attached)
            reading.cancel()

    async def _attach_manager(self, context: Context, token: Secret, address: str) -> Attached:
        """Serve a proxy manager. Raises Unauthenticated, Denied, Malformed, TooMany, Unavailable."""
        _, instance = await first_hello(context)
        caller = await self._authentication.caller(token, address=address)
        return self._proxies.attach(caller.principal, instance)

    async def _attend(self, context: Context, attached: Attached, heard: _Heard, token: Secret, address: str) -> None:
        clock = asyncio.get_running_loop().time
        replaced = asyncio.create_task(attached.replaced.wait())
        beats, beat_at = 0, clock()
        try:
            while not heard.left:
                ordered = asyncio.create_task(attached.orders.get())
                waited: set[asyncio.Future[Any]] = {ordered, replaced, heard.ended}
                remaining = max(0.0, beat_at + HEARTBEAT - clock())
                done, _ = await asyncio.wait(waited, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
                if ordered in done:
                    await write(context, _message(ordered.result()))
                else:
                    ordered.cancel()
                if replaced in done:
                    await context.abort(
                        grpc.StatusCode.ALREADY_EXISTS, "a newer proxy manager of yours replaced this one"
                    )
                if heard.reports > _MOST_REPORTS:
                    await context.abort(
                        grpc.StatusCode.RESOURCE_EXHAUSTED, "the proxy manager sends more reports than allowed"
                    )
                if clock() - heard.at > SILENCE:
                    await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"no report arrived for {SILENCE:.0f} s")
                if clock() >= beat_at + HEARTBEAT:
                    await write(context, messages.ProxyOrder(heart_beat=messages.HeartBeat()))
                    beat_at, heard.reports, beats = clock(), 0, beats + 1
                    if beats % _AGAIN == 0:
                        await self._check(context, token, address)
        finally:
            replaced.cancel()

    async def _check(self, context: Context, token: Secret, address: str) -> None:
        try:
            await self._authentication.caller(token, address=address)
        except (Unauthenticated, Denied) as error:
            await context.abort(code_of(error), error.message)
        except PosternError as error:  # the store does not answer: the next check tries again
            log.warning("a proxy manager's token could not be checked: %s", error)

    async def _read(self, context: Context, attached: Attached, heard: _Heard) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while heard.reports <= _MOST_REPORTS and (report := await context.read()) is not grpc.aio.EOF:
                heard.at = clock()
                heard.reports += 1
                if report.WhichOneof("report") == "answer":
                    self._record_answer(attached, report.answer)
            heard.left = heard.reports <= _MOST_REPORTS
        except grpc.aio.BaseError as error:  # the call has ended meanwhile
            log.debug("reports of a proxy manager ended: %s", error)
            heard.left = True
        if not heard.ended.done():
            heard.ended.set_result(None)

    def _record_answer(self, attached: Attached, answer: messages.ProxyAnswer) -> None:
        try:
            order_id = UUID(answer.order_id)
        except ValueError:
            return
        failure = one_line(answer.failure[:_MAX_FAILURE])
        self._proxies.record_answer(attached, order_id, ProxyOutcome(failure, min(answer.port, 65_535)))


class _Heard:
    """The state of the peer."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.at = loop.time()
        self.reports = 0
        self.left = False
        self.ended: asyncio.Future[None] = loop.create_future()


def _message(order: ProxyOrder) -> messages.ProxyOrder:
    if order.connection is None:
        return messages.ProxyOrder(disconnect=messages.DisconnectOrder(order_id=str(order.id)))
    return messages.ProxyOrder(
        connect=messages.ConnectOrder(
            order_id=str(order.id), connection=order.connection, port=order.port, access_seconds=order.seconds
        )
    )


def certificate_credentials(certificate: Callable[[], KeyAndChain]) -> grpc.ServerCredentials:
    """Return credentials with the current certificate: gRPC asks for it at each handshake."""
    first = latest = certificate()

    def fetch() -> Any:
        nonlocal latest
        current = certificate()
        if current == latest:
            return None  # the one that gRPC has
        latest = current
        return grpc.ssl_server_certificate_configuration([current])

    return grpc.dynamic_ssl_server_credentials(grpc.ssl_server_certificate_configuration([first]), fetch)


GRACE = 1.0  # seconds that streams have to end when the gateway stops
_MOST_WAITING, _MOST_WAITING_PER_ADDRESS = 256, 32  # calls that wait to be admitted
_MOST_STREAMS = 10_000
_MOST_CONNECTIONS = 12_000
_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second gateway on this port is an error; the system must not choose between them
    ("grpc.max_concurrent_streams", 16),  # on one connection
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 30_000),  # without any stream
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.max_metadata_size", 16 * 1024),
    # HTTP/2 pings detect half-open connections also while nothing is written.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 3),
)


class ControlServer:
    """`certificate` returns the key and the chain, both PEM, for the next handshakes; TLS is always used, also on
    loopback."""

    def __init__(
        self,
        services: Services,
        endpoint: Endpoint,
        *,
        certificate: Callable[[], KeyAndChain],
        tunnel_url: str,
        most_connections: int = _MOST_CONNECTIONS,
    ) -> None:
        self._most_connections = min(most_connections, _MOST_CONNECTIONS)
        self._endpoint = endpoint
        self._certificate = certificate
        room = Room(_MOST_WAITING, _MOST_WAITING_PER_ADDRESS)
        self._control = Control(
            services.agents, services.declarations, services.relay_workers, room, tunnel_url=tunnel_url
        )
        self._proxies = ProxyManager(services.proxy_managers, services.authentication, room, tunnel_url=tunnel_url)
        self._server: grpc.aio.Server | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Listen, and return the port. Raises Misconfigured if the port cannot be used, or the certificate
        is invalid."""
        options = (*_OPTIONS, ("grpc.max_allowed_incoming_connections", self._most_connections))
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=_MOST_STREAMS)
        add_ControlServicer_to_server(self._control, server)  # type: ignore[no-untyped-call]
        add_ProxyManagerServicer_to_server(self._proxies, server)  # type: ignore[no-untyped-call]
        try:
            credentials = certificate_credentials(self._certificate)
            port = server.add_secure_port(str(self._endpoint), credentials)
        except (RuntimeError, ValueError) as error:
            raise Misconfigured(
                f"the control service cannot listen on {self._endpoint}: {error}; choose a different port "
                "with POSTERN_CONTROL_PORT or --control-port, and check the certificate",
                field="control_port",
            ) from None
        await server.start()
        self._server = server
        self._watching = asyncio.create_task(self._control.watch(), name="control")
        return port

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._server is not None:
            await self._server.stop(GRACE)
