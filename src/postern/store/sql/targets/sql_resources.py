"""Resources: created when a connection names one first, removed when none does any more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, delete, exists, func, select
from sqlalchemy.dialects.postgresql import insert as upsert  # SQLite has the same ON CONFLICT, and compiles it alike

from postern.domain.lists import Listed, Page
from postern.domain.rules.access import Reach
from postern.domain.targets.resource import MOST_NAMED, Resource
from postern.store.database import Database
from postern.store.prepared import Row
from postern.store.schema.target_tables import connections, resources
from postern.store.sql.resource_table import one_of
from postern.store.sql.rows import count_of
from postern.store.sql.targets.connection_conditions import within
from postern.store.threaded import Executor


class SqlResources:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, org_id: UUID, reach: Reach | None, page: Page, name: str | None = None) -> Listed[Resource]:
        conditions = [resources.c.org_id == org_id, *_reach_conditions(reach)]
        if name is not None:
            conditions.append(resources.c.name == name)
        query = select(*resources.c).where(*conditions).order_by(resources.c.name)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query.limit(page.limit).offset(page.offset))).mappings().all()
            total = (await connection.execute(count_of(resources, *conditions))).scalar_one()
            return Listed(await _load_resources(connection, org_id, rows, reach), total)

    async def get(self, org_id: UUID, name_or_id: str, reach: Reach | None) -> Resource | None:
        query = one_of(resources, select(*resources.c).where(*_reach_conditions(reach)), org_id, name_or_id)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).mappings().all()
            found_resources = await _load_resources(connection, org_id, rows, reach)
        return found_resources[0] if found_resources else None

    async def remove(self, org_id: UUID, name: str) -> bool:
        condition = (resources.c.org_id == org_id, resources.c.name == name)
        async with self._database.transaction() as transaction:
            # A concurrent request that adds a connection has locked this row; its connection is visible afterwards.
            await transaction.execute(select(resources.c.id).where(*condition).with_for_update())
            removed = await transaction.execute(delete(resources).where(*condition, ~_has_connections()))
            return removed.rowcount == 1


async def ensure_resource(transaction: Executor, org_id: UUID, name: str) -> None:
    """Create the resource's row if necessary, and lock it until the transaction ends."""
    row = {"id": uuid4(), "org_id": org_id, "name": name, "created_at": datetime.now(UTC)}
    new_insert = upsert(resources).values(row)
    insert = new_insert.on_conflict_do_update(
        index_elements=["org_id", "name"], set_={"name": new_insert.excluded.name}
    )
    await transaction.execute(insert)


def _has_connections(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    belongs = (connections.c.org_id == resources.c.org_id, connections.c.resource_name == resources.c.name)
    return exists(select(connections.c.id).where(*belongs, *conditions).correlate(resources))


def _reach_conditions(reach: Reach | None) -> list[ColumnElement[bool]]:
    return [] if reach is None else [_has_connections(*within(reach))]


async def _load_resources(
    connection: Executor, org_id: UUID, rows: Sequence[Row], reach: Reach | None
) -> list[Resource]:
    """Return them with the first connections of each, in one statement."""
    name = connections.c.resource_name
    conditions = (connections.c.org_id == org_id, name.in_([row["name"] for row in rows]), *within(reach))
    place = func.row_number().over(partition_by=name, order_by=connections.c.name).label("place")
    total = func.count().over(partition_by=name).label("total")
    ranked = (
        select(connections.c.id, connections.c.name, name.label("resource"), place, total).where(*conditions).subquery()
    )
    query = select(ranked).where(ranked.c.place <= MOST_NAMED).order_by(ranked.c.name)
    named: dict[str, dict[UUID, str]] = {}
    totals: dict[str, int] = {}
    for ranked_row in (await connection.execute(query)).mappings() if rows else ():
        named.setdefault(ranked_row["resource"], {})[ranked_row["id"]] = ranked_row["name"]
        totals[ranked_row["resource"]] = ranked_row["total"]
    return [_resource_of(row, named.get(row["name"], {}), totals.get(row["name"], 0)) for row in rows]


def _resource_of(row: Row, connection_names: dict[UUID, str], total: int) -> Resource:
    values: dict[str, Any] = dict(row)
    return Resource(**values, connections=connection_names, total=total)
