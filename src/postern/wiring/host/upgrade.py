"""Facts for `postern upgrade check`, which change nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from postern.errors import Unavailable
from postern.settings import Settings
from postern.store import migration_files
from postern.store.database import Database
from postern.store.sql.sql_installation import BACKUP, VERSION, SqlInstallation


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """`schema` is the version of the store's schema; `version` that of the Postern that opened it last, if known."""

    schema: str
    version: str | None
    backup_at: datetime | None

    @property
    def is_current(self) -> bool:
        return {self.schema} == set(migration_files.newest())

    @property
    def is_known(self) -> bool:
        return self.schema in migration_files.list_known()


def read_store(settings: Settings) -> StoreFacts | None:
    """Return None if there is no store yet. Raises Unavailable."""
    return asyncio.run(_read(settings))


async def _read(settings: Settings) -> StoreFacts | None:
    database = Database(settings.url, pool_size=1)
    try:
        if not await database.has_table("alembic_version"):
            return None
        async with database.statement() as statement:
            schema = (await statement.execute(text("select version_num from alembic_version"))).scalar()
        if schema is None:
            raise Unavailable("the store has no schema: its creation was interrupted; start the gateway")
        if not await database.has_table("installation"):
            return StoreFacts(str(schema), None, None)
        facts = SqlInstallation(database)
        backup_at = await facts.get(BACKUP)
        return StoreFacts(
            str(schema), await facts.get(VERSION), datetime.fromisoformat(backup_at) if backup_at else None
        )
    finally:
        await database.close()
