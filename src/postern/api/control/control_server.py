"""The listener of the control service, in the API's process."""

from __future__ import annotations

import asyncio

import grpc

from postern.api.control.attendance import Control
from postern.api.control.control_calls import Room
from postern.api.control.proxies import ProxyManager
from postern.domain.server import Endpoint
from postern.errors import Misconfigured
from postern.services.bundle import Services
from postern.transport.control.control_pb2_grpc import (
    add_ControlServicer_to_server,
    add_ProxyManagerServicer_to_server,
)

GRACE = 1.0  # seconds that streams have to end when the gateway stops
_MOST_WAITING, _MOST_WAITING_PER_ADDRESS = 256, 32  # to be let in
_MOST_STREAMS = 10_000
_MOST_CONNECTIONS = 12_000
_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second gateway on this port is an error, and not a lottery
    ("grpc.max_concurrent_streams", 16),  # on one connection
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 30_000),  # without any stream
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.max_metadata_size", 16 * 1024),
    # HTTP/2 pings find out half-open connections also where nobody writes.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 3),
)


class ControlServer:
    """`certificate` and `key` are PEM; TLS always, also on loopback."""

    def __init__(
        self,
        services: Services,
        endpoint: Endpoint,
        *,
        certificate: bytes,
        key: bytes,
        tunnel_url: str,
        most_connections: int = _MOST_CONNECTIONS,
    ) -> None:
        self._most_connections = min(most_connections, _MOST_CONNECTIONS)
        self._endpoint = endpoint
        self._certificate = certificate
        self._key = key
        room = Room(_MOST_WAITING, _MOST_WAITING_PER_ADDRESS)
        self._control = Control(
            services.agents, services.declarations, services.relay_workers, room, tunnel_url=tunnel_url
        )
        self._proxies = ProxyManager(services.proxy_managers, services.authentication, room, tunnel_url=tunnel_url)
        self._server: grpc.aio.Server | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """The port that it listens on. Raises Misconfigured when it cannot be had, or the certificate is unusable."""
        options = (*_OPTIONS, ("grpc.max_allowed_incoming_connections", self._most_connections))
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=_MOST_STREAMS)
        add_ControlServicer_to_server(self._control, server)  # type: ignore[no-untyped-call]
        add_ProxyManagerServicer_to_server(self._proxies, server)  # type: ignore[no-untyped-call]
        try:
            credentials = grpc.ssl_server_credentials([(self._key, self._certificate)])
            port = server.add_secure_port(str(self._endpoint), credentials)
        except (RuntimeError, ValueError) as error:
            raise Misconfigured(
                f"agents cannot be listened for on {self._endpoint}: {error}; choose another port with "
                "POSTERN_CONTROL_PORT or --control-port, and check the certificate",
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
