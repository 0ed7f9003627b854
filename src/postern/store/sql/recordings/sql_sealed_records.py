"""Sealed records: the queue of audit entries and reviews for the ledger, and what it has sealed.

Every writer of an audit entry or a review calls `enqueue` in the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Table, delete, exists, func, insert, select, type_coerce
from sqlalchemy.types import NullType

from postern.domain.sessions.ledger import Damaged, Queued, RecordKind, SealedRecord, moment
from postern.errors import Malformed
from postern.store.schema.recording_tables import ledger_records, record_queue
from postern.store.schema.review_tables import review_voices, reviews
from postern.store.schema.server_tables import audit_log
from postern.store.sql.recordings.raw_rows import Decoder, raw

_CHUNK = 300  # identifiers in one statement
_ASKED = (
    *("kind", "principal_id", "connection_id", "place", "source", "means", "session_id", "connection", "owner"),
    *("makers", "demands", "reason", "access_duration", "created_at"),
)
_STANDING = ("status", "decided_at", "ended_at", "revoke_at", "expires_at", "time_window")
_JSON = frozenset({"after", "before", "body", "demands", "groups", "makers", "owner", "reviewer", "time_window"})


def enqueue(connection: Connection, kind: RecordKind, org_id: Any, subject: UUID, session_id: Any, at: Any) -> None:
    """Queue it for the ledger. `org_id` and `session_id` may be subqueries."""
    values = {"kind": kind.value, "org_id": org_id, "subject": subject, "session_id": session_id, "at": at}
    connection.execute(insert(record_queue).values(values))


def read_queue(connection: Connection, limit: int) -> list[Queued]:
    """Return the oldest queued ones, with their present content."""
    rows = connection.execute(select(*record_queue.c).order_by(record_queue.c.number).limit(limit)).all()
    facts = _facts(connection, [row.subject for row in rows])
    queued = []
    for row in rows:
        now = facts.get((row.kind, row.subject))
        number = (row.number, row.org_id, RecordKind(row.kind), row.subject, row.session_id, row.at)
        queued.append(Queued(*number, None if isinstance(now, Malformed) else now))
    return queued


def store_records(connection: Connection, org_id: UUID, records: Sequence[SealedRecord], done: Sequence[int]) -> int:
    """Add sealed records and take `done` out of the queue; return how many of these were still there."""
    rows = [
        {"org_id": org_id, "number": record.number, "subject": record.subject, "content": record.content}
        for record in records
    ]
    if rows:
        connection.execute(insert(ledger_records), rows)
    gone = 0
    for at in range(0, len(done), _CHUNK):
        numbers = record_queue.c.number.in_(done[at : at + _CHUNK])
        gone += connection.execute(delete(record_queue).where(numbers)).rowcount
    return gone


def records_after(connection: Connection, org_id: UUID, after: Any, limit: int) -> list[SealedRecord | Damaged]:
    """Return sealed records by number, each with its subject's present content.

    The subjects are read before the queue and the later records: what changed a subject is in one of these.
    """
    place = type_coerce(ledger_records.c.number, NullType())
    query = select(*raw(ledger_records)).where(ledger_records.c.org_id == org_id, place > after)
    rows = connection.execute(query.order_by(place).limit(limit)).all()
    decoder = Decoder(connection, ledger_records)
    decoded: list[tuple[dict[str, Any], Any] | Damaged] = []
    for row in rows:
        try:
            decoded.append((decoder.decode(row), row.number))
        except Malformed as error:
            decoded.append(Damaged(f"record {row.number}", error.message, row.number))
    subjects = [values["subject"] for values, _ in (item for item in decoded if not isinstance(item, Damaged))]
    facts = _facts(connection, subjects)
    latest = _latest(connection, org_id, subjects)
    answer: list[SealedRecord | Damaged] = []
    for item in decoded:
        if isinstance(item, Damaged):
            answer.append(item)
            continue
        values, number = item
        subject = values["subject"]
        now = next((facts[kind.value, subject] for kind in RecordKind if (kind.value, subject) in facts), None)
        if isinstance(now, Malformed):
            answer.append(Damaged(f"the subject {subject} of record {number}", now.message, number))
            now = {}
        has_later = latest.get(subject, 0) > number
        answer.append(SealedRecord(number, subject, values["content"], now, has_later))
    return answer


def find_unsealed(connection: Connection, org_id: UUID, limit: int) -> list[tuple[RecordKind, str]]:
    """Return rows that were never sealed and are not queued."""
    unsealed = []
    for kind, table in ((RecordKind.AUDIT, audit_log), (RecordKind.REVIEW, reviews)):
        sealed = exists().where(ledger_records.c.subject == table.c.id).correlate(table)
        waits = exists().where(record_queue.c.subject == table.c.id).correlate(table)
        key = type_coerce(table.c.id, NullType()).label("id")
        rows = connection.execute(select(key).where(table.c.org_id == org_id, ~sealed, ~waits).limit(limit))
        unsealed += [(kind, str(row.id)) for row in rows]
    return unsealed


def _latest(connection: Connection, org_id: UUID, subjects: Sequence[UUID]) -> dict[UUID, float]:
    """Return the number of each subject's newest record; infinity while a new one is queued."""
    newest = func.max(ledger_records.c.number).label("number")
    numbers: dict[UUID, float] = {}
    for ids in _chunks(subjects):
        sealed = select(ledger_records.c.subject, newest).where(
            ledger_records.c.org_id == org_id, ledger_records.c.subject.in_(ids)
        )
        numbers |= {row.subject: row.number for row in connection.execute(sealed.group_by(ledger_records.c.subject))}
        waiting = select(record_queue.c.subject).where(record_queue.c.subject.in_(ids))
        numbers |= dict.fromkeys(connection.execute(waiting).scalars(), float("inf"))
    return numbers


