"""Retention settings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, delete, exists, func, insert, select

from postern.domain.sessions.retention import Preview, Retention, RetentionSetting
from postern.store.database import Database
from postern.store.schema.recording_tables import segments
from postern.store.schema.retention_tables import retentions
from postern.store.schema.session_tables import sessions

_ALL = select(*retentions.c).order_by(
    retentions.c.org_id, retentions.c.connection != "", retentions.c.connection, retentions.c.connection_id
)


class SqlRetentions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[RetentionSetting]:
        async with self._database.statement() as connection:
            return [_setting_of(row) for row in (await connection.execute(_ALL)).all()]

    async def of(self, org_id: UUID) -> list[RetentionSetting]:
        async with self._database.statement() as connection:
            rows = (await connection.execute(_ALL.where(retentions.c.org_id == org_id))).all()
        return [_setting_of(row) for row in rows]

    async def set(self, setting: RetentionSetting) -> None:
        same = (
            retentions.c.org_id == setting.org_id,
            retentions.c.connection_id == setting.connection_id,
        )
        retention = setting.wanted or Retention()
        values = {
            "org_id": setting.org_id,
            "connection_id": setting.connection_id,
            "connection": setting.connection,
            "is_own": setting.wanted is not None,
            "recording_days": retention.recording_days,
            "session_days": retention.session_days,
            "recording_days_before": setting.before.recording_days,
            "session_days_before": setting.before.session_days,
            "effective_at": setting.effective_at,
        }
        async with self._database.transaction() as transaction:
            await transaction.execute(delete(retentions).where(*same))
            await transaction.execute(insert(retentions).values(values))

    async def preview(
        self,
        org_id: UUID,
        retention: Retention,
        at: datetime,
        *,
        connection_id: UUID | None = None,
        without: Sequence[UUID] = (),
    ) -> Preview:
        if retention.recording_days is None:  # and so sessions, too
            return Preview(0, 0, 0, 0, None)
        scope = [sessions.c.org_id == org_id, sessions.c.closed_entry.is_not(None)]
        if connection_id is not None:
            scope.append(sessions.c.connection_id == connection_id)
        elif without:
            scope.append(sessions.c.connection_id.not_in(without))
        recording = sessions.c.end_date < at - timedelta(days=retention.recording_days)
        free = sessions.c.holds == 0
        recorded = sessions.c.recording_purged_at.is_(None)
        stored = exists().where(segments.c.session_id == sessions.c.id).correlate(sessions)
        joined = segments.join(sessions, segments.c.session_id == sessions.c.id)
        size = select(func.sum(segments.c.stored_size)).select_from(joined).where(*scope, recording, free, recorded)
        count, oldest, held_count = 0, None, 0
        async with self._database.statement() as connection:
            bytes_ = (await connection.execute(size)).scalar_one() or 0
            recordings = await connection.execute(_count(*scope, recording, free, recorded, stored))
            row = recordings.one()
            if retention.session_days is not None:
                whole = sessions.c.end_date < at - timedelta(days=retention.session_days)
                rows = (await connection.execute(_count(*scope, whole, free))).one()
                count, oldest = rows.many, rows.oldest
            held_count = (await connection.execute(_count(*scope, recording, sessions.c.holds > 0))).one().many
        moments = [at for at in (oldest, row.oldest) if at is not None]
        return Preview(row.many, count, held_count, int(bytes_), min(moments, default=None))


def _count(*conditions: ColumnElement[bool]) -> Any:
    return select(func.count().label("many"), func.min(sessions.c.start_date).label("oldest")).where(*conditions)


def _setting_of(row: Row[Any]) -> RetentionSetting:
    return RetentionSetting(
        row.org_id,
        row.connection_id,
        row.connection,
        Retention(row.recording_days, row.session_days) if row.is_own else None,
        Retention(row.recording_days_before, row.session_days_before),
        row.effective_at,
    )
