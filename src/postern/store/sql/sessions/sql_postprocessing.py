"""Pending post-processing of sessions, and its results."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Column, Connection, Integer, delete, exists, insert, literal_column, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from postern.domain.report import COUNTED, Counts
from postern.domain.rules.violation import Violation
from postern.domain.runbook import ScheduleRun
from postern.domain.sessions.ledger import EntryKind
from postern.domain.sessions.session import SessionStatus
from postern.domain.sink import NewDelivery
from postern.store.database import Database
from postern.store.ports.notification_ports import ALL, TO_TELL, UNCOUNTED, CountKey, Pending, Settled
from postern.store.ports.server_ports import AuditEntry
from postern.store.schema.recording_tables import ledger
from postern.store.schema.retention_tables import KEEPING
from postern.store.schema.review_tables import review_news
from postern.store.schema.runbook_tables import runbook_schedule_runs
from postern.store.schema.server_tables import audit_log, untold_entries, violations
from postern.store.schema.session_tables import session_counts, session_maskings, sessions
from postern.store.sql.locking import lock_sessions
from postern.store.sql.notifications.sql_deliveries import add_deliveries
from postern.store.sql.rows import SESSION_COLUMNS, session_of
from postern.store.sql.sessions.pending import waiting

_CHUNK = 300  # identifiers in one statement
_TOLD = update(sessions).values(pending=literal_column(f"pending & {ALL & ~TO_TELL}", Integer))


class SqlPostprocessing:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def pending(self, bits: int, most: int, *, with_scripts: bool = False) -> list[Pending]:
        columns = [*SESSION_COLUMNS, *([sessions.c.script] if with_scripts else [])]
        async with self._database.statement() as connection:
            rows = (await connection.execute(waiting(columns, bits, most))).mappings().all()
        return [Pending(session_of(row), row["principal_id"], row["end_reason"], row["pending"]) for row in rows]

    async def settle(self, done: Sequence[Settled]) -> int:
        return await self._database.together(lambda connection: self._settle(connection, done))

    def _settle(self, connection: Connection, done: Sequence[Settled]) -> int:
        ours = _clear_pending(connection, done)
        claimed = [settled for settled in done if settled.pending.session.id in ours]
        totals: dict[CountKey, Counts] = {}
        for settled in claimed:
            for key, counts in settled.counts:
                totals[key] = totals.get(key, Counts()) + counts
        if totals:
            # In one order, so that two that write at once wait for each other and never in a circle.
            rows = [
                asdict(key) | asdict(counts) for key, counts in sorted(totals.items(), key=lambda item: repr(item[0]))
            ]
            self._add(connection, rows)
        maskings = [row for settled in claimed for row in _maskings(settled)]
        if maskings:
            connection.execute(
                delete(session_maskings).where(
                    session_maskings.c.session_id.in_({row["session_id"] for row in maskings})
                )
            )
            connection.execute(insert(session_maskings), maskings)
        add_deliveries(connection, [delivery for settled in claimed for delivery in settled.deliveries])
        return len(claimed)

    def _add(self, connection: Connection, rows: list[dict[str, Any]]) -> None:
        query: Any = (sqlite.insert if self._database.is_sqlite else postgresql.insert)(session_counts)
        key = [column.name for column in session_counts.primary_key]
        sums = {name: session_counts.c[name] + query.excluded[name] for name in COUNTED}
        connection.execute(query.on_conflict_do_update(index_elements=key, set_=sums), rows)

    async def find_unsent_entries(self, most: int) -> list[AuditEntry]:
        query = select(*audit_log.c).join(untold_entries, untold_entries.c.entry_id == audit_log.c.id)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query.order_by(audit_log.c.at, audit_log.c.id).limit(most))).mappings()
            return [AuditEntry(**row) for row in rows]

    async def queue_audit_events(self, entries: Sequence[AuditEntry], deliveries: Sequence[NewDelivery]) -> None:
        await self._queue_and_delete(untold_entries.c.entry_id, [entry.id for entry in entries], deliveries)

    async def queue_review_events(self, news: Sequence[UUID], deliveries: Sequence[NewDelivery]) -> None:
        await self._queue_and_delete(review_news.c.id, news, deliveries)

    async def violations(self, most: int) -> list[Violation]:
        order = (violations.c.at, violations.c.session_id, violations.c.number)
        async with self._database.statement() as connection:
            rows = (await connection.execute(select(*violations.c).order_by(*order).limit(most))).mappings()
            return [Violation(**row) for row in rows]

    async def queue_violation_events(self, violation_ids: Sequence[UUID], deliveries: Sequence[NewDelivery]) -> None:
        await self._queue_and_delete(violations.c.id, violation_ids, deliveries)

    async def failed_runs(self, most: int) -> list[ScheduleRun]:
        runs = runbook_schedule_runs.c
        query = select(*runs).where(runs.error != "").order_by(runs.at, runs.id).limit(most)
        async with self._database.statement() as connection:
            return [ScheduleRun(**row) for row in (await connection.execute(query)).mappings()]

    async def queue_schedule_events(self, run_ids: Sequence[UUID], deliveries: Sequence[NewDelivery]) -> None:
        await self._queue_and_delete(runbook_schedule_runs.c.id, run_ids, deliveries)

    async def _queue_and_delete(
        self, key: Column[UUID], ids: Sequence[UUID], deliveries: Sequence[NewDelivery]
    ) -> None:
        """Queue the events of rows, and delete the rows."""

        def work(connection: Connection) -> None:
            for at in range(0, len(ids), _CHUNK):
                connection.execute(delete(key.table).where(key.in_(ids[at : at + _CHUNK])))
            add_deliveries(connection, deliveries)

        await self._database.together(work)

    async def misses_sessions(self, org_id: UUID) -> bool:
        is_there = exists().where(sessions.c.id == ledger.c.session_id).correlate(ledger)
        gone = exists().where(ledger.c.org_id == org_id, KEEPING, ledger.c.kind == EntryKind.PURGED.value, ~is_there)
        async with self._database.statement() as connection:
            return bool((await connection.execute(select(gone))).scalar_one())

    async def forget_counts(self, org_id: UUID) -> None:
        async with self._database.transaction() as transaction:
            for table in (session_counts, session_maskings):
                await transaction.execute(delete(table).where(table.c.org_id == org_id))

    async def count_again(
        self, org_id: UUID, after: tuple[datetime, UUID] | None, most: int
    ) -> tuple[datetime, UUID] | None:
        place = tuple_(sessions.c.start_date, sessions.c.id)
        next_ = select(sessions.c.start_date, sessions.c.id).where(sessions.c.org_id == org_id)
        if after is not None:
            next_ = next_.where(place > tuple_(*after, types=[sessions.c.start_date.type, sessions.c.id.type]))
        async with self._database.statement() as connection:
            rows = (await connection.execute(next_.order_by(sessions.c.start_date, sessions.c.id).limit(most))).all()
        for at in range(0, len(rows), _CHUNK):
            ids = [row.id for row in rows[at : at + _CHUNK]]
            await self._database.together(functools.partial(_mark, ids=ids))
        return (rows[-1].start_date, rows[-1].id) if len(rows) == most else None


def _mark(connection: Connection, ids: Sequence[UUID]) -> None:
    lock_sessions(connection, ids)
    marked = literal_column(f"pending | {UNCOUNTED}", Integer)
    ended = (sessions.c.id.in_(ids), sessions.c.status == SessionStatus.DONE)
    connection.execute(update(sessions).where(*ended).values(pending=marked))


def _clear_pending(connection: Connection, done: Sequence[Settled]) -> set[UUID]:
    """Return those that are as they were read, and clear their pending work."""
    lock_sessions(connection, [settled.pending.session.id for settled in done])
    by_bits: dict[int, list[UUID]] = {}
    for settled in done:
        by_bits.setdefault(settled.pending.bits & TO_TELL, []).append(settled.pending.session.id)
    ours: set[UUID] = set()
    for bits, ids in sorted(by_bits.items()):
        for at in range(0, len(ids), _CHUNK):
            as_read = (sessions.c.id.in_(ids[at : at + _CHUNK]), sessions.c.pending.op("&")(TO_TELL) == bits)
            ours |= set(connection.execute(_TOLD.where(*as_read).returning(sessions.c.id)).scalars())
    return ours


def _maskings(settled: Settled) -> list[dict[str, Any]]:
    session = settled.pending.session
    return [
        {
            "session_id": session.id,
            "info_type": key.info_type,
            "org_id": session.org_id,
            "slot": key.slot,
            "masked": counts.masked,
        }
        for key, counts in settled.counts
        if key.info_type and key.level == 0
    ]
