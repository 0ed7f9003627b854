"""The deletion of an organisation: first everything that gives access to it, then what it owns, then its own row.

The tables of an organisation are derived from the schema: those with a column `org_id`. Tables without it refer to one
of these by a foreign key that cascades.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Table, case, delete, exists, func, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import PrincipalStatus
from postern.domain.sessions.ledger import EntryKind
from postern.domain.sessions.segment import Segment
from postern.domain.sessions.session import SessionStatus
from postern.errors import Conflict, NotFound
from postern.store.database import Database
from postern.store.ports.server_ports import AuditEntry, OrganisationSummary
from postern.store.schema.columns import metadata
from postern.store.schema.identity_tables import api_keys, federation_rules, logins, one_time_tokens, orgs, users
from postern.store.schema.recording_tables import ledger, ledger_heads, segments
from postern.store.schema.retention_tables import KEEPING, holds
from postern.store.schema.runbook_tables import runbook_schedules
from postern.store.schema.server_tables import chat_links
from postern.store.schema.session_tables import sessions
from postern.store.schema.ssh_tables import ssh_authorities, ssh_keys
from postern.store.schema.target_tables import agents, connections, credentials
from postern.store.sql.identity.sql_organisations import organisation_of
from postern.store.sql.rows import count_of
from postern.store.sql.sql_audit import add_entry

# Credentials of users and programs, and schedules, which start work without a login.
_ACCESS = (
    *(api_keys, chat_links, credentials, federation_rules, logins),
    *(runbook_schedules, ssh_authorities, ssh_keys),
)
_NAMED_HOLDS = 5


def owned_tables() -> list[Table]:
    """Return the tables whose rows belong to one organisation, each before those that it refers to."""
    return [table for table in reversed(metadata.sorted_tables) if "org_id" in table.c]


class SqlOrganisationDeletions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, org_id: UUID, at: datetime) -> OrganisationSummary:
        return await self._database.together(lambda connection: _begin(connection, org_id, at))

    async def waiting(self) -> list[Organisation]:
        query = select(*orgs.c).where(orgs.c.deleting_at.is_not(None)).order_by(orgs.c.deleting_at, orgs.c.id)
        async with self._database.statement() as connection:
            return [organisation_of(row) for row in (await connection.execute(query)).all()]

    async def invalidate(self, org_id: UUID) -> None:
        await self._database.together(lambda connection: _invalidate(connection, org_id))

    async def agents(self, org_id: UUID) -> list[UUID]:
        async with self._database.statement() as connection:
            return list((await connection.execute(select(agents.c.id).where(agents.c.org_id == org_id))).scalars())

    async def running_sessions(self, org_id: UUID, most: int) -> list[UUID]:
        running = (sessions.c.org_id == org_id, sessions.c.status == SessionStatus.OPEN, sessions.c.worker.is_not(None))
        async with self._database.statement() as connection:
            return list((await connection.execute(select(sessions.c.id).where(*running).limit(most))).scalars())

    async def segments(self, org_id: UUID, most: int) -> list[Segment]:
        query = select(*segments.c).where(segments.c.org_id == org_id).limit(most)
        async with self._database.statement() as connection:
            return [Segment(**row) for row in (await connection.execute(query)).mappings()]

    async def forget_segments(self, gone: Sequence[Segment]) -> None:
        keys = [(segment.session_id, segment.number) for segment in gone]
        async with self._database.statement() as connection:
            await connection.execute(delete(segments).where(tuple_(segments.c.session_id, segments.c.number).in_(keys)))

    async def sessions(self, org_id: UUID, most: int) -> list[UUID]:
        query = select(sessions.c.id).where(sessions.c.org_id == org_id, _nothing_stored()).limit(most)
        async with self._database.statement() as connection:
            return list((await connection.execute(query)).scalars())

    async def forget_sessions(self, ids: Sequence[UUID]) -> None:
        def work(connection: Connection) -> None:
            connection.execute(delete(sessions).where(sessions.c.id.in_(ids), _nothing_stored()))

        await self._database.together(work)

    async def forget_rows(self, org_id: UUID, most: int) -> int:
        def work(connection: Connection) -> int:
            count = 0
            for table in owned_tables():
                if count >= most:
                    break
                if table is not sessions and table is not segments:
                    count += _forget(connection, table, org_id, most - count)
            return count

        return await self._database.together(work)

    async def finish(self, org_id: UUID, audit: AuditEntry) -> bool:
        def work(connection: Connection) -> bool:
            for table in (segments, sessions):
                if connection.execute(select(exists().where(table.c.org_id == org_id))).scalar_one():
                    return False
            for table in owned_tables():
                connection.execute(delete(table).where(table.c.org_id == org_id))
            connection.execute(delete(orgs).where(orgs.c.id == org_id, orgs.c.deleting_at.is_not(None)))
            add_entry(connection, audit)
            return True

        try:
            return await self._database.together(work)
        except IntegrityError:  # a concurrent request added a row that belongs to it
            return False


def _begin(connection: Connection, org_id: UUID, at: datetime) -> OrganisationSummary:
    """Begin a deletion. Setting a hold locks the row of the organisation first (holds.py), so one of the two waits
    for the other."""
    row = connection.execute(select(*orgs.c).where(orgs.c.id == org_id).with_for_update()).one_or_none()
    if row is None:
        raise NotFound(f"there is no organisation {org_id}")
    if row.deleting_at is not None:
        raise Conflict(f"organisation {row.name!r} is already being deleted")
    _require_no_holds(connection, org_id, row.name)
    summary = _summary(connection, org_id)
    connection.execute(update(orgs).where(orgs.c.id == org_id).values(deleting_at=at))
    _invalidate(connection, org_id)
    return summary


def _require_no_holds(connection: Connection, org_id: UUID, name: str) -> None:
    """Check that no holds exist, in the ledger as well: deleting their rows manually frees nothing."""
    condition = holds.c.org_id == org_id
    count = connection.execute(count_of(holds, condition)).scalar_one()
    if count:
        query = select(holds.c.name, holds.c.session_id).where(condition).order_by(holds.c.at).limit(_NAMED_HOLDS)
        named = ", ".join(f"{hold.name!r} on session {hold.session_id}" for hold in connection.execute(query))
        more = f" and {count - _NAMED_HOLDS} more" if count > _NAMED_HOLDS else ""
        raise Conflict(
            f"organisation {name!r} has legal holds: {named}{more}; one of its administrators must remove them first"
        )
    kinds = (func.sum(case((ledger.c.kind == kind.value, 1), else_=0)) for kind in (EntryKind.HELD, EntryKind.RELEASED))
    hold_count, released = kinds
    entries = select(ledger.c.session_id).where(ledger.c.org_id == org_id, KEEPING).group_by(ledger.c.session_id)
    missing = connection.execute(entries.having(hold_count > released).limit(1)).scalar_one_or_none()
    if missing is not None:
        raise Conflict(
            f"the ledger of organisation {name!r} says that session {missing} has a legal hold, but the hold is gone "
            "from the store; run `postern recordings verify` before you delete anything"
        )


def _summary(connection: Connection, org_id: UUID) -> OrganisationSummary:
    counts = [connection.execute(count_of(table, table.c.org_id == org_id)) for table in (users, connections, sessions)]
    head = connection.execute(select(*ledger_heads.c).where(ledger_heads.c.org_id == org_id)).one_or_none()
    newest = None if head is None else (head.number, bytes(head.hash).hex())
    people, targets, recorded = (count.scalar_one() for count in counts)
    return OrganisationSummary(people, targets, recorded, newest)


def _invalidate(connection: Connection, org_id: UUID) -> None:
    query = select(users.c.id).where(users.c.org_id == org_id)
    connection.execute(update(users).where(users.c.org_id == org_id).values(status=PrincipalStatus.INACTIVE))
    for table in _ACCESS:
        connection.execute(delete(table).where(table.c.org_id == org_id))
    connection.execute(delete(one_time_tokens).where(one_time_tokens.c.user_id.in_(query)))
    connection.execute(update(agents).where(agents.c.org_id == org_id).values(digest=None))


def _forget(connection: Connection, table: Table, org_id: UUID, most: int) -> int:
    key = list(table.primary_key.columns)
    rows = select(*key).where(table.c.org_id == org_id).limit(most)
    within = key[0].in_(rows) if len(key) == 1 else tuple_(*key).in_(rows)
    return connection.execute(delete(table).where(within)).rowcount


def _nothing_stored() -> ColumnElement[bool]:
    return ~exists().where(segments.c.session_id == sessions.c.id)
