"""Fixtures that several rooms use."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql
from tests.support.examples import examples
from tests.support.postgres import PostgresServer, running_server

from postern.store.database import Database

# Processes that tests start run the same code as the tests: the source tree, or what is installed.
if os.environ.get("POSTERN_TEST_INSTALLED") != "1":
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parent.parent / "src")


# Collecting makes millions of objects that stay; looking through them for garbage took half of its time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


# Deadlines of examples, and how fast they are made, would measure what else the machine does.
settings.register_profile(
    "postern", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("postern")


# Rooms whose own work is the store: everywhere else, one engine is enough before a commit.
OF_THE_STORE = {"store", "contracts"}
# One file for each way in: a native client, and a script.
EVERYDAY_E2E = {"conftest.py", "test_masking.py", "test_runbooks.py"}
_OF_CI = re.compile(r"^pytestmark = .*\bmark\.ci\b", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--everyday",
        action="store_true",
        help="leave out what continuous integration runs: tests marked `ci`, most end-to-end tests, and PostgreSQL as "
        "the store outside of the store's own tests",
    )
    parser.addoption(
        "--one-row-on-postgres",
        action="store_true",
        help="of a test that has several rows, run one with PostgreSQL as the store, outside of the store's own tests",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of what is left out as a whole, nothing is imported, either."""
    if not config.getoption("everyday") or collection_path.suffix != ".py":
        return None
    left_out = collection_path.parent.name == "e2e" and collection_path.name not in EVERYDAY_E2E
    return True if left_out or _OF_CI.search(collection_path.read_text()) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse tests that are named by an object's address: names must be the same in every process that runs tests."""
    named_by_address = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if named_by_address:
        raise pytest.UsageError(f"give these tests names of their own (ids=…): {named_by_address[:5]}")
    if config.getoption("everyday"):
        _leave_out([item for item in items if not _is_everyday(item)], items, config)
    if config.getoption("one_row_on_postgres"):
        on_postgres = [item for item in items if _is_on_second_engine(item)]
        first_rows = {_function_of(item): item for item in reversed(on_postgres)}
        _leave_out([item for item in on_postgres if first_rows[_function_of(item)] is not item], items, config)


def _leave_out(left_out: list[pytest.Item], items: list[pytest.Item], config: pytest.Config) -> None:
    config.hook.pytest_deselected(items=left_out)
    is_left_out = set(left_out).__contains__
    items[:] = [item for item in items if not is_left_out(item)]


def _is_everyday(item: pytest.Item) -> bool:
    return item.get_closest_marker("ci") is None and not _is_on_second_engine(item)


def _is_on_second_engine(item: pytest.Item) -> bool:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return parameters.get("engine_name") == "postgres" and not OF_THE_STORE & set(item.path.parts)


def _function_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server per test run. Missing binaries are an error under CI=true, else a visible skip."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store to copy: migrating one takes longer than most tests."""
    file = tmp_path_factory.mktemp("migrated") / "migrated.db"
    _migrate(f"sqlite:///{file}")
    return file


@dataclass
class SpareDatabase:
    """One migrated database for one test after the other: making a new one takes longer than most tests, emptying
    this one a few milliseconds. It is made anew after a test that changed its schema."""

    server: PostgresServer
    name: str = "postern_spare"
    schema: str = ""
    reset: list[sql.Composable] = field(default_factory=list)
    _connection: psycopg.Connection | None = None  # the same each time, as a new one reads the catalogue anew

    @property
    def url(self) -> str:
        return self.server.dsn(self.name, scheme="postgresql+asyncpg")

    def make(self) -> None:
        with psycopg.connect(self.server.dsn(), autocommit=True) as admin:
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(self.name)))
            admin.execute(sql.SQL("create database {}").format(sql.Identifier(self.name)))
        _migrate(self.url)
        self._connection = connection = psycopg.connect(self.server.dsn(self.name), autocommit=True)
        self.schema = _schema(connection)
        self.reset = [sql.SQL("set local session_replication_role = replica")]  # in any order of foreign keys
        for (table,) in connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall():
            name = sql.Identifier(table)
            first = connection.execute(sql.SQL("select json_agg(one)::text from {} one").format(name)).fetchone()
            self.reset.append(sql.SQL("delete from {}").format(name))
            if first != (None,):
                back = sql.SQL("insert into {} select * from json_populate_recordset(null::{}, {})")
                self.reset.append(back.format(name, name, *map(sql.Literal, first or ())))

    def empty(self) -> None:
        """As it was when it was made."""
        connection = self._connection
        assert connection is not None
        # What a test left open holds locks, and would hear of the next one.
        connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        if _schema(connection) == self.schema:
            with connection.transaction():
                connection.execute(sql.SQL("; ").join(self.reset))
        else:
            self.close()
            self.make()

    def close(self) -> None:
        assert self._connection is not None
        self._connection.close()


def _schema(connection: psycopg.Connection) -> str:
    """Columns, indices, constraints and triggers, as one hash."""
    row = connection.execute(
        """
        select md5(string_agg(what, ',' order by what)) from (
            select format('%s.%s %s %s', attrelid::regclass, attname, atttypid, attnotnull) as what
            from pg_attribute join pg_class on pg_class.oid = attrelid
            where relnamespace = 'public'::regnamespace and not attisdropped
            union all select format('%s %s', conrelid::regclass, conname) from pg_constraint where conrelid <> 0
            union all select format('%s %s', tgrelid::regclass, tgname) from pg_trigger
        ) known
        """
    ).fetchone()
    assert row is not None
    return str(row[0])


def _migrate(url: str) -> None:
    """On a thread, since a fixture may be asked for from inside a running event loop."""

    async def make() -> None:
        database = Database(url)
        await database.migrate()
        await database.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, make()).result()


@pytest.fixture(scope="session")
def spare_database(postgres_server: PostgresServer) -> Iterator[SpareDatabase]:
    spare = SpareDatabase(postgres_server)
    spare.make()
    yield spare
    spare.close()


@pytest.fixture(params=["sqlite", "postgres"])
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def databases() -> dict[str, Database]:
    """By URL. They are used by one test after the other, as compiling the statements anew takes longer than most."""
    return {}


@pytest.fixture
def sqlite_url(migrated: Path) -> str:
    """URL of an empty, migrated store on SQLite."""
    file = migrated.with_name("postern.db")
    for suffix in ("", "-wal", "-shm"):
        Path(f"{file}{suffix}").unlink(missing_ok=True)
    shutil.copy(migrated, file)
    return f"sqlite:///{file}"


@pytest.fixture
def database_url(engine_name: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of an empty, migrated store on each engine in turn."""
    if engine_name == "sqlite":
        yield request.getfixturevalue("sqlite_url")
        return
    spare: SpareDatabase = request.getfixturevalue("spare_database")
    yield spare.url
    spare.empty()


@asynccontextmanager
async def _opened(url: str, databases: dict[str, Database]) -> AsyncIterator[Database]:
    database = databases.get(url) or databases.setdefault(url, Database(url))
    database.observer = lambda _seconds: None
    yield database
    await database.close()


@pytest.fixture
async def database(database_url: str, databases: dict[str, Database]) -> AsyncIterator[Database]:
    """An empty, migrated store; every test that uses it runs on both engines."""
    async with _opened(database_url, databases) as database:
        yield database


@pytest.fixture
async def sqlite_database(sqlite_url: str, databases: dict[str, Database]) -> AsyncIterator[Database]:
    """For tests of what is the same on both engines."""
    async with _opened(sqlite_url, databases) as database:
        yield database
