"""Backlogs of post-processing, over all machines: a few look-ups by index, and bounded counts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Executable, func, select

from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.sink import DeliveryState, SinkStatus
from postern.store.database import Database
from postern.store.ports.notification_ports import TO_TELL
from postern.store.schema.review_tables import reviews
from postern.store.schema.server_tables import deliveries, sinks
from postern.store.schema.session_tables import sessions
from postern.store.sql.sessions.pending import waiting
from postern.store.sql.sql_installation import BACKUP, SqlInstallation

MOST = 10_000  # that are counted of anything


class SqlBacklog:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def look(self, now: datetime) -> dict[str, float]:
        """Return the backlogs by names of metrics (metrics.catalogue). Raises Unavailable."""
        ended = (sessions.c.closed_entry.is_(None), sessions.c.end_date.is_not(None))
        oldest = select(sessions.c.end_date).where(*ended).order_by(sessions.c.end_date, sessions.c.id).limit(1)
        failing = (sinks.c.status == SinkStatus.ACTIVE, sinks.c.failures > 0)
        longest = select(func.count(), func.min(sinks.c.failing_since)).where(*failing)
        pending = waiting([sessions.c.id], TO_TELL, MOST)
        undelivered = select(deliveries.c.number).where(deliveries.c.state == DeliveryState.WAITING).limit(MOST)
        undecided = (
            select(reviews.c.id)
            .where(reviews.c.ended_at.is_(None), reviews.c.status == ReviewStatus.PENDING)
            .limit(MOST)
        )
        ((since,),) = await self._rows(oldest) or [(None,)]
        ((count, failing_since),) = await self._rows(longest)
        ((untold,),) = await self._rows(select(func.count()).select_from(pending.subquery()))
        ((events,),) = await self._rows(select(func.count()).select_from(undelivered.subquery()))
        ((number,),) = await self._rows(select(func.count()).select_from(undecided.subquery()))
        backup_at = await SqlInstallation(self._database).get(BACKUP)
        return {
            "postern_last_backup_timestamp_seconds": _seconds(backup_at),
            "postern_ledger_lag_seconds": _age(since, now),
            "postern_sinks_failing": float(count),
            "postern_sink_lag_seconds": _age(failing_since, now),
            "postern_follow_up_sessions": float(untold),
            "postern_reviews_waiting": float(number),
            "postern_sink_events_waiting": float(events),
        }

    async def _rows(self, query: Executable) -> list[tuple[Any, ...]]:
        async with self._database.statement() as connection:
            return [tuple(row) for row in (await connection.execute(query)).all()]


def _seconds(time: str | None) -> float:
    return datetime.fromisoformat(time).timestamp() if time else 0.0


def _age(moment: datetime | None, now: datetime) -> float:
    return 0.0 if moment is None else max(0.0, (now - moment).total_seconds())
