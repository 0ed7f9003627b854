"""Reports: sums over counts, never over sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, String, func, literal, select

from postern.domain.lists import Listed, Page
from postern.domain.report import COUNTED, SLOT, Counts, GroupBy, Interval, MaskedCount, ReportFilter, ReportPeriod
from postern.store.database import Database
from postern.store.ports.notification_ports import BY_CONNECTION, BY_USER
from postern.store.schema.session_tables import session_counts, session_maskings, sessions

_GROUPS: dict[GroupBy, ColumnElement[str]] = {
    GroupBy.USER: session_counts.c.user,
    GroupBy.CONNECTION: session_counts.c.connection,
    GroupBy.TYPE: session_counts.c.type,
    GroupBy.SUBTYPE: session_counts.c.subtype,
    GroupBy.VERB: session_counts.c.verb,
}
_SECONDS = {Interval.HOUR: 3600, Interval.DAY: 86_400}
# PostgreSQL adds up 64-bit numbers to decimals, which are no int in Python.
_SUMS = [func.coalesce(func.sum(session_counts.c[name]), 0).label(name) for name in COUNTED]


class SqlReports:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def count_masked(
        self, org_id: UUID, criteria: ReportFilter, span: ReportPeriod, group: GroupBy
    ) -> tuple[list[MaskedCount], Counts]:
        resource, types = _GROUPS[group], session_counts.c.info_type
        lines = (
            select(resource, types, *_SUMS).where(*_conditions(org_id, criteria, span, group)).group_by(resource, types)
        )
        async with self._database.statement() as connection:
            rows: Sequence[Any] = (await connection.execute(lines)).all()
        total = sum((_counts(row[2:]) for row in rows if row[1] == ""), Counts())
        return [MaskedCount(row[0], row[1], _counts(row[2:]).masked) for row in rows if row[1]], total

    async def list_masked_sessions(
        self, org_id: UUID, criteria: ReportFilter, span: ReportPeriod, page: Page
    ) -> tuple[Listed[MaskedCount], int]:
        table = session_maskings.c
        conditions, needs_sessions = _by_session(org_id, criteria, span)
        source: Any = session_maskings
        if needs_sessions:
            source = session_maskings.join(sessions, sessions.c.id == table.session_id)
        counted = select(func.count(), func.coalesce(func.sum(table.masked), 0)).select_from(source).where(*conditions)
        lines = select(table.session_id, table.info_type, table.masked).select_from(source).where(*conditions)
        lines = lines.order_by(table.masked.desc(), table.session_id, table.info_type)
        async with self._database.statement() as connection:
            rows: Sequence[Any] = (await connection.execute(lines.limit(page.limit).offset(page.offset))).all()
            sums: Sequence[Any] = (await connection.execute(counted)).one()
        return Listed([MaskedCount(str(row[0]), row[1], row[2]) for row in rows], sums[0]), int(sums[1])

    async def activity(
        self,
        org_id: UUID,
        criteria: ReportFilter,
        span: ReportPeriod,
        interval: Interval,
        offset: int,
        group: GroupBy | None,
        most: int,
    ) -> list[tuple[int, str | None, Counts]]:
        local = session_counts.c.slot * SLOT + offset
        number = (local // _SECONDS[interval]).label("number")
        grouped = _GROUPS[group] if group is not None else literal("", String)
        lines = select(number, grouped.label("grouped"), *_SUMS)
        lines = lines.where(*_conditions(org_id, criteria, span, group), session_counts.c.info_type == "")
        lines = lines.group_by("number", *([] if group is None else [grouped])).limit(most)
        async with self._database.statement() as connection:
            rows: Sequence[Any] = (await connection.execute(lines)).all()
        return [(int(row[0]), None if group is None else row[1], _counts(row[2:])) for row in rows]


def _counts(row: Sequence[Any]) -> Counts:
    return Counts(*map(int, row))


def _conditions(
    org_id: UUID, criteria: ReportFilter, span: ReportPeriod, group: GroupBy | None
) -> list[ColumnElement[bool]]:
    """Return the conditions at the coarsest sufficient level."""
    table = session_counts.c
    level = BY_CONNECTION if criteria.connection is not None or group is GroupBy.CONNECTION else 0
    level |= BY_USER if criteria.user is not None or group is GroupBy.USER else 0
    equal = {table.user: criteria.user, table.connection: criteria.connection, table.type: criteria.type}
    equal[table.verb] = criteria.verb
    conditions = [table.org_id == org_id, table.level == level, table.slot >= span.first, table.slot < span.last]
    return conditions + [column == value for column, value in equal.items() if value is not None]


def _by_session(org_id: UUID, criteria: ReportFilter, span: ReportPeriod) -> tuple[list[ColumnElement[bool]], bool]:
    """Return the conditions, and whether they need a session's row."""
    table = session_maskings.c
    conditions: list[ColumnElement[bool]] = [table.org_id == org_id, table.slot >= span.first, table.slot < span.last]
    if criteria.session_id is not None:
        conditions.append(table.session_id == criteria.session_id)
    equal = {sessions.c.user: criteria.user, sessions.c.connection: criteria.connection, sessions.c.type: criteria.type}
    equal[sessions.c.verb] = criteria.verb
    more = [column == value for column, value in equal.items() if value is not None]
    return conditions + more, bool(more)
