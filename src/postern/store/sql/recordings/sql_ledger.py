"""The ledger: append-only entries, and the facts of sessions that they bind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import NullType

from postern.domain.sessions.ledger import (
    Checkpoint,
    Damaged,
    EntryKind,
    Fact,
    LedgerEntry,
    LedgerHead,
    Queued,
    Recorded,
    RecordKind,
    SealedRecord,
    SessionFacts,
    SessionVerification,
    moment,
)
from postern.domain.sessions.segment import Segment
from postern.domain.sessions.session import SessionStatus
from postern.errors import Malformed
from postern.store.database import Database
from postern.store.schema.recording_tables import checkpoints, ledger, ledger_heads, segments, session_verifications
from postern.store.schema.retention_tables import KEEPING
from postern.store.schema.session_tables import sessions
from postern.store.sql.locking import lock_sessions
from postern.store.sql.recordings import sql_sealed_records
from postern.store.sql.recordings.raw_rows import Decoder, raw
from postern.store.sql.rows import among

_OPENING = (
    *("connection", "connection_id", "connection_subtype", "credential_id", "principal_id", "review_id", "source"),
    *("start_date", "type", "user", "user_id", "user_name", "verb"),
)
_CLOSING = ("end_date", "end_detail", "end_reason", "event_size", "exit_code", "masked", "metrics", "refused")
_METADATA = ("connection_tags", "integrations_metadata", "labels", "metadata", "status")
_MARKS = {EntryKind.OPENED: "opened_entry", EntryKind.CLOSED: "closed_entry"}


# The worker that claims such a session sets its start and its credential, so the ledger binds them only then.
_WAITS_FOR_REVIEW = and_(
    sessions.c.status == SessionStatus.OPEN, sessions.c.worker.is_(None), sessions.c.review_id.is_not(None)
)
# A session of an older version may be bound although it still waits to run.
_IS_BOUND = or_(sessions.c.status != SessionStatus.READY, sessions.c.opened_entry.is_not(None))

_SORTING = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_ENTRIES = select(*ledger.c).order_by(ledger.c.number)


class SqlLedger:
    """The store behind LedgerStore and ProofStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def head(self, org_id: UUID) -> LedgerHead | None:
        query = select(*raw(ledger_heads)).where(ledger_heads.c.org_id == org_id)

        def read(connection: Connection) -> dict[str, Any] | None:
            row = connection.execute(query).one_or_none()
            return None if row is None else Decoder(connection, ledger_heads).decode(row)

        async with self._database.statement() as statement:
            values = await statement.run_sync(read)
        return None if values is None else LedgerHead(values["number"], values["hash"], values["at"], values["records"])

    async def find_unopened(self, limit: int) -> list[SessionFacts]:
        query = (
            select(*raw(sessions))
            .where(sessions.c.opened_entry.is_(None), sessions.c.status != SessionStatus.READY, ~_WAITS_FOR_REVIEW)
            .order_by(sessions.c.start_date, sessions.c.id)
            .limit(limit)
        )
        return [recorded.facts for recorded in await self._read_recorded(query)]

    async def find_unclosed(self, limit: int, *, damaged_before: datetime, lost_before: datetime) -> list[Recorded]:
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
        query = select(*raw(sessions)).where(*is_waiting, ready)
        return await self._read_recorded(query.order_by(sessions.c.end_date, sessions.c.id).limit(limit))

    async def append(self, entries: Sequence[LedgerEntry]) -> bool:
        try:
            await self._database.together(lambda connection: append(connection, entries))
        except (IntegrityError, LedgerTaken):
            return False
        return True

    async def read_queue(self, limit: int) -> list[Queued]:
        async with self._database.statement() as connection:
            return await connection.run_sync(lambda connection: sql_sealed_records.read_queue(connection, limit))

    async def seal(self, entry: LedgerEntry, sealed: Sequence[SealedRecord], done: Sequence[int]) -> bool:
        def work(connection: Connection) -> None:
            append(connection, [entry])
            if sql_sealed_records.store_records(connection, entry.org_id, sealed, done) != len(done):
                raise LedgerTaken  # another writer sealed some of them

        try:
            await self._database.together(work)
        except (IntegrityError, LedgerTaken):
            return False
        return True

    async def records(self, org_id: UUID, after: Any, limit: int) -> list[SealedRecord | Damaged]:
        async with self._database.statement() as connection:
            return await connection.run_sync(
                lambda connection: sql_sealed_records.records_after(connection, org_id, after, limit)
            )

    async def find_unsealed(self, org_id: UUID, limit: int) -> list[tuple[RecordKind, str]]:
        async with self._database.statement() as connection:
            return await connection.run_sync(
                lambda connection: sql_sealed_records.find_unsealed(connection, org_id, limit)
            )

    async def entry_before(self, org_id: UUID, at: datetime) -> int:
        """Return the entry; times in a ledger never decrease."""
        query = select(ledger.c.number).where(ledger.c.org_id == org_id, ledger.c.at < at)
        newest = query.order_by(ledger.c.at.desc(), ledger.c.number.desc()).limit(1)
        async with self._database.statement() as connection:
            return (await connection.execute(newest)).scalar_one_or_none() or 0

    async def entries(self, org_id: UUID, first: int, last: int) -> list[LedgerEntry]:
        query = _ENTRIES.where(ledger.c.org_id == org_id, ledger.c.number.between(first, last))
        async with self._database.statement() as connection:
            return [_entry_of(dict(row)) for row in (await connection.execute(query)).mappings()]

    async def entries_after(
        self, org_id: UUID, after: Any, limit: int, *, kind: EntryKind | None = None
    ) -> list[LedgerEntry | Damaged]:
        place = type_coerce(ledger.c.number, NullType())
        query = select(*raw(ledger)).where(ledger.c.org_id == org_id, place > after).order_by(place).limit(limit)
        if kind is not None:
            query = query.where(ledger.c.kind == kind.value)

        def read(connection: Connection) -> list[LedgerEntry | Damaged]:
            decoder = Decoder(connection, ledger)
            entries: list[LedgerEntry | Damaged] = []
            for row in connection.execute(query).all():
                try:
                    entries.append(_entry_of(decoder.decode(row)))
                except (Malformed, ValueError) as error:
                    entries.append(Damaged(f"entry {row.number} of the ledger", _why(error), row.number))
            return entries

        async with self._database.statement() as statement:
            return await statement.run_sync(read)

    async def read_sessions(
        self,
        org_id: UUID,
        after: Any,
        limit: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Recorded | Damaged]:
        query = _select_recorded(select(*raw(sessions)), org_id, after, since, until).limit(limit)
        async with self._database.statement() as statement:
            return await statement.run_sync(lambda connection: _recorded_rows(connection, query))

    async def read_session(self, org_id: UUID, session_id: UUID) -> list[Recorded | Damaged]:
        query = select(*raw(sessions)).where(sessions.c.org_id == org_id, sessions.c.id == session_id)
        query = query.where(sessions.c.opened_entry.is_not(None))
        async with self._database.statement() as statement:
            return await statement.run_sync(lambda connection: _recorded_rows(connection, query))

    async def purge_entry(self, org_id: UUID, session_id: UUID) -> int | None:
        of_session = (ledger.c.org_id == org_id, ledger.c.session_id == session_id)
        query = select(func.min(ledger.c.number)).where(*of_session, KEEPING, ledger.c.kind == EntryKind.PURGED.value)
        async with self._database.statement() as connection:
            number: int | None = (await connection.execute(query)).scalar_one()
        return number

    async def verification(self, session_id: UUID) -> SessionVerification | None:
        query = select(*session_verifications.c).where(session_verifications.c.session_id == session_id)
        async with self._database.statement() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        return None if row is None else SessionVerification(**row)

    async def store_verification(self, verification: SessionVerification) -> None:
        same = session_verifications.c.session_id == verification.session_id

        def work(connection: Connection) -> None:
            lock_sessions(connection, [verification.session_id])
            connection.execute(delete(session_verifications).where(same))
            connection.execute(insert(session_verifications).values(asdict(verification)))

        await self._database.together(work)

    async def closed_segments(
        self, org_id: UUID, after: Any, limit: int, *, since: datetime | None, until: datetime | None, last: int
    ) -> list[tuple[Any, list[Segment]]]:
        selected = (sessions.c.id, sessions.c.closed_entry)
        columns: list[ColumnElement[Any]] = [type_coerce(column, NullType()) for column in selected]
        query = _select_recorded(select(*columns), org_id, after, since, until).limit(limit)

        def read(connection: Connection) -> list[tuple[Any, list[Segment]]]:
            rows = [(_uuid(place) or place, entry) for place, entry in connection.execute(query).all()]
            closed = [key for key, entry in rows if isinstance(key, UUID) and type(entry) is int and entry <= last]
            segments_by_session = _segments(connection, closed)
            return [(place, _good(segments_by_session.get(place, ()))) for place, _ in rows]

        async with self._database.statement() as statement:
            return await statement.run_sync(read)

    async def checkpoints(self, org_id: UUID, after: Any, limit: int) -> list[Checkpoint | Damaged]:
        place = type_coerce(checkpoints.c.number, NullType())
        query = select(*raw(checkpoints)).where(checkpoints.c.org_id == org_id, place > after)
        query = query.order_by(place).limit(limit)

        def read(connection: Connection) -> list[Checkpoint | Damaged]:
            decoder = Decoder(connection, checkpoints)
            items: list[Checkpoint | Damaged] = []
            for row in connection.execute(query).all():
                try:
                    items.append(Checkpoint(**decoder.decode(row)))
                except Malformed as error:
                    items.append(Damaged(f"the checkpoint of entry {row.number}", error.message, row.number))
            return items

        async with self._database.statement() as statement:
            return await statement.run_sync(read)

    async def _read_recorded(self, query: Select[Any]) -> list[Recorded]:
        """Read sessions for the writer, which retries what it cannot read."""
        async with self._database.statement() as statement:
            recorded = await statement.run_sync(lambda connection: _recorded_rows(connection, query))
        broken = {damaged.session_id for damaged in recorded if isinstance(damaged, Damaged)}
        return [item for item in recorded if isinstance(item, Recorded) and item.facts.session_id not in broken]


