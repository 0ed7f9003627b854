"""Sessions: rows that are opened, claimed and ended by workers, and listed by people."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    bindparam,
    delete,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from postern.domain.command import NOTHING_ADDED, Invocation
from postern.domain.lists import Page, Stretch
from postern.domain.secret import Secret
from postern.domain.session import CHANGES, Session, SessionEvent, SessionStatus, sources, target
from postern.store.batch import Batch
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports import Ended, SessionFilter
from postern.store.ports.telling import ALL, AT_THE_END, OPENED
from postern.store.prepared import Prepared
from postern.store.schema import session_starts, sessions
from postern.store.sql.rows import session_of
from postern.store.sql.session_conditions import has_status
from postern.store.sql.session_list import find

# Statements of every session are built once: building one costs more than SQLite takes to run it.
_ADD = Prepared(insert(sessions))
_SET = update(sessions).where(sessions.c.id == bindparam("session"))
_SET = _SET.values(
    {name: bindparam(f"new_{name}", type_=sessions.c[name].type) for name in sorted(CHANGES[SessionEvent.ENDED])}
    | {"pending": literal_column(f"case status when 'ready' then {ALL} else pending | {AT_THE_END} end", Integer)}
)


def _can(event: SessionEvent) -> ColumnElement[bool]:
    """That the row is in a state in which this can happen."""
    return or_(*(sessions.c.status == state for state in sources(event)))


_END = Prepared(_SET.where(_can(SessionEvent.ENDED)))
_WITHDRAW = _SET.where(_can(SessionEvent.WITHDRAWN))
_TAKEN = {column.name for column in sessions.c} - (
    {
        "principal_id",
        "source",
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
_MAPS = ("connection_tags", "integrations_metadata", "labels", "metadata", "metrics")


class SqlSessions:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption
        self._ends: Batch[dict[str, Any], bool] = Batch(self._write_ends)

    async def add(
        self, session: Session, *, principal_id: UUID, source: str, invocation: Invocation = NOTHING_ADDED
    ) -> None:
        values: dict[str, Any] = {name: getattr(session, name) for name in _TAKEN}
        for name in _MAPS:
            values[name] = dict(values[name])
        pending = 0 if session.status is SessionStatus.READY else OPENED
        values |= {"principal_id": principal_id, "source": source, "pending": pending}
        if not invocation:
            async with self._database.statement() as connection:
                await connection.run_sync(lambda connection: _ADD.count(connection, values))
            return
        sealed = await self._encryption.seal(_written(invocation), row=_sealed_row(session.id), org_id=None)
        async with self._database.transaction() as transaction:
            await transaction.execute(insert(sessions).values(values))
            await transaction.execute(insert(session_starts).values(session_id=session.id, content=sealed))

    async def take_invocation(self, session_id: UUID) -> Invocation:
        statement = delete(session_starts).where(session_starts.c.session_id == session_id)
        async with self._database.statement() as connection:
            sealed = (await connection.execute(statement.returning(session_starts.c.content))).scalar_one_or_none()
        if sealed is None:
            return NOTHING_ADDED
        return _read(await self._encryption.open(sealed, row=_sealed_row(session_id), org_id=None))

    async def end(self, session_id: UUID, ended: Ended) -> bool:
        return await self._ends.add(_end_values(session_id, ended))

    async def _write_ends(self, ends: list[dict[str, Any]]) -> list[bool]:
        order = sorted(range(len(ends)), key=lambda at: ends[at]["session"])  # see locking.py

        def write(connection: Connection) -> list[bool]:
            ended = {at: _END.count(connection, ends[at]) == 1 for at in order}
            return [ended[at] for at in range(len(ends))]

        return await self._database.together(write)

    async def end_if_ready(self, session_id: UUID, ended: Ended) -> bool:
        async with self._database.statement() as connection:
            if (await connection.execute(_WITHDRAW, _end_values(session_id, ended))).rowcount != 1:
                return False
        await self.take_invocation(session_id)
        return True

    async def claim(self, session_id: UUID, worker: str, at: datetime) -> tuple[Session, UUID, str] | None:
        """The condition on the status makes the UPDATE the lock: only one of many finds the row ready."""
        statement = (
            update(sessions)
            .where(sessions.c.id == session_id, _can(SessionEvent.CLAIMED))
            .values(status=target(SessionEvent.CLAIMED), worker=worker, start_date=at, pending=OPENED)
            .returning(*sessions.c)
        )
        async with self._database.statement() as connection:
            row = (await connection.execute(statement)).mappings().one_or_none()
        return None if row is None else (session_of(row), row["principal_id"], row["source"])

    async def ids(self, status: SessionStatus, worker: str | None) -> list[UUID]:
        wanted = select(sessions.c.id).where(has_status(status)).order_by(sessions.c.start_date)
        if worker is not None:
            wanted = wanted.where(sessions.c.worker == worker)
        async with self._database.statement() as connection:
            return list((await connection.execute(wanted)).scalars())

    async def get(self, org_id: UUID, session_id: UUID) -> Session | None:
        wanted = select(*sessions.c).where(sessions.c.org_id == org_id, sessions.c.id == session_id)
        async with self._database.statement() as connection:
            row = (await connection.execute(wanted)).mappings().one_or_none()
        return None if row is None else session_of(row)

    async def find(self, org_id: UUID, wanted: SessionFilter, page: Page) -> Stretch[Session]:
        async with self._database.planned() as connection:
            return await connection.run_sync(lambda connection: find(connection, org_id, wanted, page))


def _sealed_row(session_id: UUID) -> str:
    return f"session_starts/{session_id}"


def _written(invocation: Invocation) -> bytes:
    environment = {name: value.reveal() for name, value in invocation.environment.items()}
    return json.dumps({"arguments": invocation.arguments, "environment": environment}).encode()


def _read(content: bytes) -> Invocation:
    found = json.loads(content)
    return Invocation(tuple(found["arguments"]), {name: Secret(value) for name, value in found["environment"].items()})


def _end_values(session_id: UUID, ended: Ended) -> dict[str, Any]:
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
