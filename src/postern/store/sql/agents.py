"""Agents and when each was last heard of."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import bindparam, case, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.agent import Agent
from postern.domain.lists import Listed, Page
from postern.errors import Conflict
from postern.store.database import Database
from postern.store.prepared import Prepared, Row
from postern.store.schema import agents
from postern.store.sql.rows import as_uuid, count_of
from postern.store.threaded import Executor

# Every list of connections asks it.
_ALL = Prepared(select(*agents.c).where(agents.c.org_id == bindparam("org")).order_by(agents.c.name))


class SqlAgents:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, org_id: UUID, name_or_id: str) -> Agent | None:
        key = as_uuid(name_or_id)
        named = agents.c.name == name_or_id
        wanted = select(*agents.c).where(
            agents.c.org_id == org_id, named if key is None else or_(named, agents.c.id == key)
        )
        async with self._database.statement() as connection:
            found = await connection.execute(wanted.order_by(case((named, 0), else_=1)).limit(1))
            row = found.mappings().one_or_none()
        return None if row is None else _agent_of(row)

    async def all(self, org_id: UUID) -> list[Agent]:
        async with self._database.statement() as connection:
            rows = await connection.run_sync(lambda connection: _ALL.rows(connection, {"org": org_id}))
        return [_agent_of(row) for row in rows]

    async def find(self, org_id: UUID, page: Page) -> Listed[Agent]:
        own = agents.c.org_id == org_id
        rows = select(*agents.c).where(own).order_by(agents.c.name).limit(page.limit).offset(page.offset)
        async with self._database.statement() as connection:
            found = (await connection.execute(rows)).mappings().all()
            total = (await connection.execute(count_of(agents, own))).scalar_one()
        return Listed([_agent_of(row) for row in found], total)

    async def add(self, agent: Agent) -> None:
        try:
            async with self._database.statement() as connection:
                await add_agent(connection, agent)
        except IntegrityError:
            raise Conflict(f"name: an agent {agent.name!r} exists already", field="name") from None

    async def touch_all(self, mode: str, at: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(update(agents).where(agents.c.mode == mode).values(last_seen=at))

    async def last_seen(self, mode: str) -> datetime | None:
        wanted = select(func.max(agents.c.last_seen)).where(agents.c.mode == mode)
        async with self._database.statement() as connection:
            found: datetime | None = (await connection.execute(wanted)).scalar_one()
        return found


async def add_agent(connection: Executor, agent: Agent) -> None:
    """Raises IntegrityError."""
    await connection.execute(insert(agents).values({column.name: getattr(agent, column.name) for column in agents.c}))


def _agent_of(row: Row) -> Agent:
    return Agent(row["id"], row["org_id"], row["name"], row["mode"], row["last_seen"], row["created_at"])
