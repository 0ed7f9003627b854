"""The ledger: entries that are only ever added, and what of sessions they bind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, Select, and_, bindparam, exists, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.ledger import Checkpoint, Entry, Fact, Facts, Head, Kind, Recorded, moment
from postern.domain.segment import Segment
from postern.domain.session import SessionStatus
from postern.store.database import Database
from postern.store.schema import checkpoints, ledger, segments, sessions
from postern.store.sql.locking import lock_sessions
from postern.store.sql.rows import among

_OPENING = (
    *("connection", "connection_id", "connection_subtype", "credential_id", "principal_id", "source", "start_date"),
    *("type", "user", "user_id", "user_name", "verb"),
)
_CLOSING = ("end_date", "end_detail", "end_reason", "exit_code")
_METADATA = ("connection_tags", "event_size", "integrations_metadata", "labels", "metadata", "metrics", "status")
_MARKS = {Kind.OPENED: "opened_entry", Kind.CLOSED: "closed_entry"}


# The worker that claims such a session sets its start and its credential, so the ledger binds them only then.
_WAITS_FOR_REVIEW = and_(
    sessions.c.status == SessionStatus.OPEN, sessions.c.worker.is_(None), sessions.c.review_id.is_not(None)
)
# A session of an older version may be bound although it still waits to run.
_IS_BOUND = or_(sessions.c.status != SessionStatus.READY, sessions.c.opened_entry.is_not(None))

_ENTRIES = select(*ledger.c).order_by(ledger.c.number)


class SqlLedger:
    """LedgerStore and ProofStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def head(self, org_id: UUID) -> Head | None:
        newest = select(ledger.c.number, ledger.c.hash, ledger.c.at).where(ledger.c.org_id == org_id)
        async with self._database.statement() as connection:
            row = (await connection.execute(newest.order_by(ledger.c.number.desc()).limit(1))).one_or_none()
        return None if row is None else Head(row.number, row.hash, row.at)

    async def unopened(self, limit: int) -> list[Facts]:
        wanted = (
            select(*sessions.c)
            .where(sessions.c.opened_entry.is_(None), sessions.c.status != SessionStatus.READY, ~_WAITS_FOR_REVIEW)
            .order_by(sessions.c.start_date, sessions.c.id)
            .limit(limit)
        )
        async with self._database.statement() as connection:
            return [facts_of(row) for row in (await connection.execute(wanted)).all()]

    async def unclosed(self, limit: int, *, damaged_before: datetime, lost_before: datetime) -> list[Recorded]:
        of_session = segments.c.session_id == sessions.c.id
        count = select(func.count()).where(of_session).correlate(sessions).scalar_subquery()
        last = select(segments.c.number).where(of_session, segments.c.is_last).correlate(sessions)
        damaged = exists().where(of_session, segments.c.number == count, segments.c.damage != "").correlate(sessions)
        ready = or_(
            last.order_by(segments.c.number.desc()).limit(1).scalar_subquery() == count,
            and_(sessions.c.event_size == 0, ~exists().where(of_session).correlate(sessions)),
            sessions.c.end_date < lost_before,
            and_(sessions.c.end_date < damaged_before, damaged),
        )
        # Not by the status: an index of it would be looked through, in which all that are done are.
        has_ended = sessions.c.end_date.is_not(None)
        is_waiting = (sessions.c.closed_entry.is_(None), sessions.c.opened_entry.is_not(None), has_ended)
        wanted = select(*sessions.c).where(*is_waiting, ready)
        return await self._recorded(wanted.order_by(sessions.c.end_date, sessions.c.id).limit(limit))

    async def append(self, entries: Sequence[Entry]) -> bool:
        try:
            await self._database.together(lambda connection: append(connection, entries))
        except (IntegrityError, _Taken):
            return False
        return True

    async def entry_before(self, org_id: UUID, at: datetime) -> int:
        """The moments of a ledger never go back."""
        wanted = select(ledger.c.number).where(ledger.c.org_id == org_id, ledger.c.at < at)
        newest = wanted.order_by(ledger.c.at.desc(), ledger.c.number.desc()).limit(1)
        async with self._database.statement() as connection:
            return (await connection.execute(newest)).scalar_one_or_none() or 0

    async def entries(self, org_id: UUID, first: int, last: int) -> list[Entry]:
        return await self._entries(_ENTRIES.where(ledger.c.org_id == org_id, ledger.c.number.between(first, last)))

    async def entries_after(self, org_id: UUID, after: int, limit: int) -> list[Entry]:
        wanted = _ENTRIES.where(ledger.c.org_id == org_id, ledger.c.number > after)
        return await self._entries(wanted.limit(limit))

    async def recorded(
        self,
        org_id: UUID,
        after: UUID | None,
        limit: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Recorded]:
        wanted = select(*sessions.c).where(sessions.c.org_id == org_id, _IS_BOUND)
        if after is not None:
            wanted = wanted.where(sessions.c.id > after)
        if since is not None:
            wanted = wanted.where(sessions.c.start_date >= since)
        if until is not None:
            wanted = wanted.where(sessions.c.start_date <= until)
        return await self._recorded(wanted.order_by(sessions.c.id).limit(limit))

    async def checkpoints(self, org_id: UUID, after: int, limit: int) -> list[Checkpoint]:
        wanted = select(*checkpoints.c).where(checkpoints.c.org_id == org_id, checkpoints.c.number > after)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted.order_by(checkpoints.c.number).limit(limit))).all()
        return [checkpoint_of(row) for row in rows]

    async def _entries(self, wanted: Select[Any]) -> list[Entry]:
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).all()
        return [
            Entry(row.org_id, row.number, row.at, Kind(row.kind), row.session_id, row.content, row.hash) for row in rows
        ]

    async def _recorded(self, wanted: Select[Any]) -> list[Recorded]:
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).all()
        ids = [row.id for row in rows]
        theirs = select(*segments.c).where(segments.c.session_id.in_(ids))
        found: dict[UUID, list[Segment]] = {key: [] for key in ids}
        if ids:
            async with self._database.statement() as connection:
                ordered = theirs.order_by(segments.c.session_id, segments.c.number)
                for row in (await connection.execute(ordered)).mappings():
                    found[row["session_id"]].append(Segment(**row))
        return [Recorded(facts_of(row), tuple(found[row.id]), is_recorded=row.event_size > 0) for row in rows]


