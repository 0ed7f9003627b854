"""The engine: one code for SQLite (WAL) and PostgreSQL, and schema migrations."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from sqlalchemy import URL, Connection, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool

from postern.errors import Misconfigured, Unavailable
from postern.store import migration_files
from postern.store.threaded import Executor, ThreadedEngine

log = logging.getLogger(__name__)

T = TypeVar("T")

_DRIVERS = {"sqlite": "sqlite+pysqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
_SQLITE = (sqlite3.OperationalError, sqlite3.InterfaceError)  # of statements that are `Prepared`
_BUSY_MILLISECONDS = 10_000
_MIGRATION_LOCK = 0x506F_7374_6572_6E  # "Postern"; any number that is always the same


class Database:
    """Connections to the store. `statement()` for one statement, `transaction()` for several."""

    def __init__(self, url: str, *, pool_size: int = 5) -> None:
        """`url` as for SQLAlchemy, with or without the driver's name. Raises Misconfigured."""
        self._url = parse_url(url)
        self.most_in_use = pool_size + 1 if self.is_sqlite else 2 * pool_size
        self.observer: Callable[[float], None] = _ignore_duration  # hears how many seconds each answer took
        self.engine: AsyncEngine | ThreadedEngine = (
            _sqlite(self._url, pool_size) if self.is_sqlite else _postgres(self._url, pool_size)
        )

    @property
    def is_sqlite(self) -> bool:
        return self._url.get_backend_name() == "sqlite"

    @property
    def in_use(self) -> int:
        """The number of connections in use now."""
        pool = self.engine.sync_engine.pool
        return pool.checkedout() if isinstance(pool, QueuePool) else 0

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Executor]:
        """Run one statement, read or write, committed by itself: one round trip and no transaction around it."""
        async with _answering(self.observer):
            if isinstance(self.engine, ThreadedEngine):
                yield self.engine.connect()
            else:
                async with self.engine.connect() as connection:
                    await connection.execution_options(isolation_level="AUTOCOMMIT")
                    yield cast("Executor", connection)

    async def run_direct(self, work: Callable[[Connection], T], *, writes: bool, several: bool = False) -> T:
        """Run one `PreparedStatement` that finds or writes one row by its key, or `several`, all or none; see
        `ThreadedEngine.run_direct`."""
        async with _answering(self.observer):
            if isinstance(self.engine, ThreadedEngine):
                return await self.engine.run_direct(work, writes=writes, several=several)
            if several:
                async with self.engine.begin() as connection:
                    return await connection.run_sync(work)
            async with self.engine.connect() as connection:
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                return await connection.run_sync(work)

    @asynccontextmanager
    async def plan_each(self) -> AsyncIterator[Executor]:
        """Run statements that are each planned for their values.

        PostgreSQL otherwise keeps one plan for all values from the sixth time on, which took fifty times as long for
        filters that match little.
        """
        if self.is_sqlite:
            async with self.statement() as statement:
                yield statement
        else:
            async with self.transaction() as transaction:
                await transaction.execute(text("set local plan_cache_mode = force_custom_plan"))
                yield transaction

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Executor]:
        """Run several statements, all or none.

        On SQLite the write lock is taken at the start, so that a read followed by a write cannot fail half-way because
        another process wrote in between.
        """
        async with _answering(self.observer):
            if isinstance(self.engine, ThreadedEngine):
                async with self.engine.begin(postern_transaction=True) as transaction:
                    yield transaction
            else:
                async with self.engine.begin() as connection:
                    yield cast("Executor", connection)

    async def together(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, all or nothing, in one hand-over: on SQLite no transaction waits for a thread while it holds
        the lock."""
        async with _answering(self.observer):
            if isinstance(self.engine, ThreadedEngine):
                return await self.engine.transact(work, postern_transaction=True)
            async with self.engine.begin() as connection:
                return await connection.run_sync(work)

    async def snapshot(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which only reads, on the store as it is at one time; other processes can write meanwhile."""
        async with _answering(_ignore_duration):
            if isinstance(self.engine, ThreadedEngine):
                engine = self.engine.sync_engine
                return await self.engine.run(lambda: _read_snapshot(engine.connect(), work))
            async with self.engine.connect() as connection:
                await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                await connection.execute(text("select 1"))  # the snapshot begins here
                return await connection.run_sync(work)

    async def fill(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a store that does not exist yet, all or nothing."""
        async with _answering(_ignore_duration), self._migrating(), self.transaction() as transaction:
            return await transaction.run_sync(work)

    async def find_table(self) -> str | None:
        """Return a table of the store, in alphabetical order; None where there is none. Raises Unavailable."""
        if self._is_missing():
            return None
        async with self.statement() as statement:
            names = await statement.run_sync(lambda connection: inspect(connection).get_table_names())
        return min(names, default=None)

    async def migrate(self) -> None:
        """Migrate the schema to the newest version. Safe when several processes start at once.

        Raises Unavailable when the store does not answer, Misconfigured when its schema has a different version.
        """
        if await self.has_table("alembic_version") and await self.is_current():
            return
        async with _answering(_ignore_duration), self._migrating(), self.transaction() as transaction:
            if not self.is_sqlite:
                await transaction.execute(text("select pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            # Alembic takes half a second to load, and of a gateway's processes only one migrates.
            from postern.store.schema_versions import upgrade

            await transaction.run_sync(upgrade)

    async def is_current(self) -> bool:
        """Return whether the schema has the version of this code. Raises Unavailable."""
        async with self.statement() as statement:
            try:
                revisions = (await statement.execute(text("select version_num from alembic_version"))).scalars().all()
            except ProgrammingError:  # there is no such table, on PostgreSQL
                return False
        return set(revisions) == migration_files.newest()

    async def has_table(self, name: str) -> bool:
        """Return whether the table exists. Creates no file where there is no store yet. Raises Unavailable."""
        if self._is_missing():
            return False
        async with self.statement() as statement:
            return await statement.run_sync(lambda connection: inspect(connection).has_table(name))

    def _is_missing(self) -> bool:
        path = self._url.database if self.is_sqlite else None
        return bool(path) and path != ":memory:" and not os.path.exists(str(path))

    async def close(self) -> None:
        await self.engine.dispose()

    @asynccontextmanager
    async def _migrating(self) -> AsyncIterator[None]:
        """Allow one process at a time on SQLite, by a lock beside the file; PostgreSQL locks by itself."""
        path = self._url.database if self.is_sqlite else None
        if not path or path == ":memory:":
            yield
            return
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            await asyncio.to_thread(fcntl.flock, handle, fcntl.LOCK_EX)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # before SQLite makes it with a wider mode
            yield
        finally:
            os.close(handle)


def _ignore_duration(_seconds: float) -> None:
    """Record nothing, where no metrics are kept."""


@asynccontextmanager
async def _answering(observer: Callable[[float], None]) -> AsyncIterator[None]:
    """Turn "the store does not answer" into Unavailable; other errors pass."""
    began = time.perf_counter()
    try:
        yield
        observer(time.perf_counter() - began)
    except (OperationalError, InterfaceError, PoolTimeout, OSError, *_SQLITE) as error:
        log.exception("the store does not answer")
        raise Unavailable(
            "the store does not answer; try again, and check the gateway's log if this continues"
        ) from error


def parse_url(url: str) -> URL:
    """Return the URL with the name of our driver. Raises Misconfigured."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise Misconfigured(
            "POSTERN_DATABASE_URL is not a database URL; use sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME",
            field="database_url",
        ) from None
    backend = parsed.get_backend_name()
    if backend not in _DRIVERS:
        raise Misconfigured(
            f"POSTERN_DATABASE_URL: {backend!r} is not supported; use sqlite or postgresql", field="database_url"
        )
    return parsed.set(drivername=_DRIVERS[backend])


def _postgres(url: URL, pool_size: int) -> AsyncEngine:
    return create_async_engine(
        url, pool_size=pool_size, max_overflow=pool_size, pool_pre_ping=False, hide_parameters=True
    )


def _sqlite(url: URL, pool_size: int) -> ThreadedEngine:
    engine = ThreadedEngine(url, pool_size)
    event.listen(engine.sync_engine, "connect", _configure_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def _read_snapshot(connection: Connection, work: Callable[[Connection], T]) -> T:
    with connection:
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("select 1 from sqlite_master limit 1").fetchall()  # the snapshot begins here
        try:
            return work(connection)
        finally:
            connection.exec_driver_sql("ROLLBACK")


def _configure_sqlite(connection: Any, _record: object) -> None:
    # The driver must not begin transactions by its own rules (it would not around DDL, for one).
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout={_BUSY_MILLISECONDS}",
        "journal_mode=WAL",
        "synchronous=NORMAL",
        "foreign_keys=ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    if connection.get_execution_options().get("postern_transaction"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
