"""Agents as administrators manage them: created with a key that is shown once, given a new key, deleted."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.lists import Listed, Page
from postern.domain.secret import Secret
from postern.domain.targets.agent import ALIVE_FOR, SECRET_PREFIX, Agent, AgentKey, AgentMode
from postern.domain.targets.connection import check_new_name
from postern.errors import Conflict, Invalid
from postern.services.named_resources import ResourceService
from postern.services.server.machine_facts import MachineFacts
from postern.services.server.server_configs import ServerConfigs
from postern.services.targets.agents import AgentChange, Agents, digest_of
from postern.services.targets.connection_fields import withdraw
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.target_ports import AgentFilter, AgentStore, ConnectionFilter, ConnectionStore, SecretUse

__all__ = ["AgentFilter", "AgentKeys"]

_BYTES = 32
_NAMED = 5  # connections that an error names


class AgentKeys(ResourceService[Agent]):
    """All users can read agents. The name and the mode of an agent are part of its key, so they never change."""

    noun = "agent"

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
        super().__init__(store, signals, now)
        self._agent_store = store
        self._agents = agents
        self._connections = connections
        self._server_configs = server_configs
        self._machine = machine

    def blank(self, key: UUID, org_id: UUID) -> Agent:
        return Agent(key, org_id, "", AgentMode.STANDARD, None, self._now())

    def check_name(self, name: str) -> None:
        check_new_name(name)

    async def check(self, resource: Agent) -> None:
        if resource.mode is AgentMode.GATEWAY:
            raise Invalid(
                "mode: the gateway creates its built-in agents itself; use standard or embedded", field="mode"
            )

    def audit_view(self, resource: Agent) -> dict[str, object]:
        names = ("id", "name", "mode", "created_at")
        return {name: getattr(resource, name) for name in names}

    async def announce(self, before: Agent | None, after: Agent | None) -> None:
        """Signal that the previous key has ended, and the agent's tunnels with it."""
        if before is not None:
            change = AgentChange.RENEWED if after else AgentChange.DELETED
            await self._agents.announce(before.id, change, before.org_id)

    async def search(
        self, principal: Principal, where: AgentFilter, page: Page, online: bool | None = None
    ) -> Listed[Agent]:
        """Return those that are online, or not, by name; their facts only for admins and auditors."""
        limit = self._now() - ALIVE_FOR
        if online is not None:
            where = replace(where, seen_after=limit) if online else replace(where, not_seen_after=limit)
        listed = await self._agent_store.search(principal.org_id, where, page)
        return Listed([_hide_facts(principal, agent) for agent in listed.items], listed.total)

    async def get(self, principal: Principal, name_or_id: str) -> Agent:
        """Return it, with its facts only for admins and auditors. Raises NotFound."""
        return _hide_facts(principal, await self.existing(principal, name_or_id))

    async def create(self, principal: Principal, fields: Mapping[str, Any]) -> Agent:
        """Return the agent with its key; the store has only the SHA-256 of the secret. Raises as any creation."""
        secret = make_secret()
        return await self._issue_key(await super().create(principal, {**fields, "digest": digest_of(secret)}), secret)

    async def renew(self, principal: Principal, name_or_id: str, version: int | None = None) -> Agent:
        """Return the agent with another key. Raises Denied, NotFound, Conflict, PreconditionFailed, Invalid for the
        gateway's own."""
        agent = await self._require_manageable(principal, name_or_id, "has no key", version)
        secret = make_secret()
        return await self._issue_key(await self.write(agent, self._with(agent, secret)), secret)

    async def remove(self, principal: Principal, name_or_id: str, version: int | None = None) -> None:
        """Remove the agent with the connections that it declared.

        Raises as any removal, Invalid for the gateway's own, and Conflict while other connections name it.
        """
        agent = await self._require_manageable(principal, name_or_id, "cannot be deleted", version)
        connection_filter = ConnectionFilter(agent_id=agent.id)
        listed = await self._connections.search(principal.org_id, connection_filter, Page(_NAMED + 1), SecretUse.NONE)
        declared = agent.mode is AgentMode.EMBEDDED and all(item.is_declared for item in listed.items)
        if listed.total and not (declared and listed.total == len(listed.items)):
            raise Conflict(_in_use(agent, [connection_item.name for connection_item in listed.items], listed.total))
        if listed.total:  # from now on the agent cannot declare them again
            agent = await self._store.update(self._with(agent, make_secret()))
        for connection in listed.items:
            await withdraw(self._connections, self._signals, connection)
        await self.delete(agent)

    async def drain(self, principal: Principal, name_or_id: str) -> None:
        """Let the agent's present instances take no new work and end when theirs is done; a restart brings the agent
        back.

        Raises Denied, NotFound, Invalid for the gateway's own.
        """
        agent = await self._require_manageable(principal, name_or_id, "is drained with the gateway")
        await self._agents.announce(agent.id, AgentChange.DRAINED)

    async def _require_manageable(
        self, principal: Principal, name_or_id: str, refusal: str, version: int | None = None
    ) -> Agent:
        self.require_admin(principal)
        agent = await self._current(principal, name_or_id, version)
        if agent.mode is AgentMode.GATEWAY:
            raise Invalid(f"agent {agent.name!r} is the gateway's built-in agent, runs in its processes, and {refusal}")
        return agent

    def _with(self, agent: Agent, secret: Secret) -> Agent:
        return replace(agent, digest=digest_of(secret), updated_at=self._now())

    async def _issue_key(self, agent: Agent, secret: Secret) -> Agent:
        place = self._machine.control
        config = await self._server_configs.current()
        host = config.public_host or place.host
        key = AgentKey(agent.name, secret, host, place.port, agent.mode, self._machine.authority())
        return replace(agent, key=key.text())


def make_secret() -> Secret:
    """Return 256 random bits after SECRET_PREFIX, in the form of domain.agent.SECRET_FORM."""
    return Secret(SECRET_PREFIX + secrets.token_urlsafe(_BYTES))


def _hide_facts(principal: Principal, agent: Agent) -> Agent:
    return agent if principal.sees_all else replace(agent, facts={})


def _in_use(agent: Agent, names: list[str], total: int) -> str:
    names_text = ", ".join(names[:_NAMED]) + (f" and {total - _NAMED} more" if total > _NAMED else "")
    return (
        f"agent {agent.name!r} serves {total} connection{'' if total == 1 else 's'}: {names_text}; "
        "delete them, or give them another agent, before you delete this one"
    )
