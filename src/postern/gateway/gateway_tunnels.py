"""The tunnels of agents to this worker.

A process of an agent is an *instance*. Its newest tunnel replaces the one before, which may stay half-open for minutes.
An agent can have several instances, and new sessions go to the one with the fewest streams.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from uuid import UUID

from postern.domain.targets.agent import MOST_INSTANCES, Agent
from postern.transport.mux import Mux

log = logging.getLogger(__name__)


class GatewayTunnels:
    """The tunnels. `wait` is how many seconds a disconnected agent has to reconnect.

    `on_change(agent_id, came)` is called for an agent's first tunnel here, and for the loss of its last.
    """

    def __init__(self, *, wait: float) -> None:
        self._wait = wait
        self._agents: dict[UUID, Agent] = {}  # as of their last enrolment
        self._instances: dict[UUID, dict[str, Mux]] = {}
        self.on_change: Callable[[UUID, bool], None] = lambda agent_id, came: None
        self._arrival = asyncio.Event()

    @property
    def agents(self) -> list[Agent]:
        return list(self._agents.values())

    def holds(self, agent_id: UUID) -> bool:
        return agent_id in self._instances

    @property
    def streams(self) -> int:
        """Return the number of streams over all tunnels."""
        return sum(mux.streams for muxes in self._instances.values() for mux in muxes.values())

    def add(self, agent: Agent, instance: str, mux: Mux) -> None:
        """Add a tunnel, which removes itself when it is lost. An instance beyond the limit is closed at once."""
        agent_id = agent.id
        muxes = self._instances.get(agent_id, {})
        if instance not in muxes and len(muxes) >= MOST_INSTANCES:
            log.warning("agent %s has more than %d instances; one was rejected", agent_id, MOST_INSTANCES)
            mux.close(
                f"this agent already has {MOST_INSTANCES} instances, the maximum; end one, or create another agent"
            )
            return
        if not muxes:
            self.on_change(agent_id, True)
        self._agents[agent_id] = agent
        instances = self._instances.setdefault(agent_id, {})
        before = instances.get(instance)
        instances[instance] = mux
        if before is not None:
            before.close("a newer tunnel of the same agent replaced it")
        mux.lost.add_done_callback(lambda _lost: self._forget(agent_id, instance, mux))
        self._arrival.set()
        self._arrival = asyncio.Event()

    def drop(self, agent_id: UUID, reason: str) -> None:
        """End all tunnels of an agent, and with them its sessions."""
        for mux in list(self._instances.get(agent_id, {}).values()):
            mux.close(reason)

    def close(self, reason: str) -> None:
        for agent_id in list(self._instances):
            self.drop(agent_id, reason)

    def drain(self) -> None:
        """Tell all agents that this worker opens no more streams."""
        for muxes in self._instances.values():
            for mux in muxes.values():
                mux.drain()

    async def of(self, agent_id: UUID, *, beside: Mux | None = None) -> Mux | None:
        """Return the instance to use, other than `beside`; None if there is none in time."""
        try:
            async with asyncio.timeout(0 if beside else self._wait):
                while (mux := self._best(agent_id, beside)) is None:
                    await self._arrival.wait()
                return mux
        except TimeoutError:
            return None

    def _best(self, agent_id: UUID, beside: Mux | None) -> Mux | None:
        usable = [mux for mux in self._instances.get(agent_id, {}).values() if not mux.drained and mux is not beside]
        return min(usable, key=lambda mux: mux.streams, default=None)

    def _forget(self, agent_id: UUID, instance: str, mux: Mux) -> None:
        muxes = self._instances.get(agent_id, {})
        if muxes.get(instance) is mux:
            del muxes[instance]
            if not muxes:
                del self._instances[agent_id], self._agents[agent_id]
                self.on_change(agent_id, False)
            log.info("agent %s lost a tunnel: %s", agent_id, mux.lost.result())
