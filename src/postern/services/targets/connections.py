"""Connections: administrators configure them, and users see those in their scope, without secrets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from postern.domain.facets import Facet
from postern.domain.identity.principal import Principal
from postern.domain.lists import Listed, Page
from postern.domain.targets.agent import ALIVE_FOR, Agent, AgentMode
from postern.domain.targets.connection import Connection, ConnectionStatus, ConnectionType, check_new_name
from postern.domain.targets.connection_use import ConnectionFacet
from postern.domain.targets.resource import TagUse
from postern.domain.targets.target_task import TargetStatus, TargetTest
from postern.errors import Invalid, Malformed, NotFound
from postern.services.named_resources import ResourceService
from postern.services.rules.access_control import AccessControl
from postern.services.targets.connection_fields import FieldChecks, check_keys, end_sessions, signal_connection
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.target_ports import AgentStore, ConnectionFilter, ConnectionStore, SecretUse, TargetTaskStore

__all__ = ["ConnectionFilter", "ConnectionView", "Connections"]


@dataclass(frozen=True, slots=True)
class ConnectionView:
    """A connection with the values that are derived when it is shown."""

    connection: Connection
    status: ConnectionStatus
    agent_name: str
    last_test: TargetTest | None  # None also if the connection has a new target since

    @property
    def target_status(self) -> TargetStatus:
        return TargetStatus.UNTESTED if self.last_test is None else self.last_test.status


class Connections(ResourceService[Connection]):
    """Users read the connections in their scope.

    An update that leaves out `secret`, `guardrail_rules` or `subtype` keeps them: secrets are never shown, guardrails
    are also written from their own side, and a connection without its subtype would lose every protection.
    """

    noun = "connection"
    preserved_fields = frozenset({"subtype", "guardrail_rules", "place"})

    def __init__(
        self,
        *,
        store: ConnectionStore,
        control: AccessControl,
        agents: AgentStore,
        tests: TargetTaskStore,
        checks: FieldChecks,
        signals: Signals,
        now: Clock,
    ) -> None:
        super().__init__(store, signals, now)
        self._connections = store
        self._control = control
        self._agents = agents
        self._tests = tests
        self._checks = checks

    def blank(self, key: UUID, org_id: UUID) -> Connection:
        return Connection(key, org_id, "", ConnectionType.CUSTOM, "", UUID(int=0))

    def check_name(self, name: str) -> None:
        check_new_name(name)

    async def resolve(self, current: Connection, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        name = fields.get("name", current.name)
        if current.name and name != current.name:
            raise Invalid(f"name: cannot be changed from {current.name!r} to {name!r}", field="name")
        return await self._checks.resolve(current, fields)

    async def check(self, resource: Connection) -> None:
        agent = await self._agents.get(resource.org_id, str(resource.agent_id))
        if agent is None:
            raise Invalid(f"agent_id: there is no agent {resource.agent_id}", field="agent_id")
        if agent.mode is AgentMode.EMBEDDED:
            raise Invalid(
                f"agent_id: agent {agent.name!r} is embedded in an application and serves only what it declares "
                "itself, by `postern run`; choose another",
                field="agent_id",
            )

    async def merge(self, current: Connection, base: Connection, fields: Mapping[str, Any]) -> Connection:
        merged = await self._checks.complete(current, await super().merge(current, base, fields))
        check_keys(current, merged)
        return merged

    async def announce(self, before: Connection | None, after: Connection | None) -> None:
        if after is not None:
            await signal_connection(self._signals, after)
        elif before is not None:
            await end_sessions(self._connections, self._signals, before)

    async def search(self, principal: Principal, where: ConnectionFilter, page: Page) -> Listed[ConnectionView]:
        """Return the connections that the principal can see, by name, with the parts of secrets that they are shown."""
        seen = await self._limit_to_visible(principal, where)
        listed = await self._connections.search(principal.org_id, seen, page, _secrets_for(principal))
        return Listed(await self._views(principal.org_id, listed.items), listed.total)

    async def facets(
        self, principal: Principal, where: ConnectionFilter, names: Collection[ConnectionFacet]
    ) -> Mapping[ConnectionFacet, Facet]:
        """Return the values of these fields, over all pages of `search`."""
        return await self._connections.facets(principal.org_id, await self._limit_to_visible(principal, where), names)

    async def _limit_to_visible(self, principal: Principal, where: ConnectionFilter) -> ConnectionFilter:
        reach = await self._control.reach(principal)
        return replace(where, reach=reach, alive_after=self._now() - ALIVE_FOR)

    async def tags(self, principal: Principal, page: Page) -> Listed[TagUse]:
        """Return tags by key and value, of the connections that the principal can see."""
        return await self._connections.tags(principal.org_id, await self._control.reach(principal), page)

    async def get(self, principal: Principal, name_or_id: str) -> Connection:
        """Return the connection, with the parts of its secret that they are shown. Raises NotFound, also when it is
        hidden from them."""
        return await self.existing(principal, name_or_id)

    async def existing(self, principal: Principal, name_or_id: str) -> Connection:
        connection = await self._control.find(principal, name_or_id, _secrets_for(principal))
        if connection is None:
            raise NotFound(f"there is no connection {name_or_id!r}")
        return connection

    async def view(self, connection: Connection) -> ConnectionView:
        """Return the connection with the values that are derived when it is shown."""
        agent = await self._agents.by_id(connection.agent_id)
        tests = await self._tests.last_tests([connection.id])
        return _view(connection, agent, tests.get(connection.id), self._now())

    async def _current(self, principal: Principal, name_or_id: str, version: int | None) -> Connection:
        current = await super()._current(principal, name_or_id, version)
        if current.is_declared:
            raise Malformed(f"connection {current.name!r} is managed by {current.managed_by}; change it there")
        return current

    async def _views(self, org_id: UUID, connections: Sequence[Connection]) -> list[ConnectionView]:
        now = self._now()
        agents = {agent.id: agent for agent in await self._agents.all(org_id)}
        tests = await self._tests.last_tests([connection.id for connection in connections])
        return [_view(item, agents.get(item.agent_id), tests.get(item.id), now) for item in connections]


def _secrets_for(principal: Principal) -> SecretUse:
    """Return what of secrets is shown: their keys to administrators, the default database's name to all users."""
    return SecretUse.ALL if principal.is_admin else SecretUse.DATABASES


def _view(connection: Connection, agent: Agent | None, test: TargetTest | None, now: datetime) -> ConnectionView:
    """Return the view. `agent` is None where it was deleted meanwhile."""
    online = agent is not None and agent.is_online(now)
    return ConnectionView(
        connection,
        status=ConnectionStatus.ONLINE if online else ConnectionStatus.OFFLINE,
        agent_name="" if agent is None else agent.name,
        last_test=test if test is not None and test.place == connection.place else None,
    )
