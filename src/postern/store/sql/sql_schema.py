"""The check that the tables are those of this version."""

from __future__ import annotations

from postern.store.database import Database


class SqlSchema:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def is_current(self) -> bool:
        return await self._database.is_current()
