"""Holds: each with its entry of the ledger, or not at all."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping, delete, exists, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.lists import Page, Stretch
from postern.domain.sessions.ledger import LedgerEntry
from postern.domain.sessions.retention import LegalHold
from postern.errors import Conflict, NotFound
from postern.store.database import Database
from postern.store.schema.identity_tables import orgs
from postern.store.schema.retention_tables import holds, purges
from postern.store.schema.session_tables import sessions
from postern.store.sql.long_lists import LongList, by_time, find_page
from postern.store.sql.recordings.sql_ledger import LedgerTaken, append

_FIELDS = [column.name for column in holds.c]


class SqlHolds:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, org_id: UUID, page: Page) -> Stretch[LegalHold]:
        listed = LongList(list(holds.c), by_time(holds.c.at, holds.c.id), [holds.c.org_id == org_id])
        async with self._database.plan_each() as statement:
            return await statement.run_sync(lambda connection: find_page(connection, listed, page, _hold_of))

    async def of(self, session_id: UUID) -> list[LegalHold]:
        query = select(*holds.c).where(holds.c.session_id == session_id).order_by(holds.c.name)
        async with self._database.statement() as connection:
            return [_hold_of(row) for row in (await connection.execute(query)).mappings()]

    async def add(self, hold: LegalHold, entry: LedgerEntry) -> bool:
        return await self._with_entry(entry, lambda connection: _add(connection, hold))

    async def remove(self, hold: LegalHold, entry: LedgerEntry) -> bool:
        return await self._with_entry(entry, lambda connection: _remove(connection, hold))

    async def _with_entry(self, entry: LedgerEntry, change: Any) -> bool:
        """Append the entry first: other writers of the ledger wait for it, so that what is checked then stays so."""

        def work(connection: Connection) -> None:
            append(connection, [entry])
            change(connection)

        try:
            await self._database.together(work)
        except (IntegrityError, LedgerTaken):
            return False
        return True


def _add(connection: Connection, hold: LegalHold) -> None:
    query = select(orgs.c.id).where(orgs.c.id == hold.org_id, orgs.c.deleting_at.is_(None))
    if connection.execute(query.with_for_update(read=True, key_share=True)).one_or_none() is None:
        raise Conflict("this organisation is being deleted; it is too late for a legal hold")
    if connection.execute(select(exists().where(purges.c.session_id == hold.session_id))).scalar_one():
        raise Conflict(f"session {hold.session_id} is being purged; it is too late for a legal hold")
    same = (holds.c.session_id == hold.session_id, holds.c.name == hold.name)
    if connection.execute(select(exists().where(*same))).scalar_one():
        raise Conflict(
            f"name: session {hold.session_id} already has a legal hold {hold.name!r}; choose another name", field="name"
        )
    result = connection.execute(
        update(sessions).where(sessions.c.id == hold.session_id).values(holds=sessions.c.holds + 1)
    )
    if result.rowcount != 1:
        raise NotFound(f"session {hold.session_id} no longer exists")
    connection.execute(insert(holds).values({name: getattr(hold, name) for name in _FIELDS}))


def _remove(connection: Connection, hold: LegalHold) -> None:
    if connection.execute(delete(holds).where(holds.c.id == hold.id)).rowcount != 1:
        raise NotFound(f"the legal hold {hold.name!r} was already removed")
    connection.execute(update(sessions).where(sessions.c.id == hold.session_id).values(holds=sessions.c.holds - 1))


def _hold_of(row: RowMapping) -> LegalHold:
    return LegalHold(**row)
