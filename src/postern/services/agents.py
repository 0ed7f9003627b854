"""Agents: which there are, and which are alive."""

from __future__ import annotations

from uuid import uuid4

from postern.domain.agent import ALIVE_FOR, Agent, AgentMode
from postern.domain.lists import Listed, Page
from postern.domain.principal import Principal
from postern.errors import Conflict, NotFound
from postern.store.ports import AgentStore, Clock, OrganisationStore

EMBEDDED = "embedded"  # what the gateway's own agent is called


class Agents:
    def __init__(self, store: AgentStore, organisations: OrganisationStore, now: Clock) -> None:
        self._store = store
        self._organisations = organisations
        self._now = now

    async def find(self, principal: Principal, page: Page) -> Listed[Agent]:
        return await self._store.find(principal.org_id, page)

    async def get(self, principal: Principal, name_or_id: str) -> Agent:
        """Raises NotFound."""
        found = await self._store.get(principal.org_id, name_or_id)
        if found is None:
            raise NotFound(f"there is no agent {name_or_id!r}")
        return found

    async def ensure_embedded(self) -> Agent:
        """The row of the agent inside the gateway's own processes; made at the first start."""
        org_id = (await self._organisations.default()).id
        found = await self._store.get(org_id, EMBEDDED)
        if found is not None:
            return found
        agent = Agent(uuid4(), org_id, EMBEDDED, AgentMode.GATEWAY, None, self._now())
        try:
            await self._store.add(agent)
        except Conflict:
            return await self.ensure_embedded()  # another process was first
        return agent

    async def beat(self) -> None:
        """Says that the embedded agents live, those of all organisations; each worker calls it every 5 seconds
        (domain.agent.ALIVE_FOR)."""
        await self._store.touch_all(AgentMode.GATEWAY, self._now())

    async def any_worker_lives(self) -> bool:
        """The embedded agents live in the relay workers: somebody beat lately."""
        seen = await self._store.last_seen(AgentMode.GATEWAY)
        return seen is not None and self._now() - seen < ALIVE_FOR

    def is_online(self, agent: Agent) -> bool:
        return agent.is_online(self._now())
