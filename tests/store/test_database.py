"""Migrations, the pragmas, and the ways to run statements, on both engines."""

from __future__ import annotations

import asyncio
import shutil
import stat
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, insert, select, text
from sqlalchemy.exc import IntegrityError
from tests.conftest import SpareDatabase
from tests.support.postgres import PostgresServer, free_port

from postern.errors import Misconfigured, Unavailable
from postern.store import database as module
from postern.store import migration_files, schema_versions
from postern.store.database import Database
from postern.store.schema.columns import metadata
from postern.store.schema.identity_tables import orgs
from postern.store.schema.target_tables import agents


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite waits for its lock for longer than a machine that is busy takes."""
    monkeypatch.setattr(module, "_BUSY_MILLISECONDS", 300_000)


async def test_migrations_create_exactly_the_schema(database: Database) -> None:
    def is_ours(_: object, name: str | None, kind: str, is_there: bool, ours: object) -> bool:
        """Of the full-text indexes SQLAlchemy knows nothing: FTS5 keeps them in tables of its own."""
        own = str(name).startswith("session_words") or name == "ix_session_texts_words"
        return not (own and is_there and ours is None)

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"include_object": is_ours})
        return list(compare_metadata(context, metadata))

    async with database.statement() as connection:
        assert await connection.run_sync(differences) == []


SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    with op.batch_alter_table("orgs") as orgs:
        orgs.add_column(sa.Column("colour", sa.String(16), nullable=False, server_default="green"))
"""


async def test_second_migration_upgrades_a_store_with_data(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def rows() -> object:
        async with database.statement() as connection:
            return (await connection.execute(select(orgs))).all()

    before = await rows()
    shutil.copytree(migration_files.FOLDER, tmp_path / "migrations")
    (tmp_path / "migrations" / "versions" / "v2_colours.py").write_text(SECOND)
    monkeypatch.setattr(migration_files, "FOLDER", tmp_path / "migrations")
    schema_versions._script.cache_clear()
    try:
        assert not await database.is_current()
        for _ in range(2):
            await database.migrate()
            assert await database.is_current()
        assert await rows() == before
        async with database.statement() as connection:
            assert (await connection.execute(text("select colour from orgs"))).scalars().all() == ["green"]
    finally:
        monkeypatch.undo()
        schema_versions._script.cache_clear()
    with pytest.raises(Misconfigured, match="the schema '2', which this version of Postern does not know"):
        await database.migrate()


def test_newest_version_is_known_without_alembic() -> None:
    assert set(schema_versions._script().get_heads()) == migration_files.newest()


async def assert_two_at_once_make_one_org(url: str) -> None:
    first, second = Database(url), Database(url)
    await asyncio.gather(first.migrate(), second.migrate())
    async with first.statement() as connection:
        assert len((await connection.execute(select(orgs))).all()) == 1
    await asyncio.gather(first.close(), second.close())


async def test_concurrent_migrations_of_sqlite_create_one_organisation(tmp_path: Path) -> None:
    await assert_two_at_once_make_one_org(f"sqlite:///{tmp_path / 'new' / 'postern.db'}")
    assert stat.S_IMODE((tmp_path / "new" / "postern.db").stat().st_mode) == 0o600


async def test_concurrent_migrations_of_postgres_create_one_organisation(postgres_server: PostgresServer) -> None:
    name = f"t{uuid4().hex}"
    admin = await psycopg.AsyncConnection.connect(postgres_server.dsn(), autocommit=True)
    await admin.execute(f"create database {name}")
    await assert_two_at_once_make_one_org(postgres_server.dsn(name, scheme="postgresql+asyncpg"))
    await admin.execute(f"drop database {name}")
    await admin.close()


async def test_failed_transaction_changes_nothing(database: Database) -> None:
    with pytest.raises(RuntimeError):  # noqa: PT012 - the transaction is what is tested
        async with database.transaction() as connection:
            await connection.execute(text("update orgs set name = 'changed'"))
            raise RuntimeError("half-way")
    async with database.statement() as connection:
        assert (await connection.execute(select(orgs.c.name))).scalar_one() == "default"


@pytest.mark.usefixtures("patient")
async def test_many_concurrent_writers_all_finish(database: Database) -> None:
    """More than threads or connections: a waiting writer must not block the one it waits for."""

    async def transact() -> None:
        async with database.transaction() as transaction:
            await transaction.execute(text("update orgs set admin_group = admin_group || 'x'"))
            await asyncio.sleep(0)
            await transaction.execute(text("update orgs set auditor_group = auditor_group || 'x'"))

    async def write() -> None:
        async with database.statement() as connection:
            await connection.execute(text("update orgs set admin_group = admin_group || 'x'"))

    async with asyncio.timeout(60):  # less than the time that SQLite waits for its lock
        await asyncio.gather(*(transact() for _ in range(20)), *(write() for _ in range(20)))
    async with database.statement() as connection:
        row = (await connection.execute(select(orgs.c.admin_group, orgs.c.auditor_group))).one()
    assert (row.admin_group.count("x"), row.auditor_group.count("x")) == (40, 20)


async def test_planned_statement_never_uses_a_generic_plan(database: Database) -> None:
    """PostgreSQL counts the plans of prepared statements."""
    if database.is_sqlite:
        pytest.skip("SQLite plans a statement once")
    plans = text(
        "select generic_plans, custom_plans from pg_prepared_statements where statement like 'select ''planned%'"
    )
    for _ in range(8):
        async with database.plan_each() as connection:
            await connection.execute(text("select 'planned 1', name from orgs where name = :name"), {"name": "x"})
            counted = (await connection.execute(plans)).all()
    assert all(one.generic_plans == 0 for one in counted)
    assert sum(one.custom_plans for one in counted) >= 6


async def test_foreign_keys_are_enforced(database: Database) -> None:
    row = {"id": uuid4(), "org_id": uuid4(), "name": "x", "mode": "standard", "created_at": datetime.now(UTC)}
    with pytest.raises(IntegrityError):
        async with database.statement() as connection:
            await connection.execute(insert(agents).values(row))


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgresql://u:p@h/d", "postgresql+asyncpg"),
        ("postgres://h/d", "postgresql+asyncpg"),
        ("postgresql+psycopg://h/d", "postgresql+asyncpg"),
        ("sqlite:///x.db", "sqlite+pysqlite"),
    ],
)
async def test_database_url_gets_the_installed_driver(url: str, driver: str) -> None:
    assert Database(url).engine.sync_engine.url.drivername == driver


