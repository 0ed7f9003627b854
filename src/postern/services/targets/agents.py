"""Agents: their authentication, and which of them are alive."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar
from uuid import UUID, uuid4

from postern.domain.secret import Secret
from postern.domain.targets.agent import ALIVE_FOR, Agent, AgentMode, cleaned_facts
from postern.errors import Conflict, NotFound, Unauthenticated
from postern.services.identity.logins.login_throttle import neighbourhood
from postern.services.identity.logins.passwords import Throttle
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.server_ports import OrganisationStore
from postern.store.ports.target_ports import AgentStore

EMBEDDED = "embedded"  # what the built-in agent is called
_REFUSALS, _WINDOW = 50, timedelta(minutes=15)  # of unknown keys, from one address
_MOST_KNOWN = 10_000
_AT_ONCE = 1_000  # ids in one statement
_K = TypeVar("_K")
_V = TypeVar("_V")


class AgentChange(StrEnum):
    """The change in `Topic.AGENT_CHANGED`.

    After RENEWED and DELETED the agent's key is invalid; after DRAINED its present instances take no new work, and end
    when theirs is done.
    """

    CAME = "came"
    WENT = "went"
    RENEWED = "renewed"
    DELETED = "deleted"
    DRAINED = "drained"


class Agents:
    def __init__(self, store: AgentStore, organisations: OrganisationStore, signals: Signals, now: Clock) -> None:
        self._store = store
        self._organisations = organisations
        self._signals = signals
        self._now = now
        self._refused = Throttle(now, failures=_REFUSALS, window=_WINDOW)
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._modes: OrderedDict[UUID, AgentMode] = OrderedDict()
        signals.subscribe(Topic.AGENT_CHANGED, self._on_changed)
        signals.subscribe(Topic.RESUMED, lambda _: self._modes.clear())

    async def enrol(self, secret: Secret, *, name: str | None, address: str) -> Agent:
        """Return the agent with this secret; with a `name`, only if that is the agent's.

        The look-up is by hash, so its time reveals nothing about similar secrets. An address that sent many unknown
        keys is ignored for a while, except with keys that were valid before: one agent with an old key does not lock
        out those beside it. Raises Unauthenticated, TooMany.
        """
        digest, place = digest_of(secret), neighbourhood(address)
        if digest not in self._good:
            self._refused.check(place)
        agent = await self._store.by_digest(digest)
        named = hmac.compare_digest((name or "").encode(), (agent.name if agent else "").encode())
        if agent is None or not (named or name is None):
            self._refused.fail(place)
            raise Unauthenticated(
                "this agent key is not known here: it was renewed, the agent was deleted, or it is another gateway's; "
                "ask an administrator for a new one (postern admin agents renew-key NAME)"
            )
        _remember(self._good, digest, None)
        _remember(self._modes, agent.id, agent.mode)
        return agent

    async def mode_of(self, agent_id: UUID) -> AgentMode:
        """Return the agent's mode. No statement when it is cached. Raises NotFound."""
        mode = self._modes.get(agent_id)
        if mode is not None:
            return mode
        agent = await self._store.by_id(agent_id)
        if agent is None:
            raise NotFound("this connection's agent was deleted")
        _remember(self._modes, agent_id, agent.mode)
        return agent.mode

    async def beat_for(self, agent_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Send a heartbeat for agents that each hold a tunnel; return which of them still exist."""
        at, there = self._now(), set[UUID]()
        for start in range(0, len(agent_ids), _AT_ONCE):
            there |= await self._store.mark_seen(agent_ids[start : start + _AT_ONCE], at)
        return frozenset(there)

    async def mark_gone(self, agent_id: UUID) -> None:
        """Record that a worker lost its last tunnel to this agent, so that it counts as gone before ALIVE_FOR has
        passed.

        Another worker that holds one is signalled, and sends a heartbeat.
        """
        await self._store.mark_seen([agent_id], self._now() - ALIVE_FOR)

    async def still_good(self, agents: Sequence[Agent]) -> frozenset[UUID]:
        """Return which of these still have the key that they enrolled with, for callers that may
        have missed a signal."""
        good = set[UUID]()
        for start in range(0, len(agents), _AT_ONCE):
            some = agents[start : start + _AT_ONCE]
            digests = await self._store.digests([agent.id for agent in some])
            good |= {agent.id for agent in some if agent.digest is not None and digests.get(agent.id) == agent.digest}
        return frozenset(good)

    async def store_facts(self, agent: Agent, facts: Mapping[str, str]) -> None:
        """Store what an agent reports about itself, cleaned and truncated."""
        cleaned = cleaned_facts(facts)
        if cleaned != agent.facts:
            await self._store.store_facts(agent.id, cleaned)

    async def announce(self, agent_id: UUID, change: AgentChange, org_id: UUID | None = None) -> None:
        """Signal a change to every process; workers signal an agent's first tunnel and the loss of its last one.

        `org_id` is needed for an agent that no longer exists.
        """
        organisation = {} if org_id is None else {"org_id": str(org_id)}
        await self._signals.publish(Topic.AGENT_CHANGED, agent_id=str(agent_id), change=change, **organisation)

    def listen(self, handler: Callable[[UUID, AgentChange], None]) -> None:
        """Call `handler` on the event loop for each announced change; it must return at once."""

        def handle_change(payload: Mapping[str, str]) -> None:
            handler(UUID(payload["agent_id"]), AgentChange(payload["change"]))

        self._signals.subscribe(Topic.AGENT_CHANGED, handle_change)

    async def ensure_embedded(self) -> Agent:
        """Return the agent inside the gateway's own processes; created at the first start."""
        org_id = (await self._organisations.default()).id
        found_agent = await self._store.get(org_id, EMBEDDED)
        if found_agent is not None:
            return found_agent
        agent = Agent(uuid4(), org_id, EMBEDDED, AgentMode.GATEWAY, None, self._now())
        try:
            await self._store.add(agent)
        except Conflict:
            return await self.ensure_embedded()  # another process was first
        return agent

    async def beat(self) -> None:
        """Send a heartbeat for the embedded agents of all organisations; each worker does it every 5 seconds
        (domain.agent.ALIVE_FOR)."""
        await self._store.touch_all(AgentMode.GATEWAY, self._now())

    async def any_worker_lives(self) -> bool:
        """Return whether a worker has sent a heartbeat of the embedded agents recently."""
        seen = await self._store.last_seen(AgentMode.GATEWAY)
        return seen is not None and self._now() - seen < ALIVE_FOR

    def is_online(self, agent: Agent) -> bool:
        return agent.is_online(self._now())

    def _on_changed(self, payload: Mapping[str, str]) -> None:
        self._modes.pop(UUID(payload["agent_id"]), None)


def digest_of(secret: Secret) -> bytes:
    """Return the hash of an agent's secret, as stored."""
    return hashlib.sha256(secret.reveal().encode(errors="replace")).digest()


def _remember(cache: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > _MOST_KNOWN:
        cache.popitem(last=False)
