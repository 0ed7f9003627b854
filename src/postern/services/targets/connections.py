"""Connections: what admins configure, and who may see it sees, but for secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from postern.domain.identity.principal import Principal
from postern.domain.lists import Listed, Page
from postern.domain.targets.agent import ALIVE_FOR, Agent, AgentMode
from postern.domain.targets.connection import Connection, ConnectionStatus, check_new_name
from postern.domain.targets.errand import TargetStatus, TargetTest
from postern.domain.targets.resource import TagUse
from postern.errors import Conflict, Invalid, Malformed, NotFound
from postern.services.identity.users import require_admin
from postern.services.rules.access_control import AccessControl
from postern.services.server.trail import changed
from postern.services.targets.connection_fields import ConnectionFields, FieldChecks, check_keys, patched, withdraw
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.target_ports import AgentStore, ConnectionFilter, ConnectionStore, ErrandStore, SecretUse

__all__ = ["ConnectionFilter", "ConnectionView", "Connections"]


@dataclass(frozen=True, slots=True)
class ConnectionView:
    """A connection and what is derived when it is shown."""

    connection: Connection
    status: ConnectionStatus
    agent_name: str
    last_test: TargetTest | None  # None also where the connection has led elsewhere since

    @property
    def target_status(self) -> TargetStatus:
        return TargetStatus.UNTESTED if self.last_test is None else self.last_test.status


class Connections:
    def __init__(
        self,
        *,
        store: ConnectionStore,
        control: AccessControl,
        agents: AgentStore,
        tests: ErrandStore,
        checks: FieldChecks,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._store = store
        self._control = control
        self._agents = agents
        self._tests = tests
        self._checks = checks
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, wanted: ConnectionFilter, page: Page) -> Listed[ConnectionView]:
        """Return those that the principal can see, by name, with the secrets of which they are shown something."""
        reach = await self._control.reach(principal)
        seen = replace(wanted, reach=reach, alive_after=self._now() - ALIVE_FOR)
        found = await self._store.find(principal.org_id, seen, page, _secrets_for(principal))
        return Listed(await self._views(principal.org_id, found.items), found.total)

    async def tags(self, principal: Principal, page: Page) -> Listed[TagUse]:
        """By key and value, of the connections that the principal may see."""
        return await self._store.tags(principal.org_id, await self._control.reach(principal), page)

    async def get(self, principal: Principal, name_or_id: str) -> ConnectionView:
        """Return the connection, with its secret if they are shown something of it. Raises NotFound, also when it is
        hidden from them."""
        found = await self._control.find(principal, name_or_id, _secrets_for(principal))
        if found is None:
            raise NotFound(f"there is no connection {name_or_id!r}")
        return await self._view(found)

    async def create(self, principal: Principal, given: ConnectionFields) -> ConnectionView:
        """Raises Denied, Invalid, Conflict."""
        require_admin(principal, "change connections")
        at = self._now()
        empty = Connection(uuid4(), principal.org_id, given.name, given.type, "", given.agent_id)
        check_new_name(given.name)
        if await self._store.get(principal.org_id, given.name) is not None:
            raise Conflict(f"name: a connection {given.name!r} exists already", field="name")
        connection = replace(await self._merged(empty, given), created_at=at, updated_at=at)
        await self._store.add(connection)
        changed(None, connection)
        return await self._changed(principal, connection)

    async def replace(self, principal: Principal, name_or_id: str, given: ConnectionFields) -> ConnectionView:
        """All settings become those given, or their defaults. Raises Denied, NotFound, Invalid, Malformed."""
        current = await self._changeable(principal, name_or_id)
        return await self._save(principal, current, given)

    async def patch(self, principal: Principal, name_or_id: str, changes: Mapping[str, Any]) -> ConnectionView:
        """`changes` maps names of ConnectionFields to values; the rest stays. Raises as `replace`."""
        current = await self._changeable(principal, name_or_id)
        return await self._save(principal, current, patched(current, changes))

    async def remove(self, principal: Principal, name_or_id: str) -> None:
        """With its credentials; its live sessions are ended. Raises Denied, NotFound, Malformed."""
        current = await self._changeable(principal, name_or_id)
        await withdraw(self._store, self._signals, current)
        changed(current, None)

    async def _save(self, principal: Principal, current: Connection, given: ConnectionFields) -> ConnectionView:
        if given.name != current.name:
            raise Invalid(f"name: cannot be changed from {current.name!r} to {given.name!r}", field="name")
        connection = replace(await self._merged(current, given), updated_at=self._now())
        await self._store.update(connection)
        changed(current, connection)
        return await self._changed(principal, connection)

    async def _changed(self, principal: Principal, connection: Connection) -> ConnectionView:
        await self._signals.publish(Topic.POLICY_CHANGED, connection_id=str(connection.id))
        return await self._view(connection)

    async def _changeable(self, principal: Principal, name_or_id: str) -> Connection:
        require_admin(principal, "change connections")
        current = (await self.get(principal, name_or_id)).connection
        if current.managed_by is not None:
            raise Malformed(f"connection {current.name!r} is managed by {current.managed_by}; change it there")
        return current

    async def _view(self, connection: Connection) -> ConnectionView:
        agent = await self._agents.by_id(connection.agent_id)
        tests = await self._tests.last_tests([connection.id])
        return _view(connection, agent, tests.get(connection.id), self._now())

    async def _views(self, org_id: UUID, found: Sequence[Connection]) -> list[ConnectionView]:
        now = self._now()
        agents = {agent.id: agent for agent in await self._agents.all(org_id)}
        tests = await self._tests.last_tests([one.id for one in found])
        return [_view(one, agents.get(one.agent_id), tests.get(one.id), now) for one in found]

    async def _merged(self, current: Connection, given: ConnectionFields) -> Connection:
        agent = await self._agents.get(current.org_id, str(given.agent_id))
        if agent is None:
            raise Invalid(f"agent_id: there is no agent {given.agent_id}", field="agent_id")
        if agent.mode is AgentMode.EMBEDDED:
            raise Invalid(
                f"agent_id: agent {agent.name!r} is embedded in an application and serves only what it declares "
                "itself, by `postern run`; choose another",
                field="agent_id",
            )
        merged = await self._checks.merged(current, given)
        check_keys(current, merged)
        return merged


def _secrets_for(principal: Principal) -> SecretUse:
    """Administrators see the keys of every secret, and everybody the name of the default database."""
    return SecretUse.ALL if principal.is_admin else SecretUse.DATABASES


def _view(connection: Connection, agent: Agent | None, test: TargetTest | None, now: datetime) -> ConnectionView:
    """`agent` is None where it was deleted at this moment."""
    online = agent is not None and agent.is_online(now)
    return ConnectionView(
        connection,
        status=ConnectionStatus.ONLINE if online else ConnectionStatus.OFFLINE,
        agent_name="" if agent is None else agent.name,
        last_test=test if test is not None and test.place == connection.place else None,
    )
