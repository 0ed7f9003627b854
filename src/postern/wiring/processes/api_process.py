"""The API's process: uvicorn on uvloop, plain HTTP on loopback and HTTPS elsewhere. It only answers requests:
background jobs run in the archiver (background_jobs.py)."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
import uvloop
from fastapi import FastAPI

from postern import descriptors
from postern.api.application import create_app
from postern.api.control.control_server import ControlServer
from postern.api.info import StaticServerInfo
from postern.descriptors import Descriptors
from postern.domain.server import Endpoint
from postern.domain.tracing import Tracer
from postern.integrations.acme.acme_challenges import read_answer
from postern.metrics.meters import Meters
from postern.process import announce_ready
from postern.protocols.registry import PROTOCOLS, SSH_PROTOCOL
from postern.settings import Settings
from postern.store.ports.common_ports import Topic
from postern.store.signals import SocketSignals
from postern.transport.http_bounds import HttpLimits, bounded_http
from postern.transport.served_certificate import ServedCertificate
from postern.transport.tunnel_dialling import TunnelAddress
from postern.transport.websocket_bounds import WEBSOCKET_OPTIONS
from postern.web.web_assets import load_assets
from postern.wiring import paths, tls
from postern.wiring.app import App, open_app
from postern.wiring.metrics_wiring import exporting_metrics, sample_certificate
from postern.wiring.tracing_wiring import tracing

GRACE = 3  # seconds that requests have to end when the gateway stops


def run(settings: Settings) -> None:
    """Run the API. Blocks until SIGTERM."""
    meters = Meters()
    with tracing(os.environ, "api", meters) as tracer:
        uvloop.run(_serve(settings, meters, tracer))


def build_api(settings: Settings, app: App) -> FastAPI:
    authority = tls.authority(settings)
    info = StaticServerInfo(
        host=settings.address,
        tunnel_url=_tunnel_url(settings),
        grpc_url=f"grpcs://{settings.authority_of(settings.control_port)}",
        ca_certificate=authority.read_text() if authority else None,
        gateway_commands=settings.gateway_commands,
        ssh_host_key=_ssh_host_key(settings),
    )
    return create_app(
        app.services,
        info,
        trusted_proxies=settings.proxies,
        web_assets=load_assets(),
        tunnel=own_tunnel(settings, info.ca_certificate),
        acme_answer=functools.partial(read_answer, paths.acme_challenges(settings.home)),
    )


def own_tunnel(settings: Settings, authority: str | None) -> TunnelAddress:
    """Return where this process reaches the relay workers of its machine, whose certificate has the public name."""
    host = settings.local_host
    place = f"[{host}]" if ":" in host else host
    return TunnelAddress(f"wss://{place}:{settings.tunnel_port}", authority or "", settings.address)


def _ssh_host_key(settings: Settings) -> str:
    """Raises Misconfigured for an invalid file."""
    read = PROTOCOLS[SSH_PROTOCOL].host_key
    return "" if read is None else read(settings)


def build_control(settings: Settings, app: App, certificate: ServedCertificate) -> ControlServer:
    """Serve the control service with TLS by the same certificate as the tunnels, also on loopback."""
    return ControlServer(
        app.services,
        Endpoint(settings.host, settings.control_port),
        certificate=lambda: (certificate.current.key, certificate.current.chain),
        tunnel_url=_tunnel_url(settings),
        most_connections=descriptors.limit() // 2,  # the rest is for the API and the store
    )


def _tunnel_url(settings: Settings) -> str:
    return f"wss://{settings.authority_of(settings.tunnel_port)}"


def _limits(settings: Settings, room: Descriptors) -> HttpLimits:
    return HttpLimits(
        head=settings.handshake_timeout,
        most=settings.max_handshakes,
        most_per_address=settings.max_handshakes_per_address,
        has_room=lambda: room.has_room(1),
    )


async def _serve(settings: Settings, meters: Meters, tracer: Tracer) -> None:
    signals = SocketSignals(paths.signals_socket(settings))
    async with open_app(settings, signals) as app:
        served = build_api(settings, app)
        certificate = tls.served_certificate(settings)
        for topic in (Topic.CERTIFICATES_CHANGED, Topic.RESUMED):
            signals.subscribe(topic, certificate.wake)
        sample_certificate(meters, certificate)
        room = Descriptors()
        meters.sample("postern_descriptor_rejections", lambda: room.refused)
        meters.sample("postern_web_terminals_open", lambda: served.state.terminals.limiter.open)
        served.state.meters, served.state.tracer = meters, tracer
        config = uvicorn.Config(
            served,
            host=settings.host,
            port=settings.api_port,
            loop="none",
            http=bounded_http(_limits(settings, room)),
            **WEBSOCKET_OPTIONS,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # it would trust any local process; api/client_address.py is stricter
            timeout_graceful_shutdown=GRACE,
            ssl_context_factory=None if settings.is_loopback else lambda *_: certificate.server_context(),
        )
        server = _Server(config)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stop)
        # Objects created until now are never garbage: the collector need not traverse all routes and models again for
        # each few answers.
        gc.collect()
        gc.freeze()
        await signals.start()
        app.services.checkpoints.anchors()  # errors in them are reported before any client is served
        control = build_control(settings, app, certificate)
        await control.start()
        following = asyncio.create_task(certificate.follow())
        try:
            async with exporting_metrics(settings, meters, app.database, "api"):
                await server.serve()
        finally:
            following.cancel()
            await asyncio.gather(control.stop(), following, return_exceptions=True)
            await signals.stop()


class _Server(uvicorn.Server):
    """A server that reports when it serves, and leaves signals to us: uvicorn would raise them again and terminate the
    process."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            announce_ready(asyncio.get_running_loop())

    def stop(self) -> None:
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
