"""The audit log: appended to, never changed."""

from __future__ import annotations

from dataclasses import fields
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, insert, select

from postern.domain.ledger import RecordKind
from postern.domain.lists import Listed, Page
from postern.store.database import Database
from postern.store.ports import AuditEntry, AuditFilter
from postern.store.schema import audit_log, untold_entries
from postern.store.sql.records import enqueue
from postern.store.sql.rows import count_of

_FIELDS = [column.name for column in audit_log.c]


class SqlAudit:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, entry: AuditEntry) -> None:
        await self._database.together(lambda connection: add_entry(connection, entry))

    async def find(self, org_id: UUID, wanted: AuditFilter, page: Page) -> Listed[AuditEntry]:
        conditions = _conditions(org_id, wanted)
        rows = select(*audit_log.c).where(*conditions).order_by(audit_log.c.at.desc(), audit_log.c.id)
        async with self._database.planned() as connection:
            found = (await connection.execute(rows.limit(page.limit).offset(page.offset))).mappings().all()
            total = (await connection.execute(count_of(audit_log, *conditions))).scalar_one()
        return Listed([AuditEntry(**row) for row in found], total)

    async def get(self, org_id: UUID, entry_id: UUID) -> AuditEntry | None:
        wanted = select(*audit_log.c).where(audit_log.c.org_id == org_id, audit_log.c.id == entry_id)
        async with self._database.statement() as connection:
            row = (await connection.execute(wanted)).mappings().one_or_none()
        return None if row is None else AuditEntry(**row)


def add_entry(connection: Connection, entry: AuditEntry) -> None:
    """In a transaction."""
    connection.execute(insert(audit_log).values({name: getattr(entry, name) for name in _FIELDS}))
    connection.execute(insert(untold_entries).values(entry_id=entry.id))
    enqueue(connection, RecordKind.AUDIT, entry.org_id, entry.id, None, entry.at)


def _conditions(org_id: UUID, wanted: AuditFilter) -> list[ColumnElement[bool]]:
    conditions = [audit_log.c.org_id == org_id]
    for spec in fields(wanted):
        value = getattr(wanted, spec.name)
        if value is None:
            continue
        if spec.name == "created_after":
            conditions.append(audit_log.c.at >= value)
        elif spec.name == "created_before":
            conditions.append(audit_log.c.at <= value)
        else:
            conditions.append(audit_log.c[spec.name] == value)
    return conditions
