"""Declarations: an embedded agent declares the one connection that it serves, which no user can change.

An agent is trusted with its own connection only. Its declaration is checked like an administrator's request, it cannot
touch what belongs to others, and changes are in the audit log.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

from postern.domain.lists import Page
from postern.domain.named_resource import BY_AGENT
from postern.domain.secret import Secret
from postern.domain.targets.agent import ALIVE_FOR, Agent
from postern.domain.targets.connection import Connection
from postern.domain.targets.declaration import Declaration
from postern.errors import Conflict, Unavailable
from postern.services.identity.logins.passwords import Throttle
from postern.services.server.audit import Audit
from postern.services.server.audit_context import AuditContext
from postern.services.targets.connection_fields import FieldChecks, signal_connection, withdraw
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.target_ports import ConnectionFilter, ConnectionStore

CALL = "/postern.control.v1.Control/Attend"
TURN = 5.0  # seconds that a change waits for earlier ones
_MOST_CHANGES, _WINDOW = 60, timedelta(minutes=15)  # of one agent: each leaves an entry in the audit log
_MANAGED_BY = 128  # characters, as the store has it
_AGAIN = 1  # seconds


class Declarations:
    def __init__(
        self, connections: ConnectionStore, checks: FieldChecks, audit: Audit, signals: Signals, now: Clock
    ) -> None:
        self._connections = connections
        self._checks = checks
        self._audit = audit
        self._signals = signals
        self._now = now
        self._changes = Throttle(now, failures=_MOST_CHANGES, window=_WINDOW, what="changes of the declared connection")
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[None]] = set()

    async def declare(self, agent: Agent, declaration: Declaration, *, address: str, beside: bool = False) -> None:
        """Make this the agent's connection; nothing is written when it is so already.

        `beside`: whether another instance of it is connected under a different name. A disconnect does not interrupt
        the change. Raises Invalid; Conflict when the name belongs to another connection, and with `retry_after` when
        another instance of the agent has another name; TooMany, Unavailable.
        """
        declaration.check()
        if (await self._plan(agent, declaration)).is_done:
            return
        self._changes.check(str(agent.id))
        change = asyncio.get_running_loop().create_task(self._change(agent, declaration, address, beside))
        self._running.add(change)
        change.add_done_callback(self._forget_task)
        await asyncio.shield(change)

    async def _change(self, agent: Agent, declaration: Declaration, address: str, beside: bool) -> None:
        try:
            async with asyncio.timeout(TURN):
                await self._turn.acquire()
        except TimeoutError:
            raise Unavailable("too many connections are being declared right now; try again in a few seconds") from None
        try:
            plan = await self._plan(agent, declaration)
            if plan.is_done:  # another instance was first
                return
            if plan.others and (beside or agent.is_online(self._now())):
                raise _two_names(agent, plan.others[0].name)
            self._changes.fail(str(agent.id))
            await self._carry_out(agent, plan, address)
        finally:
            self._turn.release()

    async def _carry_out(self, agent: Agent, plan: _Plan, address: str) -> None:
        after = plan.after
        try:
            if plan.before is None:
                await self._connections.add(after)
            else:
                await self._connections.update(after)
            for other in plan.others:
                await withdraw(self._connections, self._signals, other)
        except Conflict as problem:  # another process was first, or the agent is just being deleted
            raise Conflict(problem.message, field=problem.field, retry_after=_AGAIN) from None
        await signal_connection(self._signals, after)
        before = plan.before or next(iter(plan.others), None)
        await self._audit.by_agent(
            agent,
            CALL,
            action="create" if before is None else "update",
            resource_type="connections",
            resource=after.name,
            source=address,
            audit_context=AuditContext(before, after),
        )

    async def _plan(self, agent: Agent, declaration: Declaration) -> _Plan:
        """Plan the change. Raises Conflict, Invalid."""
        named = await self._connections.get(agent.org_id, declaration.name)
        if named is not None and not _is_of(agent, named):
            raise Conflict(
                f"name: a connection {declaration.name!r} already exists, and agent {agent.name!r} did not declare it; "
                "choose another one with `postern run --name`",
                field="name",
            )
        listed = await self._connections.search(agent.org_id, ConnectionFilter(agent_id=agent.id), Page())
        others = tuple(item for item in listed.items if item.name != declaration.name and _is_of(agent, item))
        at = self._now()
        base = named or _successor(agent, declaration, others)
        merged = await self._checks.merge(base, _connection_fields(declaration))
        merged = replace(merged, managed_by=_managed_by(agent))
        if named is None:
            return _Plan(None, replace(merged, created_at=at, updated_at=at), others)
        is_same = _comparable(merged) == _comparable(named)
        return _Plan(named, named if is_same else replace(merged, updated_at=at), others)

    def _forget_task(self, change: asyncio.Task[None]) -> None:
        self._running.discard(change)
        if not change.cancelled():
            change.exception()  # the declaring agent received it, or has disconnected


@dataclass(frozen=True, slots=True)
class _Plan:
    """A planned change. `others` are the agent's connections under other names, to be removed."""

    before: Connection | None
    after: Connection
    others: tuple[Connection, ...]

    @property
    def is_done(self) -> bool:
        return self.before is self.after and not self.others


def _connection_fields(declaration: Declaration) -> Mapping[str, Any]:
    """Return the connection with the declared fields; others stay. The database's name is not
    secret: clients see it."""
    encoded = base64.b64encode(declaration.default_database.encode()).decode()
    return {
        "type": declaration.type,
        "subtype": declaration.subtype,
        "command": declaration.command,
        "reviewers": declaration.reviewers,
        "redact_enabled": bool(declaration.redact_types),
        "redact_types": declaration.redact_types,
        "connection_tags": dict(declaration.connection_tags),
        "secret": {"envvar:DB": Secret(encoded)} if declaration.default_database else {},
    }


def _successor(agent: Agent, declaration: Declaration, others: tuple[Connection, ...]) -> Connection:
    """Return a new connection with the guardrails of the one that it replaces: a new name sheds no rule."""
    fresh = Connection(uuid4(), agent.org_id, declaration.name, declaration.type, "", agent.id)
    rules = {rule for other in others for rule in other.guardrail_rules}
    return replace(fresh, guardrail_rules=tuple(sorted(rules)))


def _is_of(agent: Agent, connection: Connection) -> bool:
    return connection.agent_id == agent.id and connection.is_declared


def _managed_by(agent: Agent) -> str:
    """Return the name of the managing agent, for users to read; `agent_id` is authoritative."""
    return f"{BY_AGENT}{agent.name}"[:_MANAGED_BY]


def _comparable(connection: Connection) -> Connection:
    return replace(connection, guardrail_rules=(), secret=dict(connection.secret), updated_at=None)


def _two_names(agent: Agent, name: str) -> Conflict:
    return Conflict(
        f"name: an instance of agent {agent.name!r} serves connection {name!r}; one agent has one connection, so end "
        "that instance, or create another agent for this one",
        field="name",
        retry_after=int(ALIVE_FOR.total_seconds()),
    )
