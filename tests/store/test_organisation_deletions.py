"""The deletion of an organisation leaves none of its rows in any table, and changes no row of another one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    Table,
    Uuid,
    insert,
    select,
)
from tests.support.world import START, World

from postern.domain.identity.organisation import Organisation
from postern.errors import Conflict, NotFound
from postern.services.server.audit_context import AuditContext
from postern.store.database import Database
from postern.store.schema.columns import Utc, metadata
from postern.store.schema.identity_tables import orgs, users
from postern.store.schema.retention_tables import holds
from postern.store.schema.session_tables import sessions
from postern.store.schema.target_tables import agents
from postern.store.sql.identity.sql_organisation_deletions import owned_tables

# Of the installation: they say nothing of an organisation.
SHARED = {"installation", "leases", "purge_rounds", "relay_workers", "token_keys"}
Rows = dict[str, list[tuple[Any, ...]]]


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database)


def cascades(table: Table) -> bool:
    """Whether its rows go with those of a table that belongs to an organisation."""
    return any(
        key.ondelete == "CASCADE" and ("org_id" in key.column.table.c or cascades(key.column.table))
        for key in table.foreign_keys
    )


def test_every_table_is_shared_owned_or_cascades_from_an_owned_one() -> None:
    owned = {table.name for table in owned_tables()}
    hanging = {table.name for table in metadata.sorted_tables if "org_id" not in table.c and cascades(table)}
    assert owned | hanging | SHARED | {"orgs"} == set(metadata.tables)
    assert not (owned | hanging) & SHARED
    assert all(len(table.primary_key.columns) for table in owned_tables())


class Filler:
    """Adds one row to every table for one organisation, with values that only fit the types."""

    def __init__(self, org_id: UUID, first: int) -> None:
        self._org_id = org_id
        self._numbers = count(first)
        self._rows: dict[str, Mapping[str, Any]] = {"orgs": {"id": org_id}}

    def fill(self, connection: Connection) -> None:
        for table in metadata.sorted_tables:
            if table.name not in SHARED and table is not orgs:
                row = {column.name: self._value(column) for column in table.columns if self._is_needed(column)}
                connection.execute(insert(table).values(row))
                self._rows[table.name] = row

    @staticmethod
    def _is_needed(column: Column[Any]) -> bool:
        return bool(column.foreign_keys) or (not column.nullable and column.server_default is None)

    def _value(self, column: Column[Any]) -> Any:
        for key in column.foreign_keys:
            return self._rows[key.column.table.name][key.column.name]
        if column.name == "org_id":
            return self._org_id
        if column.name == "status" and column.table is sessions:
            return "done"
        number = next(self._numbers)
        kinds: list[tuple[type, Any]] = [
            (Uuid, uuid4()),
            (Utc, START),
            (JSON, {}),
            (LargeBinary, number.to_bytes(32, "big")),
            (Boolean, False),
            (Float, 0.5),
            (BigInteger, number),
            (Integer, number),
        ]
        return next((value for kind, value in kinds if isinstance(column.type, kind)), f"{number}"[:4])


async def rows(world: World) -> Rows:
    """Return all rows of all tables but the shared ones."""

    def work(connection: Connection) -> Rows:
        found: Rows = defaultdict(list)
        for table in metadata.sorted_tables:
            if table.name not in SHARED:
                found[table.name] = sorted(map(tuple, connection.execute(select(table)).all()), key=repr)
        return found

    return await world.database.together(work)


async def add(world: World, name: str, first: int) -> Organisation:
    organisation = Organisation(uuid4(), name, world.clock())
    await world.stores.organisations.add(organisation)
    await world.database.together(Filler(organisation.id, first).fill)
    return organisation


async def delete_all(world: World, organisation: Organisation, most: int) -> bool:
    store = world.stores.organisation_deletions
    while found := await store.segments(organisation.id, most):
        await store.forget_segments(found)
    while ids := await store.sessions(organisation.id, most):
        await store.forget_sessions(ids)
    while await store.forget_rows(organisation.id, most):
        pass
    return await store.finish(organisation.id, entry(world))


def entry(world: World) -> Any:
    audit = world.services().audit
    trail = AuditContext({"organisation": "acme"}, None)
    return audit.by_gateway(
        world.org_id, "organisations", action="delete", resource_type="orgs", resource="acme", audit_context=trail
    )


async def without_holds(world: World) -> None:
    async with world.database.statement() as connection:
        await connection.execute(holds.delete())


@pytest.mark.parametrize("most", [1, 1000])
@pytest.mark.ci
async def test_deletion_leaves_no_row_and_changes_no_other_organisation(world: World, most: int) -> None:
    doomed = await add(world, "acme", 1)
    before_other = await rows(world)
    kept = await add(world, "other", 1001)
    filled = await rows(world)
    assert all(filled[table] for table in filled)
    # What one organisation added is what is left of it at the end.
    added = {name: [row for row in filled[name] if row not in before_other[name]] for name in filled}
    await without_holds(world)
    await world.stores.organisation_deletions.begin(doomed.id, world.clock())
    assert await delete_all(world, doomed, most)
    left = await rows(world)
    assert doomed.id not in {row[0] for row in left["orgs"]}
    for name, own in added.items():
        if name != "holds":
            assert [row for row in own if row not in left[name]] == [], name
    for table in owned_tables():
        position = list(table.columns.keys()).index("org_id")
        assert doomed.id not in {row[position] for row in left[table.name]}, table.name
    hanging = {table.name for table in metadata.sorted_tables if "org_id" not in table.c} - SHARED - {"orgs"}
    for name in hanging - {"untold_entries"}:
        assert left[name] == added[name], name
    assert await world.stores.organisations.get(kept.id) is not None


async def test_deletion_invalidates_access_at_once(world: World) -> None:
    doomed = await add(world, "acme", 1)
    await without_holds(world)
    await world.stores.organisation_deletions.begin(doomed.id, world.clock())
    left = await rows(world)
    access = ("api_keys", "chat_links", "credentials", "logins", "ssh_authorities", "ssh_keys", "vouchers")
    for name in (*access, "runbook_schedules"):
        assert left[name] == [], name
    status = list(users.columns.keys()).index("status")
    assert {row[status] for row in left["users"]} == {"inactive"}
    digest = list(agents.columns.keys()).index("digest")
    assert {row[digest] for row in left["agents"]} == {None}
    organisations = world.stores.organisations
    assert await organisations.get(doomed.id) is None
    assert await organisations.by_name("acme") is None


async def test_legal_holds_prevent_the_deletion_and_are_named(world: World) -> None:
    doomed = await add(world, "acme", 1)
    before = await rows(world)
    name, session = before["holds"][0][list(holds.columns.keys()).index("name")], before["sessions"][0][0]
    with pytest.raises(Conflict, match=rf"legal holds: '{name}' on session {session}; .*remove"):
        await world.stores.organisation_deletions.begin(doomed.id, world.clock())
    assert await rows(world) == before


async def test_second_deletion_request_and_unknown_organisation_are_rejected(world: World) -> None:
    store = world.stores.organisation_deletions
    doomed = Organisation(uuid4(), "acme", world.clock())
    await world.stores.organisations.add(doomed)
    await store.begin(doomed.id, world.clock())
    with pytest.raises(Conflict, match="already being deleted"):
        await store.begin(doomed.id, world.clock())
    with pytest.raises(NotFound):
        await store.begin(uuid4(), datetime.now(UTC))
    assert [one.id for one in await store.waiting()] == [doomed.id]


async def test_session_with_stored_segments_prevents_the_final_deletion(world: World) -> None:
    doomed = await add(world, "acme", 1)
    await without_holds(world)
    store = world.stores.organisation_deletions
    await store.begin(doomed.id, world.clock())
    assert await store.sessions(doomed.id, 10) == []
    while await store.forget_rows(doomed.id, 1000):
        pass
    before = await rows(world)
    assert not await store.finish(doomed.id, entry(world))
    assert await rows(world) == before