def _select_recorded(
    rows: Select[Any], org_id: UUID, after: Any, since: datetime | None, until: datetime | None
) -> Select[Any]:
    """Select sessions that were opened in the ledger, by id, after `after`."""
    place = type_coerce(sessions.c.id, NullType())
    rows = rows.where(sessions.c.org_id == org_id, _IS_BOUND)
    if isinstance(after, UUID):
        rows = rows.where(sessions.c.id > after)
    elif after is not None:
        rows = rows.where(place > after)
    if since is not None:
        rows = rows.where(sessions.c.start_date >= since)
    if until is not None:
        rows = rows.where(sessions.c.start_date <= until)
    return rows.order_by(place)


def _good(records: Iterable[Segment | Damaged]) -> list[Segment]:
    return [record for record in records if isinstance(record, Segment)]


def _recorded_rows(connection: Connection, query: Select[Any]) -> list[Recorded | Damaged]:
    """Read sessions; `query` selects their raw rows."""
    decoder = Decoder(connection, sessions)
    good: list[dict[str, Any] | Damaged] = []
    for row in connection.execute(query).all():
        try:
            good.append(decoder.decode(row))
        except Malformed as error:
            key = _uuid(row.id)
            good.append(Damaged(f"session {key or row.id}", error.message, row.id, key))
    ids = [values["id"] for values in good if not isinstance(values, Damaged)]
    segments_by_session = _segments(connection, ids)
    recorded: list[Recorded | Damaged] = []
    for values in good:
        if isinstance(values, Damaged):
            recorded.append(values)
            continue
        key = values["id"]
        broken = next((segment for segment in segments_by_session[key] if isinstance(segment, Damaged)), None)
        if broken is not None:
            recorded.append(replace(broken, place=key))
        own_segments = tuple(_good(segments_by_session[key]))
        try:
            recorded.append(Recorded(_facts_of(values), own_segments, is_recorded=values["event_size"] > 0))
        except (ValueError, TypeError) as error:
            recorded.append(Damaged(f"session {key}", _why(error), key, key))
    return recorded


