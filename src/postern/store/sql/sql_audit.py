"""The audit log: appended to, never changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, insert, select

from postern.domain.facets import Facets
from postern.domain.lists import Page, Stretch
from postern.domain.sessions.ledger import RecordKind
from postern.store.database import Database
from postern.store.ports.server_ports import AuditEntry, AuditFacet, AuditFilter
from postern.store.schema.server_tables import audit_log, untold_entries
from postern.store.sql.long_lists import LongList, by_time, find_page
from postern.store.sql.recordings.sql_sealed_records import enqueue
from postern.store.sql.sql_facets import count_facets

_FIELDS = [column.name for column in audit_log.c]
_KEYSET = by_time(audit_log.c.at, audit_log.c.id)
_FACET_COLUMNS = {AuditFacet.HTTP_METHOD: "method"}


class SqlAudit:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, entry: AuditEntry) -> None:
        await self._database.together(lambda connection: add_entry(connection, entry))

    async def find(self, org_id: UUID, criteria: AuditFilter, page: Page) -> Stretch[AuditEntry]:
        listed = LongList(list(audit_log.c), _KEYSET, *_conditions(org_id, criteria))
        async with self._database.plan_each() as statement:
            return await statement.run_sync(
                lambda connection: find_page(connection, listed, page, lambda row: AuditEntry(**row))
            )

    async def facets(self, org_id: UUID, criteria: AuditFilter, names: Sequence[AuditFacet]) -> Facets:
        columns = {str(name): audit_log.c[_FACET_COLUMNS.get(name, name)] for name in names}
        listed = LongList(list(columns.values()), _KEYSET, *_conditions(org_id, criteria))
        async with self._database.plan_each() as statement:
            return await statement.run_sync(lambda connection: count_facets(connection, listed, columns))

    async def get(self, org_id: UUID, entry_id: UUID) -> AuditEntry | None:
        query = select(*audit_log.c).where(audit_log.c.org_id == org_id, audit_log.c.id == entry_id)
        async with self._database.statement() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        return None if row is None else AuditEntry(**row)


def add_entry(connection: Connection, entry: AuditEntry) -> None:
    """Add an entry, in a transaction."""
    connection.execute(insert(audit_log).values({name: getattr(entry, name) for name in _FIELDS}))
    connection.execute(insert(untold_entries).values(entry_id=entry.id))
    enqueue(connection, RecordKind.AUDIT, entry.org_id, entry.id, None, entry.at)


def _conditions(org_id: UUID, criteria: AuditFilter) -> tuple[list[ColumnElement[bool]], list[ColumnElement[bool]]]:
    """Return the conditions that use an index, and those that are tried row by row."""
    lead: list[ColumnElement[bool]] = [audit_log.c.org_id == org_id]
    sieves: list[ColumnElement[bool]] = []
    for spec in fields(criteria):
        value = getattr(criteria, spec.name)
        if value is None:
            continue
        if spec.name == "created_after":
            lead.append(audit_log.c.at >= value)
        elif spec.name == "created_before":
            lead.append(audit_log.c.at <= value)
        else:
            sieves.append(audit_log.c[spec.name] == value)
    return lead, sieves
