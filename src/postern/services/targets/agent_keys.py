"""Agents as administrators manage them: made with a key that is shown once, given another key, deleted."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from uuid import uuid4

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.domain.targets.agent import SECRET_PREFIX, Agent, AgentKey, AgentMode
from postern.domain.targets.connection import check_new_name
from postern.errors import Conflict, Invalid, NotFound
from postern.services.identity.users import require_admin
from postern.services.server.machine_facts import MachineFacts
from postern.services.server.server_configs import ServerConfigs
from postern.services.server.trail import changed as note
from postern.services.targets.agents import AgentChange, Agents, digest_of
from postern.services.targets.connection_fields import withdraw
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.target_ports import AgentStore, ConnectionFilter, ConnectionStore, SecretUse

_BYTES = 32
_NAMED = 5  # connections that a refusal names


@dataclass(frozen=True, slots=True)
class IssuedAgentKey:
    """The only time that the key is seen. `key` is the whole line that the agent is started with."""

    agent: Agent
    key: Secret


class AgentKeys:
    def __init__(
        self,
        *,
        store: AgentStore,
        agents: Agents,
        connections: ConnectionStore,
        server_configs: ServerConfigs,
        machine: MachineFacts,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._store = store
        self._agents = agents
        self._connections = connections
        self._server_configs = server_configs
        self._machine = machine
        self._signals = signals
        self._now = now

    async def create(self, principal: Principal, name: str, mode: AgentMode = AgentMode.STANDARD) -> IssuedAgentKey:
        """The store has only the SHA-256 of its secret. Raises Denied, Invalid, Conflict when the name is taken."""
        require_admin(principal, "make agents")
        check_new_name(name)
        if mode is AgentMode.GATEWAY:
            raise Invalid(
                "mode: the gateway's own agents are made by the gateway; use standard or embedded", field="mode"
            )
        secret = make_secret()
        agent = Agent(uuid4(), principal.org_id, name, mode, None, self._now(), digest_of(secret))
        await self._store.add(agent)
        note(None, _noted(agent))
        return await self._issued(agent, secret)

    async def renew(self, principal: Principal, name_or_id: str) -> IssuedAgentKey:
        """The key before it ends at once, and so do the agent's tunnels. Raises Denied, NotFound, Invalid for the
        gateway's own."""
        require_admin(principal, "renew the keys of agents")
        agent = await self._own(principal, name_or_id, "has no key")
        secret = make_secret()
        if not await self._store.renew(agent.id, digest_of(secret)):
            raise NotFound(f"there is no agent {name_or_id!r} any more")
        note(_noted(agent), _noted(agent))
        await self._agents.announce(agent.id, AgentChange.RENEWED)
        return await self._issued(replace(agent, digest=digest_of(secret)), secret)

    async def remove(self, principal: Principal, name_or_id: str) -> None:
        """With the connections that it declared itself. Raises Denied, NotFound, Invalid for the gateway's own, and
        Conflict while other connections name it."""
        require_admin(principal, "delete agents")
        agent = await self._own(principal, name_or_id, "cannot be deleted")
        wanted = ConnectionFilter(agent_id=agent.id)
        found = await self._connections.find(principal.org_id, wanted, Page(_NAMED + 1), SecretUse.NONE)
        declared = agent.mode is AgentMode.EMBEDDED and all(one.managed_by is not None for one in found.items)
        if found.total and not (declared and found.total == len(found.items)):
            raise Conflict(_in_use(agent, [one.name for one in found.items], found.total))
        if found.total:  # from here on it cannot declare them anew
            await self._store.renew(agent.id, digest_of(make_secret()))
        for connection in found.items:
            await withdraw(self._connections, self._signals, connection)
        try:
            await self._store.remove(agent.id)
        except Conflict:  # one was made at this moment
            raise Conflict(f"agent {agent.name!r} was just given a connection; look at it, and try again") from None
        note(_noted(agent), None)
        await self._agents.announce(agent.id, AgentChange.DELETED)

    async def drain(self, principal: Principal, name_or_id: str) -> None:
        """Whoever attends now by its key takes no new work, and ends when what it has is done; who starts it again
        brings it back. Raises Denied, NotFound, Invalid for the gateway's own."""
        require_admin(principal, "drain agents")
        agent = await self._own(principal, name_or_id, "is drained with the gateway")
        await self._agents.announce(agent.id, AgentChange.DRAINED)

    async def _own(self, principal: Principal, name_or_id: str, refusal: str) -> Agent:
        agent = await self._agents.get(principal, name_or_id)
        if agent.mode is AgentMode.GATEWAY:
            raise Invalid(f"agent {agent.name!r} is the gateway's own, lives in its processes, and {refusal}")
        return agent

    async def _issued(self, agent: Agent, secret: Secret) -> IssuedAgentKey:
        place = self._machine.control
        config = await self._server_configs.current()
        host = config.public_host or place.host
        key = AgentKey(agent.name, secret, host, place.port, agent.mode, self._machine.authority())
        return IssuedAgentKey(agent, key.text())


def make_secret() -> Secret:
    """256 random bits behind SECRET_PREFIX, as domain.agent.SECRET_FORM has it."""
    return Secret(SECRET_PREFIX + secrets.token_urlsafe(_BYTES))


def _noted(agent: Agent) -> dict[str, object]:
    return {"id": agent.id, "name": agent.name, "mode": agent.mode, "created_at": agent.created_at}


def _in_use(agent: Agent, names: list[str], total: int) -> str:
    shown = ", ".join(names[:_NAMED]) + (f" and {total - _NAMED} more" if total > _NAMED else "")
    return (
        f"agent {agent.name!r} serves {total} connection{'' if total == 1 else 's'}: {shown}; "
        "delete them, or give them another agent, before you delete this one"
    )
