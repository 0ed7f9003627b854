"""Purges: begun with their entries of the ledger and the audit log, and deleted when they are done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    RowMapping,
    Select,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import IntegrityError

from postern.domain.lists import Page, Position, Stretch
from postern.domain.reviews.review import ReviewKind
from postern.domain.sessions.ledger import EntryKind, LedgerEntry
from postern.domain.sessions.retention import Purge, PurgeScope, RetainedSession
from postern.domain.sessions.segment import Segment
from postern.domain.sessions.session import SessionStatus
from postern.store.database import Database
from postern.store.ports.notification_ports import UNREAD
from postern.store.ports.retention_ports import Doomed
from postern.store.ports.server_ports import AuditEntry
from postern.store.schema.recording_tables import ledger, segments
from postern.store.schema.retention_tables import KEEPING, purge_rounds, purges
from postern.store.schema.review_tables import reviews
from postern.store.schema.runbook_tables import session_hooks
from postern.store.schema.session_tables import sessions
from postern.store.sql.locking import lock_sessions
from postern.store.sql.long_lists import LongList, by_time, find_page
from postern.store.sql.recordings.sql_ledger import LedgerTaken, append
from postern.store.sql.sql_audit import add_entry

_FIELDS = [column.name for column in purges.c]
_ROUND = "purge"
_PRINTED = session_hooks.c.output != b""  # what hooks printed is kept as long as the recording is


class SqlPurges:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_closed(
        self, org_id: UUID, before: datetime, after: Position | None, most: int
    ) -> list[RetainedSession]:
        query = _select_ended().where(sessions.c.org_id == org_id, sessions.c.start_date < before)
        if after is not None:
            place = tuple_(sessions.c.start_date, sessions.c.id)
            types = [sessions.c.start_date.type, sessions.c.id.type]
            query = query.where(place > tuple_(after.at, after.id, types=types))
        async with self._database.statement() as connection:
            rows = await connection.execute(query.order_by(sessions.c.start_date, sessions.c.id).limit(most))
            return [_retained_session(row) for row in rows.all()]

    async def find_retained(self, org_id: UUID, session_id: UUID) -> RetainedSession | None:
        query = _select_ended().where(sessions.c.org_id == org_id, sessions.c.id == session_id)
        async with self._database.statement() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else _retained_session(row)

    async def purgeable(self, session_ids: Sequence[UUID]) -> set[UUID]:
        async with self._database.statement() as connection:
            return set((await connection.execute(_free(session_ids))).scalars())

    async def segments(self, session_ids: Sequence[UUID]) -> dict[UUID, int]:
        query = select(segments.c.session_id, func.count().label("count")).group_by(segments.c.session_id)
        async with self._database.statement() as connection:
            rows = await connection.execute(query.where(segments.c.session_id.in_(session_ids)))
            return {row.session_id: row._mapping["count"] for row in rows.all()}

    async def begin(self, purges: Sequence[Purge], entries: Sequence[LedgerEntry], audit: AuditEntry | None) -> bool:
        try:
            await self._database.together(lambda connection: _begin(connection, purges, entries, audit))
        except (IntegrityError, LedgerTaken, _Kept):
            return False
        return True

    async def find_begun(self, at: datetime, most: int) -> list[Doomed]:
        requested_query = (
            select(*purges.c).where(purges.c.next_at <= at).order_by(purges.c.next_at, purges.c.session_id)
        )
        async with self._database.statement() as connection:
            rows = (await connection.execute(requested_query.limit(most))).all()
        ids = [row.session_id for row in rows]
        segments_by_session: dict[UUID, list[Segment]] = {key: [] for key in ids}
        if ids:
            query = select(*segments.c).where(segments.c.session_id.in_(ids))
            ordered = query.order_by(segments.c.session_id, segments.c.number)
            async with self._database.statement() as connection:
                for row in (await connection.execute(ordered)).mappings():
                    segments_by_session[row["session_id"]].append(Segment(**row))
        return [Doomed(_purge_of(row._mapping), segments_by_session[row.session_id]) for row in rows]

    async def find(self, org_id: UUID, page: Page) -> Stretch[Purge]:
        keyset = by_time(purges.c.begun_at, purges.c.session_id, is_descending=False)
        listed = LongList(list(purges.c), keyset, [purges.c.org_id == org_id])
        async with self._database.plan_each() as statement:
            return await statement.run_sync(lambda connection: find_page(connection, listed, page, _purge_of))

    async def forget(self, session_id: UUID, numbers: Sequence[int]) -> None:
        gone = (segments.c.session_id == session_id, segments.c.number.in_(numbers))
        async with self._database.statement() as connection:
            await connection.execute(delete(segments).where(*gone))

    async def mark_failed(self, session_id: UUID, attempts: int, error: str, next_at: datetime) -> None:
        values = {"attempts": attempts, "error": error, "next_at": next_at}
        async with self._database.statement() as connection:
            await connection.execute(update(purges).where(purges.c.session_id == session_id).values(values))

    async def mark_done(self, purges: Sequence[Purge]) -> None:
        await self._database.together(lambda connection: _delete_purged(connection, purges))

    async def tick(self, at: datetime, longest: float, quiet: float) -> datetime:
        condition = purge_rounds.c.name == _ROUND

        def work(connection: Connection) -> datetime:
            row = connection.execute(select(*purge_rounds.c).where(condition)).one_or_none()
            # Without a round before, only a store without sessions is known to be new.
            jumped = _has_sessions(connection) if row is None else abs((at - row.at).total_seconds()) > longest
            time: datetime = at if row is None else row.quiet_until
            until = at + timedelta(seconds=quiet) if jumped else time
            if row is None:
                connection.execute(insert(purge_rounds).values(name=_ROUND, at=at, quiet_until=until))
            else:
                connection.execute(update(purge_rounds).where(condition).values(at=at, quiet_until=until))
            return until

        return await self._database.together(work)


def _has_sessions(connection: Connection) -> bool:
    return connection.execute(select(sessions.c.id).limit(1)).first() is not None


class _Kept(Exception):
    """One of them is held, or no longer has what is to be purged."""


def _begin(
    connection: Connection, begun: Sequence[Purge], entries: Sequence[LedgerEntry], audit: AuditEntry | None
) -> None:
    """Append the entries first: setting a hold writes the ledger as well, so one of the two waits and sees the
    other."""
    append(connection, entries)
    ids = [purge.session_id for purge in begun]
    lock_sessions(connection, ids)
    if len(connection.execute(_free(ids)).all()) != len(ids):
        raise _Kept
    unpurged = (sessions.c.id.in_(ids), sessions.c.recording_purged_at.is_(None))
    marked = connection.execute(update(sessions).where(*unpurged).values(recording_purged_at=begun[0].begun_at))
    if marked.rowcount < sum(purge.what is PurgeScope.RECORDING for purge in begun):
        raise _Kept
    connection.execute(insert(purges), [{name: getattr(purge, name) for name in _FIELDS} for purge in begun])
    if audit is not None:
        add_entry(connection, audit)


def _delete_purged(connection: Connection, purged: Sequence[Purge]) -> None:
    """Delete the session with all rows that refer to it."""
    ids = [purge.session_id for purge in purged]
    connection.execute(delete(segments).where(segments.c.session_id.in_(ids)))
    quoting = update(reviews).where(reviews.c.session_id.in_(ids), reviews.c.kind == ReviewKind.STATEMENT)
    connection.execute(quoting.values(input="", estimate=None))  # they quote the recording
    printed = update(session_hooks).where(session_hooks.c.session_id.in_(ids), _PRINTED)
    connection.execute(printed.values(output=b""))
    whole = [purge.session_id for purge in purged if purge.what is PurgeScope.SESSION]
    lock_sessions(connection, whole)
    connection.execute(delete(sessions).where(sessions.c.id.in_(whole)))
    connection.execute(delete(purges).where(purges.c.session_id.in_(ids)))


def _free(ids: Sequence[UUID]) -> Select[Any]:
    """Return the sessions without holds, by the ledger as well: deleting their rows manually frees nothing."""
    return select(sessions.c.id).where(
        sessions.c.id.in_(ids),
        sessions.c.status == SessionStatus.DONE,
        sessions.c.closed_entry.is_not(None),
        sessions.c.pending.in_((0, UNREAD)),  # nothing is to be counted or told of it any more
        sessions.c.holds == 0,
        ~exists().where(purges.c.session_id == sessions.c.id),
        _entries(EntryKind.HELD) <= _entries(EntryKind.RELEASED),
    )


def _entries(kind: EntryKind) -> ColumnElement[int]:
    condition = and_(ledger.c.session_id == sessions.c.id, KEEPING, ledger.c.kind == kind.value)
    return select(func.count()).select_from(ledger).where(condition).correlate(sessions).scalar_subquery()


def _select_ended() -> Select[Any]:
    """Select the sessions. The ledger says since when: a clock may have been wrong when a session ended, and the
    ledger's times never decrease."""
    entry = and_(ledger.c.org_id == sessions.c.org_id, ledger.c.number == sessions.c.closed_entry)
    has_segments = exists().where(segments.c.session_id == sessions.c.id).correlate(sessions)
    has_output = exists().where(session_hooks.c.session_id == sessions.c.id, _PRINTED).correlate(sessions)
    columns = ("id", "org_id", "connection_id", "start_date", "end_date", "recording_purged_at", "event_size")
    return (
        select(*(sessions.c[name] for name in columns), ledger.c.at, or_(has_segments, has_output).label("has_content"))
        .select_from(sessions.join(ledger, entry))
        .where(sessions.c.status == SessionStatus.DONE, sessions.c.end_date.is_not(None))
    )


def _retained_session(row: Row[Any]) -> RetainedSession:
    has_recording = row.recording_purged_at is None and bool(row.has_content or row.event_size)
    since = max(row.end_date, row.at)
    return RetainedSession(row.id, row.org_id, row.connection_id, row.start_date, since, has_recording)


def _purge_of(row: RowMapping) -> Purge:
    return Purge(**{**row, "what": PurgeScope(row["what"])})
