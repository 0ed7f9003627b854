"""Sessions: rows that workers open, claim and end.

The list of sessions is newest first, after a position or an offset, within a bounded number of rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Integer,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    true,
    update,
)

from postern.domain.facets import Facet, Facets
from postern.domain.issues.issue import ISSUE_KEY
from postern.domain.lists import Count, Page, Stretch
from postern.domain.reviews.review import ReviewKind
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.secret import Secret
from postern.domain.sessions.session import (
    CHANGES,
    SCRIPT_BEGINNING,
    Session,
    SessionEvent,
    SessionStatus,
    Verb,
    sources,
    target,
)
from postern.domain.targets.command import NOTHING_ADDED, Invocation
from postern.domain.targets.connection_use import ConnectionActivity
from postern.store.batch import WriteBatch
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports.notification_ports import ALL, AT_THE_END, OPENED
from postern.store.ports.target_ports import SessionEnd, SessionFacet, SessionFilter
from postern.store.prepared import PreparedStatement
from postern.store.schema.review_tables import reviews
from postern.store.schema.session_tables import session_starts, sessions
from postern.store.sql.long_lists import LongList, by_time, find_page
from postern.store.sql.rows import SESSION_COLUMNS, among, session_of
from postern.store.sql.sessions.connection_activity import read_activity
from postern.store.sql.sessions.session_conditions import Plan, has_status, plan
from postern.store.sql.sessions.session_search import CANDIDATES, Candidate, Sought, candidates
from postern.store.sql.sql_facets import count_facets

_KEYSET = by_time(sessions.c.start_date, sessions.c.id)


def find(connection: Connection, org_id: UUID, criteria: SessionFilter, page: Page) -> Stretch[Session]:
    """Return a page, see SessionStore.find."""
    ways = plan(connection, org_id, criteria)
    if ways is None:
        return Stretch([], None if page.count is Count.NONE else 0)
    if criteria.search is not None:
        return _search(connection, org_id, criteria, ways, page)
    listed = LongList(SESSION_COLUMNS, _KEYSET, [*ways.lead, *_dates(criteria)], ways.sieves)
    return find_page(connection, listed, page, session_of)


def _search(connection: Connection, org_id: UUID, criteria: SessionFilter, ways: Plan, page: Page) -> Stretch[Session]:
    """Return a page of a search: sessions with matching texts are the candidates, newest first; the filters sieve
    them."""
    assert criteria.search is not None
    sought = Sought(org_id, criteria, tuple(ways.equal), page.after)
    most = page.limit + 1 if sought.is_keyed else CANDIDATES
    looked = candidates(connection, sought, most)
    conditions = [*ways.hidden, *_dates(criteria)]
    matches: list[tuple[Candidate, Session]] = []
    chunk = 4 * page.limit
    for at in range(0, len(looked.candidates), chunk):
        matches += _load_matching(connection, looked.candidates[at : at + chunk], conditions)
        if len(matches) > page.limit:
            break
    last = looked.last
    if len(matches) > page.limit:
        matches = matches[: page.limit]
        last = matches[-1][0]
    total = None if page.count is Count.NONE or page.after is not None else len(matches)
    following = None if last is None else last.position
    return Stretch([session for _, session in matches], total, total is not None and last is not None, following)


def _load_matching(
    connection: Connection, candidates: list[Candidate], conditions: list[ColumnElement[bool]]
) -> list[tuple[Candidate, Session]]:
    rows = select(*SESSION_COLUMNS).where(
        among(connection, [candidate.session_id for candidate in candidates]), *conditions
    )
    matching = {row["id"]: session_of(row) for row in connection.execute(rows).mappings()}
    return [(candidate, matching[candidate.session_id]) for candidate in candidates if candidate.session_id in matching]


def _dates(criteria: SessionFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if criteria.start is not None:
        conditions.append(sessions.c.start_date >= criteria.start)
    if criteria.end is not None:
        conditions.append(sessions.c.start_date <= criteria.end)
    return conditions


# Statements of every session are built once: building one costs more than SQLite takes to run it.
_ADD = PreparedStatement(insert(sessions))
# A session that never ran is reported as opened and ended together, at its end.
_NEVER_RAN = "worker is null and (status = 'ready' or review_id is not null)"
_SET = update(sessions).where(sessions.c.id == bindparam("session"))
_SET = _SET.values(
    {name: bindparam(f"new_{name}", type_=sessions.c[name].type) for name in sorted(CHANGES[SessionEvent.ENDED])}
    | {"pending": literal_column(f"case when {_NEVER_RAN} then {ALL} else pending | {AT_THE_END} end", Integer)}
)


def _can(event: SessionEvent) -> ColumnElement[bool]:
    """Return the condition that the row is in a state in which the event can happen."""
    return or_(*(sessions.c.status == state for state in sources(event)))


_END = PreparedStatement(_SET.where(_can(SessionEvent.ENDED)))
_WAITS = and_(sessions.c.status == SessionStatus.OPEN, sessions.c.worker.is_(None), sessions.c.review_id.is_not(None))
_WITHDRAW = _SET.where(_can(SessionEvent.WITHDRAWN), or_(sessions.c.status == SessionStatus.READY, _WAITS))
_APPROVE = update(sessions).where(sessions.c.id == bindparam("session"), _can(SessionEvent.APPROVED), _WAITS)
_APPROVE = _APPROVE.values(status=target(SessionEvent.APPROVED))
_MAY_RUN = or_(  # a script: its review, if it needs one, was started
    sessions.c.review_id.is_(None),
    exists().where(reviews.c.id == sessions.c.review_id, reviews.c.status == ReviewStatus.PROCESSING),
)
_MAY_OPEN = exists().where(
    reviews.c.id == sessions.c.review_id,
    reviews.c.kind == ReviewKind.JIT,
    reviews.c.status == ReviewStatus.APPROVED,
)
_TAKEN = {column.name for column in sessions.c} - (
    {
        "principal_id",
        "source",
        "issue_key",
        "end_reason",
        "end_detail",
        "refused",
        "masked",
        "pending",
        "holds",
        "opened_entry",
        "closed_entry",
    }
)
_MOST = 2**31 - 1
_FEW = 8  # ends that the event loop's thread may write at once
_CHUNK = 500  # identifiers in one statement
_MAPS = ("connection_tags", "integrations_metadata", "labels", "metadata", "metrics")


class SqlSessions:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption
        self._ends: WriteBatch[dict[str, Any], bool] = WriteBatch(self._write_ends)

    async def add(
        self, session: Session, *, principal_id: UUID, source: str, invocation: Invocation = NOTHING_ADDED
    ) -> None:
        values = session_values(session, principal_id, source)
        if not invocation:
            await self._database.run_direct(lambda connection: _ADD.count(connection, values), writes=True)
            return
        sealed = await seal_invocation(self._encryption, session.id, invocation)
        await self._database.together(lambda connection: add_session(connection, values, sealed))

    async def take_invocation(self, session_id: UUID) -> Invocation:
        statement = delete(session_starts).where(session_starts.c.session_id == session_id)
        async with self._database.statement() as connection:
            sealed = (await connection.execute(statement.returning(session_starts.c.content))).scalar_one_or_none()
        if sealed is None:
            return NOTHING_ADDED
        return _read(await self._encryption.open(sealed, row=_sealed_row(session_id), org_id=None))

    async def end(self, session_id: UUID, ended: SessionEnd) -> bool:
        return await self._ends.add(_end_values(session_id, ended))

    async def _write_ends(self, ends: list[dict[str, Any]]) -> list[bool]:
        order = sorted(range(len(ends)), key=lambda at: ends[at]["session"])  # see locking.py

        def write(connection: Connection) -> list[bool]:
            ended = {at: _END.count(connection, ends[at]) == 1 for at in order}
            return [ended[at] for at in range(len(ends))]

        if len(ends) > _FEW:
            return await self._database.together(write)
        return await self._database.run_direct(write, writes=True, several=len(ends) > 1)

    async def end_if_ready(self, session_id: UUID, ended: SessionEnd) -> bool:
        return await self._database.together(lambda connection: withdraw_session(connection, session_id, ended))

    async def claim(
        self,
        session_id: UUID,
        worker: str,
        at: datetime,
        *,
        metadata: Mapping[str, str] | None = None,
        credential_id: UUID | None = None,
        verb: Verb | None = None,
    ) -> tuple[Session, UUID, str] | None:
        """Claim a session. The condition on the status makes the UPDATE the lock: only one of many finds the row ready.

        A change of its review changes the row as well, so that later callers see it.
        """
        values = {"status": target(SessionEvent.CLAIMED), "worker": worker, "start_date": at, "pending": OPENED}
        if metadata is not None:
            values["metadata"] = dict(metadata)
        if credential_id is not None:
            values["credential_id"] = credential_id
        its_verb = sessions.c.verb == verb if verb is not None else true()
        statement = (
            update(sessions)
            .where(sessions.c.id == session_id, its_verb, _can(SessionEvent.CLAIMED), or_(_MAY_RUN, _MAY_OPEN))
            .values(values)
            .returning(*sessions.c)
        )
        async with self._database.statement() as connection:
            row = (await connection.execute(statement)).mappings().one_or_none()
        return None if row is None else (session_of(row), row["principal_id"], row["source"])

    async def ids(self, status: SessionStatus, worker: str | None) -> list[UUID]:
        query = select(sessions.c.id).where(has_status(status)).order_by(sessions.c.start_date)
        if worker is not None:
            query = query.where(sessions.c.worker == worker)
        elif status is SessionStatus.READY:
            query = query.where(_MAY_RUN)
        async with self._database.statement() as connection:
            return list((await connection.execute(query)).scalars())

    async def get(self, org_id: UUID, session_id: UUID) -> Session | None:
        query = select(*sessions.c).where(sessions.c.org_id == org_id, sessions.c.id == session_id)
        async with self._database.statement() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        return None if row is None else session_of(row)

    async def owners(self, ids: Sequence[UUID]) -> Mapping[UUID, tuple[UUID, str]]:
        def read(connection: Connection) -> dict[UUID, tuple[UUID, str]]:
            owners: dict[UUID, tuple[UUID, str]] = {}
            for at in range(0, len(ids), _CHUNK):
                query = select(sessions.c.id, sessions.c.org_id, sessions.c.user_id)
                rows = connection.execute(query.where(among(connection, ids[at : at + _CHUNK])))
                owners |= {row.id: (row.org_id, row.user_id) for row in rows}
            return owners

        async with self._database.statement() as statement:
            return await statement.run_sync(read)

    async def ids_between(self, org_id: UUID, first: UUID, last: UUID, owner: str | None, limit: int) -> list[UUID]:
        query = select(sessions.c.id).where(sessions.c.org_id == org_id, sessions.c.id.between(first, last))
        if owner is not None:
            query = query.where(sessions.c.user_id == owner)
        async with self._database.statement() as connection:
            return list((await connection.execute(query.order_by(sessions.c.id).limit(limit))).scalars())

    async def facets(self, org_id: UUID, criteria: SessionFilter, names: Sequence[SessionFacet]) -> Facets:
        columns = {str(name): _FACETS[name] for name in names}
        async with self._database.plan_each() as connection:
            return await connection.run_sync(lambda connection: _count_facets(connection, org_id, criteria, columns))

    async def script_beginnings(self, session_ids: Sequence[UUID]) -> Mapping[UUID, tuple[str, bool]]:
        async with self._database.statement() as connection:
            return await connection.run_sync(lambda connection: _script_beginnings(connection, session_ids))

    async def activity(
        self, org_id: UUID, connection_ids: Sequence[UUID], owner: str, *, with_all: bool
    ) -> Mapping[UUID, ConnectionActivity]:
        async with self._database.plan_each() as connection:
            return await connection.run_sync(
                lambda connection: read_activity(connection, org_id, connection_ids, owner, with_all=with_all)
            )

    async def find(self, org_id: UUID, criteria: SessionFilter, page: Page) -> Stretch[Session]:
        async with self._database.plan_each() as connection:
            return await connection.run_sync(lambda connection: find(connection, org_id, criteria, page))


_FACETS: Mapping[SessionFacet, Column[Any]] = {
    name: sessions.c["connection_subtype" if name is SessionFacet.SUBTYPE else name] for name in SessionFacet
}


def _count_facets(
    connection: Connection, org_id: UUID, criteria: SessionFilter, columns: Mapping[str, Column[Any]]
) -> Facets:
    ways = plan(connection, org_id, criteria)
    if ways is None:
        return Facets({name: Facet([]) for name in columns})
    listed = LongList(list(columns.values()), _KEYSET, [*ways.lead, *_dates(criteria)], ways.sieves)
    return count_facets(connection, listed, columns)


def _script_beginnings(connection: Connection, session_ids: Sequence[UUID]) -> dict[UUID, tuple[str, bool]]:
    beginning = func.substr(sessions.c.script, 1, SCRIPT_BEGINNING).label("beginning")
    is_cut = (func.length(sessions.c.script) > SCRIPT_BEGINNING).label("is_cut")
    query = select(sessions.c.id, beginning, is_cut).where(
        among(connection, session_ids), sessions.c.script.is_not(None)
    )
    return {row.id: (row.beginning, bool(row.is_cut)) for row in connection.execute(query)}


def session_values(session: Session, principal_id: UUID, source: str) -> dict[str, Any]:
    """Return the columns of a new session."""
    values: dict[str, Any] = {name: getattr(session, name) for name in _TAKEN}
    for name in _MAPS:
        values[name] = dict(values[name])
    values["runbook"] = None if session.runbook is None else asdict(session.runbook)
    waits = session.worker is None and session.review_id is not None
    pending = 0 if waits or session.status is SessionStatus.READY else OPENED
    issue_key = session.integrations_metadata.get(ISSUE_KEY)
    return values | {"principal_id": principal_id, "source": source, "pending": pending, "issue_key": issue_key}


async def seal_invocation(encryption: Encryption, session_id: UUID, invocation: Invocation) -> bytes | None:
    """Seal an invocation; None for an empty one. Not inside a transaction."""
    if not invocation:
        return None
    return await encryption.seal(_encode_invocation(invocation), row=_sealed_row(session_id), org_id=None)


def add_session(connection: Connection, values: dict[str, Any], sealed: bytes | None) -> None:
    connection.execute(insert(sessions).values(values))
    if sealed is not None:
        connection.execute(insert(session_starts).values(session_id=values["id"], content=sealed))


def approve_session(connection: Connection, session_id: UUID) -> bool:
    """Make a session that waits for its review ready. False when it did not wait."""
    return connection.execute(_APPROVE, {"session": session_id}).rowcount == 1


def withdraw_session(connection: Connection, session_id: UUID, ended: SessionEnd) -> bool:
    """End it before it has run, with its invocation. False when it has run, or is done."""
    if connection.execute(_WITHDRAW, _end_values(session_id, ended)).rowcount != 1:
        return False
    connection.execute(delete(session_starts).where(session_starts.c.session_id == session_id))
    return True


def _sealed_row(session_id: UUID) -> str:
    return f"session_starts/{session_id}"


def _encode_invocation(invocation: Invocation) -> bytes:
    environment = {name: value.reveal() for name, value in invocation.environment.items()}
    return json.dumps(
        {
            "arguments": invocation.arguments,
            "environment": environment,
            "parameters": dict(invocation.parameters),
        }
    ).encode()


def _read(content: bytes) -> Invocation:
    values = json.loads(content)
    return Invocation(
        tuple(values["arguments"]),
        {name: Secret(value) for name, value in values["environment"].items()},
        values["parameters"],
    )


def _end_values(session_id: UUID, ended: SessionEnd) -> dict[str, Any]:
    metrics = dict(ended.metrics or {})
    masking = metrics.get("data_masking") or {}
    return {
        "session": session_id,
        "new_status": target(SessionEvent.ENDED),
        "new_end_date": ended.at,
        "new_end_reason": ended.reason,
        "new_end_detail": ended.detail,
        "new_exit_code": ended.exit_code,
        "new_metrics": metrics | {"event_size": ended.event_size},
        "new_event_size": ended.event_size,
        "new_refused": min(int(metrics.get("refused") or 0), _MOST),
        "new_masked": min(int(masking.get("total_redact_count") or 0), _MOST),
    }
