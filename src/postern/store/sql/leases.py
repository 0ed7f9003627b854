"""Leases: who does what only one process may do."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import delete, update
from sqlalchemy.dialects import postgresql, sqlite

from postern.store.database import Database
from postern.store.schema import leases


class SqlLeases:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, name: str, holder: str, now: datetime, until: datetime) -> bool:
        free = (leases.c.holder == holder) | (leases.c.until <= now)
        values: dict[str, Any] = {"holder": holder, "until": until}
        async with self._database.statement() as connection:
            taken = await connection.execute(update(leases).where(leases.c.name == name, free).values(values))
            if taken.rowcount == 1:
                return True
            insert = sqlite.insert if self._database.is_sqlite else postgresql.insert
            made = insert(leases).values(name=name, **values).on_conflict_do_nothing()
            return (await connection.execute(made)).rowcount == 1

    async def release(self, name: str, holder: str) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(leases).where(leases.c.name == name, leases.c.holder == holder))