Now = dict[tuple[str, UUID], "Mapping[str, Any] | Malformed"]


def _facts(connection: Connection, subjects: Sequence[UUID]) -> Now:
    facts: Now = {}
    for ids in _chunks(subjects):
        for key, values in _rows(connection, audit_log, audit_log.c.id, ids):
            facts[RecordKind.AUDIT.value, key] = _each(values, audit_log.c.keys())
        voices: dict[UUID, list[Mapping[str, Any] | Malformed]] = {}
        for key, values in _rows(connection, review_voices, review_voices.c.review_id, ids):
            voices.setdefault(key, []).append(_each(values, review_voices.c.keys()))
        for key, values in _rows(connection, reviews, reviews.c.id, ids):
            facts[RecordKind.REVIEW.value, key] = _review(values, voices.get(key, []))
    return facts


def _rows(
    connection: Connection, table: Table, key: Any, ids: Sequence[UUID]
) -> Iterable[tuple[UUID, dict[str, Any] | Malformed]]:
    decoder = Decoder(connection, table)
    query = select(*raw(table)).where(key.in_(ids))
    for row in connection.execute(query):
        subject = row._mapping[key.name]
        try:
            values: dict[str, Any] | Malformed = decoder.decode(row)
        except Malformed as error:
            values = error
        yield (subject if isinstance(subject, UUID) else UUID(str(subject))), values


def _each(values: dict[str, Any] | Malformed, names: Iterable[str]) -> Mapping[str, Any] | Malformed:
    if isinstance(values, Malformed):
        return values
    return {name: _fact(name, values[name]) for name in names}


def _review(values: dict[str, Any] | Malformed, voices: Sequence[Mapping[str, Any] | Malformed]) -> Any:
    broken = next((item for item in (values, *voices) if isinstance(item, Malformed)), None)
    if broken is not None or isinstance(values, Malformed):
        return broken
    return {
        "asked": {name: _fact(name, values[name]) for name in _ASKED},
        "standing": {name: _fact(name, values[name]) for name in _STANDING},
        "status": values["status"],
        "input": values["input"],
        "voices": list(voices),
    }


def _fact(name: str, value: object) -> object:
    """Return timestamps, identifiers and JSON as texts: canonical JSON has none of them."""
    if name in _JSON:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    if isinstance(value, datetime):
        return moment(value)
    return str(value) if isinstance(value, UUID) else value


def _chunks(ids: Iterable[UUID]) -> Iterable[list[UUID]]:
    unique = list(dict.fromkeys(ids))
    return [unique[at : at + _CHUNK] for at in range(0, len(unique), _CHUNK)]
