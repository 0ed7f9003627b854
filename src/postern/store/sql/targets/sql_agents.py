"""Agents: keys, reported facts and heartbeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, bindparam, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.lists import Listed, Page
from postern.domain.targets.agent import Agent, AgentMode
from postern.errors import Conflict
from postern.store.ports.target_ports import AgentFilter
from postern.store.prepared import PreparedStatement, Row
from postern.store.schema.target_tables import agents
from postern.store.sql.resource_table import ResourceTable
from postern.store.threaded import Executor

# Every list of connections asks it.
_ALL = PreparedStatement(select(*agents.c).where(agents.c.org_id == bindparam("org")).order_by(agents.c.name))

# Built once: every agent that dials in asks it, once for each relay worker.
_BY_DIGEST = select(*agents.c).where(agents.c.digest == bindparam("digest"))
_BY_ID = select(*agents.c).where(agents.c.id == bindparam("id"))


class SqlAgents(ResourceTable[Agent]):
    """Agents write heartbeats and facts into these rows, too. That is not an administrator's change, so the version
    stays."""

    table, noun = agents, "agent"

    async def read(self, row: Row) -> Agent:
        return _agent_of(row)

    async def values(self, resource: Agent) -> dict[str, Any]:
        """Return the columns that can change; name and mode are part of its key."""
        return {"digest": resource.digest, "updated_at": resource.updated_at}

    async def new_row(self, resource: Agent) -> dict[str, Any]:
        return _row_of(resource)

    async def remove(self, resource: Agent) -> None:
        try:
            await super().remove(resource)
        except IntegrityError:
            raise Conflict(
                f"a connection was just assigned to agent {resource.name!r}; check that connection, and try again"
            ) from None

    async def by_digest(self, digest: bytes) -> Agent | None:
        async with self._database.statement() as connection:
            row = (await connection.execute(_BY_DIGEST, {"digest": digest})).mappings().one_or_none()
        return None if row is None else _agent_of(row)

    async def by_id(self, agent_id: UUID) -> Agent | None:
        async with self._database.statement() as connection:
            row = (await connection.execute(_BY_ID, {"id": agent_id})).mappings().one_or_none()
        return None if row is None else _agent_of(row)

    async def all(self, org_id: UUID) -> list[Agent]:
        async with self._database.statement() as connection:
            rows = await connection.run_sync(lambda connection: _ALL.rows(connection, {"org": org_id}))
        return [_agent_of(row) for row in rows]

    async def search(self, org_id: UUID, criteria: AgentFilter, page: Page) -> Listed[Agent]:
        return await self.some(page, agents.c.org_id == org_id, *_conditions(criteria))

    async def store_facts(self, agent_id: UUID, facts: Mapping[str, str]) -> None:
        async with self._database.statement() as connection:
            await connection.execute(update(agents).where(agents.c.id == agent_id).values(facts=dict(facts)))

    async def mark_seen(self, ids: Sequence[UUID], at: datetime) -> frozenset[UUID]:
        if not ids:
            return frozenset()
        touched = update(agents).where(agents.c.id.in_(ids)).values(last_seen=at).returning(agents.c.id)
        async with self._database.statement() as connection:
            return frozenset((await connection.execute(touched)).scalars())

    async def digests(self, ids: Sequence[UUID]) -> Mapping[UUID, bytes | None]:
        if not ids:
            return {}
        query = select(agents.c.id, agents.c.digest).where(agents.c.id.in_(ids))
        async with self._database.statement() as connection:
            return {row.id: row.digest for row in await connection.execute(query)}

    async def touch_all(self, mode: str, at: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(update(agents).where(agents.c.mode == mode).values(last_seen=at))

    async def last_seen(self, mode: str) -> datetime | None:
        query = select(func.max(agents.c.last_seen)).where(agents.c.mode == mode)
        async with self._database.statement() as connection:
            time: datetime | None = (await connection.execute(query)).scalar_one()
        return time


def _conditions(criteria: AgentFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if criteria.name is not None:
        conditions.append(agents.c.name == criteria.name)
    if criteria.search is not None:
        conditions.append(func.lower(agents.c.name).contains(criteria.search.lower(), autoescape=True))
    if criteria.seen_after is not None:
        conditions.append(agents.c.last_seen > criteria.seen_after)
    if criteria.not_seen_after is not None:
        conditions.append(or_(agents.c.last_seen.is_(None), agents.c.last_seen <= criteria.not_seen_after))
    return conditions


async def add_agent(connection: Executor, agent: Agent) -> None:
    """Add an agent. Raises IntegrityError."""
    await connection.execute(insert(agents).values(_row_of(agent)))


def _row_of(agent: Agent) -> dict[str, Any]:
    return {column.name: getattr(agent, column.name) for column in agents.c} | {"facts": dict(agent.facts)}


def _agent_of(row: Row) -> Agent:
    return Agent(**{**row, "mode": AgentMode(row["mode"])})
