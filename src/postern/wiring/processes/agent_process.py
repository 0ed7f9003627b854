"""The agent's process: it connects to its gateway's control service, and holds a tunnel to every relay worker."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4

import uvloop

from postern import __version__
from postern.agent import agent_policy
from postern.agent.agent_policy import ANYTHING, LocalPolicy
from postern.agent.agent_tunnels import AgentTunnels
from postern.agent.secret_files import SecretFiles
from postern.agent.secrets import Resolver
from postern.agent.serve import OrderRunner, Orders
from postern.agent.target_dialer import TargetDialer
from postern.client.client_control import attend
from postern.descriptors import raise_limit
from postern.domain.targets.agent import AgentKey, AgentMode
from postern.domain.targets.control import Drain, Welcome
from postern.domain.targets.declaration import Declaration
from postern.errors import Misconfigured
from postern.integrations.secrets.env_json import referable
from postern.integrations.secrets.sources import Sources
from postern.process import announce_ready, hide_from_own_user
from postern.protocols.registry import DEFAULT_PROTOCOL
from postern.settings import AgentSettings
from postern.wiring.tracing_wiring import tracing

log = logging.getLogger(__name__)


def run(settings: AgentSettings, environ: Mapping[str, str]) -> None:
    """Run until it is stopped, or its key is rejected for good: raises Unauthenticated then, Misconfigured at once."""
    key = AgentKey.read(settings.key)
    if key.mode is AgentMode.EMBEDDED:
        raise Misconfigured(
            f"the key of agent {key.name!r} is for an embedded agent, which declares its own connection; "
            f"start it with `postern run -- COMMAND` or `postern run --{DEFAULT_PROTOCOL} VARIABLE`",
            field="key",
        )
    allowed = local_policy(settings)
    sources = Sources(referable(environ), cloud=settings.cloud_provider, shows=allowed.shows)
    serve(key, TargetDialer(Resolver(sources, SecretFiles(environ), allowed), allowed, environ), settings.agent_grace)


def local_policy(settings: AgentSettings) -> LocalPolicy:
    """Raises Misconfigured."""
    return agent_policy.read(Path(settings.agent_policy)) if settings.agent_policy else ANYTHING


def serve(key: AgentKey, reach: OrderRunner, grace: float, declaration: Declaration | None = None) -> None:
    """Run until it is stopped. Raises as `attend`."""
    raise_limit()
    hide_from_own_user()  # the commands that it runs belong to this user, too
    with tracing(os.environ, "agent") as tracer:
        uvloop.run(_serve(key, Orders(reach, tracer), grace, declaration))


async def _serve(key: AgentKey, orders: Orders, grace: float, declaration: Declaration | None) -> None:
    instance = uuid4()
    hello = {"instance": str(instance), "version": __version__}
    tunnels = AgentTunnels(key.secret, key.authority, hello, orders)
    stopping = _Stop()
    attending = asyncio.create_task(_attend(key, tunnels, instance, declaration))
    task = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait((attending, task), return_when=asyncio.FIRST_COMPLETED)
    finally:
        attending.cancel()
        task.cancel()
        closing = asyncio.create_task(tunnels.close("the agent is stopping", grace=grace))
        await asyncio.wait((closing, asyncio.create_task(stopping.wait())), return_when=asyncio.FIRST_COMPLETED)
        if not closing.done():
            closing.cancel()
            await tunnels.close("the agent is stopping")
    with suppress(asyncio.CancelledError):
        await attending  # the reason why it ended by itself


class _Stop:
    """A handler of SIGTERM and SIGINT: `wait` returns at the next one."""

    def __init__(self) -> None:
        self._told = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._told.set)

    async def wait(self) -> None:
        await self._told.wait()
        self._told.clear()
        log.info("stopping; press Ctrl-C again to stop at once")


async def _attend(key: AgentKey, tunnels: AgentTunnels, instance: UUID, declaration: Declaration | None) -> None:
    url = ""
    async for order in attend(key, facts(), instance, declaration):
        if isinstance(order, Drain):
            log.info("the gateway asks this agent to stop: %s", order.reason)
            return
        if isinstance(order, Welcome):
            url = order.tunnel_url
            log.info("agent %r is connected to %s:%d", key.name, key.host, key.port)
            announce_ready()
        tunnels.want(url, frozenset(map(str, order.workers)))


def facts() -> dict[str, str]:
    """Return facts about this machine for the gateway; see domain.agent.FACTS."""
    values = {
        "version": __version__,
        "hostname": socket.gethostname(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
        "kernel_version": platform.release(),
        "python_version": platform.python_version(),
    }
    with suppress(OSError):
        values["machine_id"] = Path("/etc/machine-id").read_text().strip()
    return values
