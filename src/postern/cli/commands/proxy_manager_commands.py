from __future__ import annotations

import asyncio
import json
import signal
import ssl
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import click

from postern import __version__
from postern.cli.api import client, in_force
from postern.cli.commands.connect_commands import keep_fresh
from postern.cli.login import profile
from postern.cli.status import Status, report, report_note
from postern.cli.terminal.forward import LOOPBACK, PortForward, StreamRequest
from postern.client.client_control import Service
from postern.client.client_shapes import ServerInfo
from postern.client.proxy import ConnectOrder, DisconnectOrder, ProxyOrder, ProxyWelcome, attend_as_proxy
from postern.domain.durations import duration_text
from postern.domain.text import one_line
from postern.errors import PosternError


@click.command("proxy-manager")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON, one object on each line.")
def proxy_manager(as_json: bool) -> None:
    """Wait for requests to open local ports, until Ctrl-C.

    `POST /api/proxymanager/connect` with your login opens a port here. Clients that connect to the port reach the
    gateway as you. One port is open at a time. If you run several of these processes, the newest gets the requests.
    """
    with client() as api:
        info = api.serverinfo()
    asyncio.run(_manage(info, as_json))


async def _manage(info: ServerInfo, as_json: bool) -> None:
    environ, used = profile.environ(), in_force()
    assert used.token is not None
    stream_request = StreamRequest(info["tunnel_url"], used.token, "", info["ca_certificate"] or "")
    forward = PortForward(stream_request, lambda reason: report(Status.ERROR, one_line(reason)))
    manager = _Manager(forward, as_json)
    place = urlsplit(info["grpc_url"])
    authority = ssl.PEM_cert_to_DER_cert(info["ca_certificate"]) if info["ca_certificate"] else None
    service = Service(place.hostname or "", place.port or 443, authority)
    working = asyncio.create_task(manager.attend(service))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, working.cancel)
    renewing = asyncio.create_task(keep_fresh(manager.forward, environ, used))
    try:
        await working
    except asyncio.CancelledError:
        if not working.cancelled():
            raise
    finally:
        renewing.cancel()
        await manager.close()


def _protocol_of(connection: str) -> str:
    """Return the protocol of the connection's native clients. Raises PosternError."""
    with client() as api:
        return str(api.connections.get(connection)["subtype"])


class _Manager:
    """The executor of the gateway's orders. `forward` has the current token, also while no port is open."""

    def __init__(self, forward: PortForward, as_json: bool) -> None:
        self.forward = forward
        self._as_json = as_json
        self._ending: asyncio.Task[None] | None = None

    async def attend(self, service: Service) -> None:
        """Execute orders without end. Raises the final rejection."""
        async for order in attend_as_proxy(service, lambda: self.forward.request.token, uuid4(), __version__):
            await self._carry_out(order)

    async def close(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        await self.forward.stop()

    async def _carry_out(self, order: ProxyOrder) -> None:
        match order:
            case ProxyWelcome(url):
                self.forward.request = replace(self.forward.request, url=url)
                report_note("Waiting for requests to open a port; Ctrl-C ends it.")
            case ConnectOrder():
                await self._open(order)
            case DisconnectOrder():
                await self.close()
                self._say("Closed.", event="closed")
                await order.done(0, "")

    async def _open(self, order: ConnectOrder) -> None:
        await self.close()
        try:
            protocol = await asyncio.to_thread(_protocol_of, order.connection)
        except PosternError as error:
            await order.done(0, error.message)
            return
        self.forward.request = replace(self.forward.request, connection=order.connection, protocol=protocol)
        try:
            port = await self.forward.start(order.port)
        except OSError as error:
            await order.done(0, f"port {order.port} cannot be used: {error.strerror}")
            return
        self._ending = asyncio.create_task(self._end_after(order))
        text = f"{one_line(order.connection)} is available at {LOOPBACK}:{port} for {duration_text(order.seconds)}."
        self._say(text, event="opened", connection=order.connection, port=port, seconds=order.seconds)
        await order.done(port, "")

    async def _end_after(self, order: ConnectOrder) -> None:
        await asyncio.sleep(order.seconds)
        self._ending = None
        await self.forward.stop()
        self._say(
            f"{one_line(order.connection)}: the access has expired; the port is closed.",
            event="expired",
            connection=order.connection,
        )

    def _say(self, text: str, **fields: Any) -> None:
        click.echo(json.dumps(fields) if self._as_json else text)
