"""SQLite for asyncio: the synchronous driver, one hop to a thread for each statement.

A driver that is asynchronous by itself hops for each call of the database API (cursor, execute, fetch,
close), which costs several times the statement. Here connect, execute, fetch and release are one hop; the
rows are read in full, and what the callers get is a result like any other.

Statements of every login find or write one row by its key. The hop would cost several times as much, so they run in
the event loop's own thread, by a connection that waits for nothing (decision 0119).
"""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from sqlalchemy import URL, Connection, CursorResult, Engine, Executable, create_engine

T = TypeVar("T")

SLOW = 0.005  # seconds; a direct statement that takes longer, and read from the disk, has waited for it
SHARE = 0.02  # of the time, at most, is spent in slow direct statements
CHECKPOINT_AFTER = 64  # direct writes; each adds about a dozen pages to the log, to which SQLite gives 1,000
_KNOWS_READS = hasattr(resource, "RUSAGE_THREAD")
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Executor(Protocol):
    """A connection of either engine, as stores use it."""

    async def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]: ...

    async def run_sync(self, work: Callable[[Connection], T]) -> T: ...


class ThreadedEngine:
    """`sync_engine` on a few threads of its own.

    Transactions of several hops have a thread to themselves and go one at a time: statements that wait for SQLite's
    lock hold their threads, and the one transaction that has the lock must not need any of these to go on.
    """

    def __init__(self, url: URL, threads: int) -> None:
        self.sync_engine: Engine = create_engine(
            url,
            pool_size=threads + 1,
            max_overflow=0,
            hide_parameters=True,
            connect_args={"check_same_thread": False},
            json_serializer=_to_json,
            json_deserializer=_from_json,
            pool_use_lifo=True,  # the connection that was used last has most of the file in its cache
        )
        self._threads = threads
        self._is_in_memory = url.database in (None, "", ":memory:")
        self._direct: Connection | None = None
        self._direct_writes = 0
        self._direct_after = 0.0  # on the monotonic clock
        self._start()

    def _start(self) -> None:
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="store")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-transaction")
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def run_direct(self, work: Callable[[Connection], T], *, writes: bool, several: bool = False) -> T:
        """Run one `PreparedStatement` of one row, in this thread if nothing has to be waited for; or `several`, all or
        none.

        If another process writes at the moment, or the disk was slow, it runs in a thread as any other statement does.
        """
        if not self._is_in_memory and time.monotonic() >= self._direct_after:
            try:
                return self._run_here(partial(_transact, work) if several else work, writes)
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _LOCKED:
                    raise
        if several:
            return await self.transact(work, postern_transaction=True)
        return await self.connect().run_sync(work)

    def _run_here(self, work: Callable[[Connection], T], writes: bool) -> T:
        if self._direct is None:
            self._direct = _connect_directly(self.sync_engine)
        began, reads = time.monotonic(), _count_disk_reads()
        try:
            return work(self._direct)
        finally:
            ended = time.monotonic()
            if ended - began > SLOW and _count_disk_reads() != reads:
                self._direct_after = ended + (ended - began) / SHARE
            if writes:
                self._count_direct_write()

    def _count_direct_write(self) -> None:
        """Have a thread do now and then what SQLite does in the commit of other connections, and waits for the disk."""
        self._direct_writes += 1
        if self._direct_writes >= CHECKPOINT_AFTER:
            self._direct_writes = 0
            self._pool.submit(_checkpoint, self.sync_engine)

    def connect(self) -> Executor:
        """Return a connection for single statements, each committed by itself."""
        return _Statements(self)

    @asynccontextmanager
    async def begin(self, **options: Any) -> AsyncIterator[Executor]:
        """Begin a transaction; `options` are execution options of its connection."""
        async with self._turn:
            connection = await self.write(lambda: _begin_transaction(self.sync_engine.connect(), options))
            try:
                yield _Transaction(self, connection)
            except BaseException:
                await asyncio.shield(self.write(connection.close))  # which rolls back
                raise
            await asyncio.shield(self.write(lambda: _commit_transaction(connection)))

    async def write(self, work: Callable[[], T]) -> T:
        """Run a step of the current transaction."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    async def transact(self, work: Callable[[Connection], T], **options: Any) -> T:
        """Run a whole transaction in one hop."""

        def in_thread() -> T:
            with self.sync_engine.connect() as connection, connection.execution_options(**options).begin():
                return work(connection)

        return await self.run(in_thread)

    async def dispose(self) -> None:
        """Close all connections and end the threads. What is used after that opens new ones, on any event loop."""
        if self._direct is not None:
            self._direct.close()
            self._direct = None
        await self.run(self.sync_engine.dispose)
        pool, writer = self._pool, self._writer
        self._start()
        pool.shutdown(wait=False)
        writer.shutdown(wait=False)


class _Statements:
    def __init__(self, engine: ThreadedEngine) -> None:
        self._engine = engine

    async def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        return await self.run_sync(lambda connection: _whole(connection.execute(statement, parameters)))

    async def run_sync(self, work: Callable[[Connection], T]) -> T:
        def in_thread() -> T:
            with self._engine.sync_engine.connect() as connection:
                return work(connection)

        return await self._engine.run(in_thread)


class _Transaction:
    def __init__(self, engine: ThreadedEngine, connection: Connection) -> None:
        self._engine = engine
        self._connection = connection

    async def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        return await self.run_sync(lambda connection: _whole(connection.execute(statement, parameters)))

    async def run_sync(self, work: Callable[[Connection], T]) -> T:
        return await self._engine.write(lambda: work(self._connection))


def _transact(work: Callable[[Connection], T], connection: Connection) -> T:
    driver = connection.connection
    driver.cursor().execute("BEGIN IMMEDIATE")
    try:
        result = work(connection)
        driver.commit()
    except BaseException:
        driver.rollback()
        raise
    return result


def _count_disk_reads() -> float:
    """Return how much this thread has read from disks, not from the system's cache; a pause on a busy machine is no
    read. Where that is unknown, every pause counts."""
    if not _KNOWS_READS:
        return time.monotonic()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock


def _connect_directly(engine: Engine) -> Connection:
    """Return a connection outside of the pool, which waits for no lock and never for the disk to be written."""
    connection = engine.connect()
    connection.detach()
    cursor = connection.connection.cursor()
    for pragma in ("busy_timeout=0", "wal_autocheckpoint=0"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
    return connection


def _checkpoint(engine: Engine) -> None:
    with suppress(sqlite3.OperationalError), engine.connect() as connection:  # another one is at it: the next will do
        cursor = connection.connection.cursor()
        cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
        cursor.close()


def _to_json(value: Any) -> str:
    # A new session has five maps, of which most are empty.
    return "{}" if value == {} else json.dumps(value)


def _from_json(text: str) -> Any:
    # Most JSON columns are lists, and most of these are empty: a page of 100 connections has five hundred.
    return [] if text == "[]" else json.loads(text)


def _whole(result: CursorResult[Any]) -> CursorResult[Any]:
    """Return the same result without its cursor: usable in another thread, after its connection has gone."""
    return cast("CursorResult[Any]", result.freeze()()) if result.returns_rows else result


def _begin_transaction(connection: Connection, options: dict[str, Any]) -> Connection:
    try:
        connection = connection.execution_options(**options)
        connection.begin()
    except BaseException:
        connection.close()
        raise
    return connection


def _commit_transaction(connection: Connection) -> None:
    try:
        connection.commit()
    finally:
        connection.close()
