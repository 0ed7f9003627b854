"""SQLite for asyncio: the synchronous driver, one hop to a thread for each statement.

A driver that is asynchronous by itself hops for each call of the database API (cursor, execute, fetch,
close), which costs several times the statement. Here connect, execute, fetch and release are one hop; the
rows are read in full, and what the callers get is a result like any other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar, cast

from sqlalchemy import URL, Connection, CursorResult, Engine, Executable, create_engine

T = TypeVar("T")


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
            json_deserializer=_from_json,
        )
        self._threads = threads
        self._start()

    def _start(self) -> None:
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="store")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-transaction")
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

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