def _segments(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, list[Segment | Damaged]]:
    segments_by_session: dict[UUID, list[Segment | Damaged]] = {key: [] for key in ids}
    if not ids:
        return segments_by_session
    decoder = Decoder(connection, segments)
    place = type_coerce(segments.c.number, NullType())
    query = select(*raw(segments)).where(segments.c.session_id.in_(ids)).order_by(segments.c.session_id, place)
    for row in connection.execute(query).all():
        try:
            segment = Segment(**decoder.decode(row))
            if not (0 < segment.number < 2**63 and 0 <= segment.size < 2**63):
                raise Malformed("its number or its size is out of range")
            segments_by_session[segment.session_id].append(segment)
        except Malformed as error:
            key = _uuid(row.session_id)
            assert key is not None  # that is what it was looked for by
            segments_by_session[key].append(Damaged(f"segment {row.number} of session {key}", error.message, key, key))
    return segments_by_session


def _entry_of(values: Mapping[str, Any]) -> LedgerEntry:
    """Return the entry. Raises ValueError for an unknown kind."""
    return LedgerEntry(**{**values, "kind": EntryKind(values["kind"])})


def _uuid(value: object) -> UUID | None:
    try:
        return value if isinstance(value, UUID) else UUID(str(value))
    except ValueError:
        return None


