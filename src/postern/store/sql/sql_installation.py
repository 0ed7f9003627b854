"""Facts about the installation itself, one row each."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import insert, select, update

from postern.store.database import Database
from postern.store.schema.server_tables import installation

VERSION = "version"  # of Postern, that last opened the store
BACKUP = "backup"  # time of the last one


class SqlInstallation:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, name: str) -> str | None:
        async with self._database.statement() as connection:
            row = (await connection.execute(select(installation.c.value).where(installation.c.name == name))).first()
        return None if row is None else str(row.value)

    async def put(self, name: str, value: str, at: datetime) -> None:
        values = {"value": value, "updated_at": at}
        async with self._database.transaction() as transaction:
            changed = await transaction.execute(update(installation).where(installation.c.name == name).values(values))
            if changed.rowcount == 0:
                await transaction.execute(insert(installation).values(name=name, **values))
