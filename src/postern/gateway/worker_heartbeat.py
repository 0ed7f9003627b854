"""Heartbeats of this worker, of the built-in agents, and of connected agents. Also ends the tunnels of agents
whose key is no longer valid."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from postern.domain.worker import RelayWorker
from postern.errors import Conflict, PosternError
from postern.gateway.gateway_tunnels import GatewayTunnels
from postern.services.store_claim import StoreClaim
from postern.services.targets.agents import AgentChange, Agents
from postern.services.targets.relay_workers import RelayWorkers
from postern.store.ports.common_ports import Signals, Topic

log = logging.getLogger(__name__)

HEARTBEAT = 5.0  # seconds

_ENDED = {
    AgentChange.RENEWED: "this agent's key was renewed; start it with the new key",
    AgentChange.DELETED: "this agent was deleted",
}


class WorkerHeartbeat:
    """Sends the heartbeats of `worker`. `claim` is renewed with each; `on_lost` is called when another gateway
    has it."""

    def __init__(
        self,
        worker: RelayWorker,
        agents: Agents,
        relay_workers: RelayWorkers,
        tunnels: GatewayTunnels,
        signals: Signals,
        claim: StoreClaim | None = None,
    ) -> None:
        self.on_lost: Callable[[], None] = lambda: None
        self._claim = claim
        self._worker = worker
        self._agents = agents
        self._relay_workers = relay_workers
        self._tunnels = tunnels
        self._tasks: set[asyncio.Task[None]] = set()
        tunnels.on_change = lambda agent_id, came: self._start(self._announce(agent_id, came))
        signals.subscribe(Topic.AGENT_CHANGED, self._on_changed)

    async def start(self) -> None:
        """Send the first heartbeat. Raises Unavailable."""
        await self._agents.ensure_embedded()
        await self._beat()

    async def keep(self) -> None:
        """Send heartbeats until cancelled. One that the store does not accept is repeated after HEARTBEAT seconds."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            await self._renew_claim()
            with suppress(PosternError):
                await self._beat()
                await self._drop_bad()

    async def stop(self) -> None:
        with suppress(PosternError):
            await self._relay_workers.mark_stopped(self._worker.id)

    async def _renew_claim(self) -> None:
        if self._claim is None:
            return
        try:
            await self._claim.take()
        except Conflict as error:
            log.critical("this worker stops: %s", error.message)
            self.on_lost()
        except PosternError:  # the store is unavailable; the next heartbeat renews it
            log.warning("the claim on the store could not be renewed")

    async def _beat(self) -> None:
        await self._relay_workers.beat(self._worker)
        await self._agents.beat()
        await self._agents.beat_for([agent.id for agent in self._tunnels.agents])

    async def _drop_bad(self) -> None:
        """Drop agents with invalid keys, in case the signal was lost."""
        agents = self._tunnels.agents
        good = await self._agents.still_good(agents)
        for agent in agents:
            if agent.id not in good:
                self._tunnels.drop(agent.id, "this agent's key is no longer valid")

    async def _announce(self, agent_id: UUID, came: bool) -> None:
        if came is not self._tunnels.holds(agent_id):
            return  # it changed again meanwhile, which is announced, too
        with suppress(PosternError):
            if came:
                await self._agents.beat_for([agent_id])
            else:
                await self._agents.mark_gone(agent_id)
            await self._agents.announce(agent_id, AgentChange.CAME if came else AgentChange.WENT)

    def _on_changed(self, payload: Mapping[str, str]) -> None:
        agent_id, change = UUID(payload["agent_id"]), AgentChange(payload["change"])
        if change in _ENDED:
            self._tunnels.drop(agent_id, _ENDED[change])
        elif change is AgentChange.WENT and self._tunnels.holds(agent_id):  # from another worker
            self._start(self._contradict(agent_id))

    async def _contradict(self, agent_id: UUID) -> None:
        with suppress(PosternError):
            await self._agents.beat_for([agent_id])

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