class _Taken(Exception):
    """Another writer was first."""


def append(connection: Connection, entries: Sequence[Entry]) -> None:
    """In a transaction. Raises IntegrityError, or what undoes the transaction, when another writer came first: a number
    is given once, and who waited for that sees then what the other has marked."""
    rows = [
        {
            **{name: getattr(entry, name) for name in ("org_id", "number", "at", "session_id", "content", "hash")},
            "kind": entry.kind.value,
        }
        for entry in entries
    ]
    connection.execute(insert(ledger), rows)
    for kind, name in _MARKS.items():
        told = [(entry.session_id, entry.number) for entry in entries if entry.kind is kind and entry.session_id]
        if not told:
            continue
        ids = [session_id for session_id, _ in told]
        lock_sessions(connection, ids)
        free = select(func.count()).where(among(connection, ids), sessions.c[name].is_(None))
        if connection.execute(free).scalar_one() != len(told):
            raise _Taken
        own = sessions.c.id == bindparam("session")
        marks = [{"session": session_id, "entry": number} for session_id, number in told]
        connection.execute(update(sessions).where(own).values({name: bindparam("entry")}), marks)


def checkpoint_of(row: Row[Any]) -> Checkpoint:
    return Checkpoint(row.org_id, row.number, row.hash, row.at, row.key, row.signature, row.introduces)


def facts_of(row: Row[Any]) -> Facts:
    values = row._mapping
    is_done = row.status == SessionStatus.DONE
    return Facts(
        session_id=row.id,
        org_id=row.org_id,
        started=row.start_date,
        opening={name: _fact(values[name]) for name in _OPENING},
        closing={name: _fact(values[name]) for name in _CLOSING} if is_done else None,
        script=row.script,
        metadata={name: values[name] for name in _METADATA},
        opened_entry=row.opened_entry,
        closed_entry=row.closed_entry,
    )


def _fact(value: object) -> Fact:
    if isinstance(value, datetime):
        return moment(value)
    return value if isinstance(value, int) or value is None else str(value)
