"""Rows of a store leave it and come back as they were, also into the other engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Connection, delete, func, insert, select, text
from tests.support.filled import FilledStore, all_rows
from tests.support.postgres import PostgresServer

from postern.errors import Malformed, Misconfigured
from postern.store.database import Database
from postern.store.schema.columns import metadata
from postern.store.schema.identity_tables import groups
from postern.store.schema.server_tables import deliveries, sinks
from postern.store.schema_versions import create
from postern.store.store_rows import (
    Kind,
    TableShape,
    clear_tables,
    dump_rows,
    load_rows,
    schema_versions,
    shape_of,
    store_tables,
)

Dump = list[tuple[TableShape, list[bytes]]]


@pytest.fixture(params=["to-sqlite", "to-postgres"])
async def empty(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """A store without any table."""
    if request.param == "to-sqlite":
        database = Database(f"sqlite:///{tmp_path / 'empty.db'}")
        yield database
        await database.close()
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"t{uuid4().hex}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name}")
    database = Database(server.dsn(name, scheme="postgresql+asyncpg"))
    yield database
    await database.close()
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"drop database {name} with (force)")


def dump(connection: Connection) -> Dump:
    shapes = [shape_of(connection, table) for table in store_tables()]
    return [(shape, sorted(dump_rows(connection, shape))) for shape in shapes]


def load(connection: Connection, dumped: Dump) -> None:
    create(connection, "1")
    clear_tables(connection)
    for shape, lines in dumped:
        assert load_rows(connection, shape, lines) == len(lines)


async def test_every_row_of_every_table_comes_back(database: Database, empty: Database) -> None:
    await database.together(FilledStore().fill)
    before = await database.together(all_rows)
    assert all(before[table] for table in metadata.tables)
    dumped = await database.snapshot(dump)
    await empty.fill(lambda connection: load(connection, dumped))
    assert await empty.together(all_rows) == before
    assert await empty.snapshot(dump) == dumped
    assert await empty.is_current()


async def test_search_finds_what_was_loaded(database: Database, empty: Database) -> None:
    await database.together(FilledStore().fill)
    dumped = await database.snapshot(dump)
    await empty.fill(lambda connection: load(connection, dumped))
    query = (
        "select count(*) from session_words where session_words match 'folded : drop AND keys : ka'"
        if empty.is_sqlite
        else "select count(*) from session_texts where words @@ 'drop'::tsquery and keys @> array['ka']"
    )
    async with empty.statement() as statement:
        assert (await statement.execute(text(query))).scalar() == 2


async def test_numbers_are_not_given_twice(database: Database, empty: Database) -> None:
    """Also those of rows that were deleted before the backup."""

    def add(connection: Connection) -> int:
        sink = connection.execute(select(sinks)).mappings().first()
        assert sink is not None
        values = {"sink_id": sink["id"], "org_id": sink["org_id"], "at": sink["created_at"], "event_id": uuid4()}
        values |= {"event": "x", "body": "", "state": "x", "attempts": 0, "error": ""}
        key = connection.execute(insert(deliveries).values(values)).inserted_primary_key
        assert key is not None
        return int(key[0])

    await database.together(FilledStore().fill)
    last = await database.together(add)
    await database.together(lambda connection: connection.execute(delete(deliveries)))
    dumped = await database.snapshot(dump)
    await empty.fill(lambda connection: load(connection, dumped))
    assert await empty.together(add) == last + 1


async def test_snapshot_does_not_see_what_is_written_meanwhile(database: Database) -> None:
    other = Database(str(database._url.render_as_string(hide_password=False)))
    count = select(func.count()).select_from(groups)

    async def write() -> None:
        async with other.statement() as statement:
            await statement.execute(delete(groups))

    def work(connection: Connection) -> tuple[Any, Any]:
        first = connection.execute(count).scalar()
        run_apart(write())
        return first, connection.execute(count).scalar()

    first, second = await database.snapshot(work)
    assert first == second == 2
    async with database.statement() as statement:
        assert (await statement.execute(count)).scalar() == 0
    await other.close()


def run_apart(coroutine: Coroutine[Any, Any, None]) -> None:
    """In another thread, since this one's event loop reads the snapshot."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, coroutine).result(60)


@pytest.mark.parametrize("line", [b"[1]\n", b"{}\n", b"[\n", b'["x", 2]\n', b'["2026-13-01T00:00:00+00:00", 2]\n'])
async def test_attack_row_that_does_not_fit_is_refused(database: Database, line: bytes) -> None:
    shape = TableShape("purge_rounds", (("at", Kind.TIME), ("name", Kind.TEXT)))
    with pytest.raises(Malformed, match="a row of the table purge_rounds in this backup cannot be read"):
        await database.together(lambda connection: load_rows(connection, shape, [line]))


async def test_schema_of_a_newer_version_is_refused(empty: Database) -> None:
    with pytest.raises(Misconfigured, match="'99', which this version of Postern does not know"):
        await empty.fill(lambda connection: create(connection, "99"))


async def test_schema_versions_are_those_of_the_store(database: Database) -> None:
    assert await database.snapshot(schema_versions) == ["1"]