def _why(error: Exception) -> str:
    return error.message if isinstance(error, Malformed) else str(error)


class LedgerTaken(Exception):
    """Another writer was first."""


def append(connection: Connection, entries: Sequence[LedgerEntry]) -> None:
    """Append entries of one organisation, in a transaction.

    Raises IntegrityError or LedgerTaken, which roll it back, when another writer came first: the head is the lock, and
    a writer that waited for it sees the other's entries.
    """
    _move_head(connection, entries)
    rows = [
        {
            **{name: getattr(entry, name) for name in ("org_id", "number", "at", "session_id", "content", "hash")},
            "kind": entry.kind.value,
        }
        for entry in entries
    ]
    connection.execute(insert(ledger), rows)
    for kind, name in _MARKS.items():
        marked = [(entry.session_id, entry.number) for entry in entries if entry.kind is kind and entry.session_id]
        if not marked:
            continue
        ids = [session_id for session_id, _ in marked]
        lock_sessions(connection, ids)
        free = select(func.count()).where(among(connection, ids), sessions.c[name].is_(None))
        if connection.execute(free).scalar_one() != len(marked):
            raise LedgerTaken
        condition = sessions.c.id == bindparam("session")
        marks = [{"session": session_id, "entry": number} for session_id, number in marked]
        connection.execute(update(sessions).where(condition).values({name: bindparam("entry")}), marks)


def _move_head(connection: Connection, entries: Sequence[LedgerEntry]) -> None:
    first, last = entries[0], entries[-1]
    sealed = sum(int(json.loads(entry.content)["count"]) for entry in entries if entry.kind is EntryKind.RECORDS)
    place = {"number": last.number, "hash": last.hash, "at": last.at}
    before = (ledger_heads.c.org_id == first.org_id, ledger_heads.c.number == first.number - 1)
    moved = update(ledger_heads).where(*before).values(**place, records=ledger_heads.c.records + sealed)
    if connection.execute(moved).rowcount == 1:
        return
    if first.number > 1:
        raise LedgerTaken
    connection.execute(insert(ledger_heads).values(org_id=first.org_id, **place, records=sealed))


def checkpoint_of(row: Row[Any]) -> Checkpoint:
    return Checkpoint(row.org_id, row.number, row.hash, row.at, row.key, row.signature, row.introduces)


def _facts_of(values: Mapping[str, Any]) -> SessionFacts:
    is_done = values["status"] == SessionStatus.DONE
    return SessionFacts(
        session_id=values["id"],
        org_id=values["org_id"],
        started=values["start_date"],
        opening={name: _fact(values[name]) for name in _OPENING},
        closing={name: _fact(values[name]) for name in _CLOSING} if is_done else None,
        script=values["script"],
        metadata={name: values[name] for name in _METADATA},
        opened_entry=values["opened_entry"],
        closed_entry=values["closed_entry"],
    )


def _fact(value: object) -> Fact:
    """Return metrics as a JSON text: they may hold fractions, which canonical JSON does not allow."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, (dict, list, float)):
        return _SORTING.encode(value)
    return value if isinstance(value, int) or value is None else str(value)
