"""Leases: one row for each piece of work that one process at a time does."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.store.database import Database
from postern.store.schema.recording_tables import leases


class SqlLeases:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, name: str, holder: str, at: datetime, lasts: timedelta) -> bool:
        """Take the lease. The condition makes the UPDATE the lock; of several INSERTs the key admits one."""
        free = or_(leases.c.holder == holder, leases.c.until <= at)
        values = {"holder": holder, "until": at + lasts}
        async with self._database.statement() as connection:
            result = await connection.execute(update(leases).where(leases.c.name == name, free).values(values))
            if result.rowcount == 1:
                return True
            try:
                await connection.execute(insert(leases).values(name=name, **values))
            except IntegrityError:
                return False
        return True

    async def find(self, name: str) -> tuple[str, datetime] | None:
        query = select(leases.c.holder, leases.c.until).where(leases.c.name == name)
        async with self._database.statement() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else (row.holder, row.until)

    async def release(self, name: str, holder: str) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(leases).where(leases.c.name == name, leases.c.holder == holder))
