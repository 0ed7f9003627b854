"""How an engine carries out the statements of a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import Connection, event, text

from postern.store.database import Database


async def statements_heard(
    database: Database, table: str, ask: Callable[[], Awaitable[object]]
) -> list[tuple[str, Any]]:
    """Return the statements about `table` that `ask` runs, with their parameters; not those that only look whether a
    row exists."""
    heard: list[tuple[str, Any]] = []

    def hear(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if table in statement and "EXISTS" not in statement.split("FROM")[0]:
            heard.append((statement, parameters))

    engine = database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", hear)
    try:
        await ask()
    finally:
        event.remove(engine, "before_cursor_execute", hear)
    return heard


async def explained(database: Database, statement: tuple[str, Any]) -> list[str]:
    """Return the plan's lines. PostgreSQL must not think that reading the whole of a small table is cheaper."""

    def run(connection: Connection) -> list[str]:
        if database.is_sqlite:
            rows = connection.exec_driver_sql(f"explain query plan {statement[0]}", statement[1])
            return [str(row[-1]) for row in rows]
        for setting in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
            connection.execute(text(f"set local {setting} = off"))
        rows = connection.exec_driver_sql(f"explain {statement[0]}", statement[1])
        return [str(row[0]) for row in rows]

    return await database.together(run)
