"""Preferences of users: one JSON object each."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert as upsert  # SQLite has the same ON CONFLICT, and compiles it alike

from postern.domain.identity.preferences import NO_PREFERENCES, Preferences
from postern.store.database import Database
from postern.store.schema.identity_tables import user_preferences


class SqlPreferences:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, user_id: UUID) -> Preferences:
        query = select(user_preferences.c.content, user_preferences.c.version)
        async with self._database.statement() as statement:
            row = (await statement.execute(query.where(user_preferences.c.user_id == user_id))).one_or_none()
        return NO_PREFERENCES if row is None else Preferences(row.content, row.version)

    async def put(self, user_id: UUID, content: str, at: datetime, version: int | None) -> Preferences | None:
        """One statement: of two writes of the same version, one changes no row."""
        new = upsert(user_preferences).values(user_id=user_id, content=content, updated_at=at, version=1)
        changes = {"content": content, "updated_at": at, "version": user_preferences.c.version + 1}
        is_expected = None if version is None else user_preferences.c.version == version
        write = new.on_conflict_do_update(index_elements=["user_id"], set_=changes, where=is_expected)
        async with self._database.statement() as statement:
            row = (await statement.execute(write.returning(user_preferences.c.version))).one_or_none()
        return None if row is None else Preferences(content, row.version)
