"""The input of reports of reviews: a row for each review that was requested in those days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, select

from postern.domain.reviews.review import Choice, ReviewKind
from postern.domain.reviews.review_report import Reviewed
from postern.domain.reviews.review_status import ReviewStatus
from postern.store.database import Database
from postern.store.schema.review_tables import review_groups, review_voices, reviews

_UNDECIDED = (ReviewStatus.EXPIRED, ReviewStatus.WITHDRAWN)


class SqlReviewReports:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_reviewed(self, org_id: UUID, start: datetime, end: datetime, most: int) -> list[Reviewed]:
        async with self._database.statement() as statement:
            return await statement.run_sync(lambda connection: _load_reviews(connection, org_id, start, end, most))


def _load_reviews(connection: Connection, org_id: UUID, start: datetime, end: datetime, most: int) -> list[Reviewed]:
    table = reviews.c
    conditions = (table.org_id == org_id, table.created_at >= start, table.created_at < end)
    columns = (table.id, table.kind, table.status, table.connection, table.created_at, table.decided_at, table.ended_at)
    rows: Sequence[Any] = connection.execute(select(*columns).where(*conditions).limit(most)).all()
    if len(rows) == most:
        return [_of(row, (), []) for row in rows]  # the report is rejected as too large
    groups: dict[UUID, list[str]] = {}
    named = select(review_groups).join(reviews, table.id == review_groups.c.review_id).where(*conditions)
    for row in connection.execute(named.order_by(review_groups.c.name)):
        groups.setdefault(row.review_id, []).append(row.name)
    voices: dict[UUID, list[Any]] = {}
    approvals = (review_voices.c.choice == Choice.APPROVED, review_voices.c.forced | review_voices.c.own)
    marked = select(review_voices.c.review_id, review_voices.c.forced, review_voices.c.own)
    marked = marked.join(reviews, table.id == review_voices.c.review_id).where(*conditions, *approvals)
    for row in connection.execute(marked):
        voices.setdefault(row.review_id, []).append(row)
    return [_of(row, tuple(groups.get(row.id, ())), voices.get(row.id, [])) for row in rows]


def _of(row: Any, groups: tuple[str, ...], voices: Sequence[Any]) -> Reviewed:
    # A review that ended while it was pending has the same time in both columns, without a decision.
    ended_undecided = row.status in _UNDECIDED and row.decided_at == row.ended_at
    return Reviewed(
        kind=ReviewKind(row.kind),
        status=ReviewStatus(row.status),
        connection=row.connection,
        groups=groups,
        created_at=row.created_at,
        decided_at=None if ended_undecided else row.decided_at,
        forced=any(voice.forced for voice in voices),
        own=any(voice.own for voice in voices),
    )
