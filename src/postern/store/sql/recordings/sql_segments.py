"""The rows of stored segments."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from sqlalchemy import bindparam, exists, func, insert, select
from sqlalchemy.exc import IntegrityError

from postern.domain.sessions.ledger import EntryKind
from postern.domain.sessions.segment import Segment
from postern.errors import Gone
from postern.store.database import Database
from postern.store.prepared import PreparedStatement
from postern.store.schema.recording_tables import ledger, segments
from postern.store.schema.retention_tables import KEEPING
from postern.store.schema.session_tables import sessions

_OF = PreparedStatement(
    select(*segments.c).where(segments.c.session_id == bindparam("session")).order_by(segments.c.number)
)
_ORIGIN = PreparedStatement(
    select(sessions.c.org_id, sessions.c.start_date, sessions.c.recording_purged_at).where(
        sessions.c.id == bindparam("session")
    )
)


class SqlSegments:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, segment: Segment) -> bool:
        values = {column.name: getattr(segment, column.name) for column in segments.c}
        try:
            async with self._database.statement() as connection:
                await connection.execute(insert(segments).values(values))
        except IntegrityError:
            same = (segments.c.session_id == segment.session_id, segments.c.number == segment.number)
            async with self._database.statement() as connection:
                if (await connection.execute(select(segments.c.number).where(*same))).one_or_none() is None:
                    raise  # it is the session that is not there
            return False
        return True

    async def of(self, session_id: UUID) -> list[Segment]:
        session = {"session": session_id}
        rows = await self._database.run_direct(lambda connection: _OF.rows(connection, session), writes=False)
        return [Segment(**row) for row in rows]

    async def count_by_key(self) -> Mapping[UUID, int]:
        """Return how many are encrypted with each data key, of all organisations."""
        query = select(segments.c.data_key, func.count().label("number")).group_by(segments.c.data_key)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query.where(segments.c.data_key.is_not(None)))).all()
        return {row.data_key: row.number for row in rows}

    async def origin(self, session_id: UUID) -> tuple[UUID, datetime] | None:
        session = {"session": session_id}
        rows = await self._database.run_direct(lambda connection: _ORIGIN.rows(connection, session), writes=False)
        if not rows:
            return None
        row = rows[0]
        if row["recording_purged_at"] is not None:
            raise Gone(f"the recording of session {session_id} was purged")
        return row["org_id"], row["start_date"]

    async def is_purged(self, session_id: UUID) -> bool:
        purged = exists().where(ledger.c.session_id == session_id, KEEPING, ledger.c.kind == EntryKind.PURGED.value)
        async with self._database.statement() as connection:
            return bool((await connection.execute(select(purged))).scalar_one())
