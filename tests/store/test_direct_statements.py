"""Statements of logins: in the event loop's own thread on SQLite, unless they would have to wait."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import Connection, bindparam, select, text, update

from postern.errors import Unavailable
from postern.store import threaded
from postern.store.database import Database
from postern.store.prepared import PreparedStatement
from postern.store.schema.identity_tables import orgs

_FIND = PreparedStatement(select(orgs.c.admin_group).where(orgs.c.name == bindparam("its_name")))
_CHANGE = PreparedStatement(
    update(orgs).where(orgs.c.name == bindparam("its_name")).values({"admin_group": bindparam("new_group")})
)
_DEFAULT = {"its_name": "default"}


async def read(database: Database) -> object:
    rows = await database.run_direct(lambda connection: _FIND.rows(connection, _DEFAULT), writes=False)
    return rows[0]["admin_group"]


async def write(database: Database, group: str) -> int:
    values = {**_DEFAULT, "new_group": group}
    return await database.run_direct(lambda connection: _CHANGE.count(connection, values), writes=True)


async def thread_of(database: Database) -> int:
    return await database.run_direct(lambda _connection: threading.get_ident(), writes=False)


@pytest.fixture
async def sqlite(tmp_path: Path) -> Database:
    database = Database(f"sqlite:///{tmp_path / 'postern.db'}")
    await database.migrate()
    return database


async def test_direct_statements_read_and_write(database: Database) -> None:
    assert await write(database, "one") == 1
    assert await read(database) == "one"
    async with database.statement() as connection:
        await connection.execute(text("update orgs set admin_group = 'two'"))
    assert await read(database) == "two"


async def test_several_direct_statements_are_all_run_or_none(database: Database) -> None:
    def change(connection: Connection, *groups: str) -> None:
        for group in groups:
            _CHANGE.count(connection, {**_DEFAULT, "new_group": group})

    def fail(connection: Connection) -> None:
        change(connection, "three")
        raise RuntimeError

    await database.run_direct(lambda connection: change(connection, "one", "two"), writes=True, several=True)
    assert await read(database) == "two"
    with pytest.raises(RuntimeError):
        await database.run_direct(fail, writes=True, several=True)
    assert await read(database) == "two"
    assert await write(database, "four") == 1


async def test_direct_statement_runs_in_the_thread_of_the_event_loop(sqlite: Database) -> None:
    assert await thread_of(sqlite) == threading.get_ident()
    assert sqlite.in_use == 0  # it takes no connection from others
    await sqlite.close()
    assert await read(sqlite) == "admin"
    await sqlite.close()


async def test_direct_statement_waits_for_the_lock_in_a_thread(sqlite: Database) -> None:
    assert await write(sqlite, "before") == 1
    async with sqlite.transaction() as transaction:
        await transaction.execute(text("update orgs set auditor_group = 'locked'"))
        assert await read(sqlite) == "before"  # readers wait for nobody
        writing = asyncio.create_task(write(sqlite, "after"))
        several = asyncio.create_task(sqlite.run_direct(lambda _connection: None, writes=True, several=True))
        await asyncio.sleep(0.05)  # the loop runs meanwhile
        assert not writing.done()
        assert not several.done()
    assert await writing == 1
    await several
    assert await read(sqlite) == "after"
    await sqlite.close()


async def test_after_a_slow_direct_statement_others_run_in_threads_for_a_while(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, reads = 1000.0, 0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(threaded, "_count_disk_reads", lambda: reads)

    def take_long(_connection: Connection) -> None:
        nonlocal now
        now += 2 * threaded.SLOW

    def wait_long(connection: Connection) -> None:
        nonlocal reads
        take_long(connection)
        reads += 8

    await sqlite.run_direct(take_long, writes=False)  # the machine was busy
    assert await thread_of(sqlite) == threading.get_ident()
    await sqlite.run_direct(wait_long, writes=False)
    assert await thread_of(sqlite) != threading.get_ident()
    now += 2 * threaded.SLOW / threaded.SHARE
    assert await thread_of(sqlite) == threading.get_ident()
    monkeypatch.undo()
    await sqlite.close()


async def test_direct_writes_do_not_let_the_log_grow(sqlite: Database, tmp_path: Path) -> None:
    log = tmp_path / "postern.db-wal"

    async def grow() -> int:
        for number in range(threaded.CHECKPOINT_AFTER):
            await write(sqlite, str(number))
        await asyncio.sleep(0.05)  # a thread writes the log back
        return log.stat().st_size

    sizes = [await grow() for _ in range(20)]
    assert sizes[-1] < sizes[0] + 2 * threaded.CHECKPOINT_AFTER * 4096, sizes
    await sqlite.close()


async def test_error_of_a_direct_statement_is_unavailable(sqlite: Database) -> None:
    def fail(_connection: Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(Unavailable):
        await sqlite.run_direct(fail, writes=True)
    await sqlite.close()
