"""The audit log: appended to, never changed."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import insert, select

from postern.store.database import Database
from postern.store.ports import AuditEntry
from postern.store.schema import audit_log

_FIELDS = [column.name for column in audit_log.c]


class SqlAudit:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, entry: AuditEntry) -> None:
        async with self._database.statement() as connection:
            values = {name: getattr(entry, name) for name in _FIELDS} | {"body": dict(entry.body)}
            await connection.execute(insert(audit_log).values(values))

    async def newest(self, org_id: UUID, limit: int) -> list[AuditEntry]:
        wanted = select(*audit_log.c).where(audit_log.c.org_id == org_id).order_by(audit_log.c.at.desc()).limit(limit)
        async with self._database.statement() as connection:
            return [AuditEntry(**row) for row in (await connection.execute(wanted)).mappings()]