@pytest.mark.parametrize("url", ["mysql://u:hunter2@h/d", "hunter2"])
async def test_unsupported_database_url_is_rejected_without_quoting_it(url: str) -> None:
    with pytest.raises(Misconfigured, match="POSTERN_DATABASE_URL") as refused:
        Database(url)
    assert "hunter2" not in refused.value.message


async def test_store_that_does_not_answer_is_unavailable() -> None:
    database = Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none")
    with pytest.raises(Unavailable, match="does not answer"):
        async with database.statement() as connection:
            await connection.execute(select(orgs))


@pytest.mark.usefixtures("patient")
async def test_statements_waiting_for_the_lock_do_not_starve_its_holder(database: Database) -> None:
    """With shared threads, all of them would wait for each other until the lock times out."""

    async def write(name: str) -> None:
        async with database.statement() as connection:
            await connection.execute(insert(orgs).values(id=uuid4(), name=name, created_at=datetime.now(UTC)))

    async with asyncio.timeout(60):
        async with database.transaction() as transaction:
            await transaction.execute(insert(orgs).values(id=uuid4(), name="first", created_at=datetime.now(UTC)))
            waiting = [asyncio.create_task(write(f"waiting {number}")) for number in range(12)]
            waiting += [asyncio.create_task(_in_transaction(database, f"queued {number}")) for number in range(12)]
            await asyncio.sleep(0.1)
            await transaction.execute(select(orgs))
        await asyncio.gather(*waiting)


async def _in_transaction(database: Database, name: str) -> None:
    async with database.transaction() as transaction:
        await transaction.execute(insert(orgs).values(id=uuid4(), name=name, created_at=datetime.now(UTC)))


@pytest.mark.usefixtures("patient")
async def test_transactions_over_the_connection_limit_wait_and_all_finish(database: Database) -> None:
    async def add(number: int) -> None:
        async with database.transaction() as transaction:
            values = {"id": uuid4(), "name": f"org-{number}", "created_at": datetime.now(UTC)}
            await transaction.execute(insert(orgs).values(values))
            await transaction.execute(select(orgs.c.id))

    async with asyncio.timeout(60):  # below the time that SQLite itself waits for a lock
        await asyncio.gather(*(add(number) for number in range(30)))


def test_shared_test_database_is_reset_for_each_test(spare_database: SpareDatabase) -> None:
    dsn = spare_database.server.dsn(spare_database.name)
    with psycopg.connect(dsn) as fresh:
        known = fresh.execute("select id, name from orgs").fetchall()
    for changes in (
        "update orgs set name = 'changed'; update alembic_version set version_num = 'x'; delete from groups",
        "alter table agents drop column name cascade",
        "create table left_over (id int)",
    ):
        abandoned = psycopg.connect(dsn)
        abandoned.execute("lock table orgs")
        with psycopg.connect(dsn, autocommit=True) as connection:
            abandoned.rollback()
            connection.execute(changes)
            abandoned.execute("lock table orgs")
            spare_database.empty()
        with psycopg.connect(dsn) as connection:
            assert [name for _, name in connection.execute("select id, name from orgs").fetchall()] == ["default"]
            assert connection.execute("select count(*) from groups").fetchone() == (2,)
            assert connection.execute("select count(*) from agents where name = ''").fetchone() == (0,)
            assert connection.execute("select to_regclass('left_over')").fetchone() == (None,)
            if "orgs" in changes:
                assert connection.execute("select id, name from orgs").fetchall() == known
        with pytest.raises(psycopg.OperationalError):  # it was thrown out
            abandoned.execute("select 1")
