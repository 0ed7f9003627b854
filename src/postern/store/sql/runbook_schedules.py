"""Schedules of runbooks, the values of their parameters sealed."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import RowMapping, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.lists import Listed, Page
from postern.domain.runbook import Schedule
from postern.domain.secret import Secret
from postern.errors import Conflict, TooMany
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports import NamedSchedule
from postern.store.schema import connections, runbook_schedules, users
from postern.store.sql.locking import one_at_a_time
from postern.store.sql.rows import count_of
from postern.store.sql.rule_parts import one_of

INTERRUPTED: Final = "the gateway was stopped while this run began; look for its session, the next run comes as planned"

_FIXED = ("id", "org_id", "owner_id", "created_at")
_CHOSEN = ("name", "connection_id", "repository", "file", "cron", "zone", "enabled", "next_at", "updated_at")
_TOLD = ("last_at", "last_session_id", "last_error")
_NAMED = (
    select(
        *runbook_schedules.c,
        connections.c.name.label("connection"),
        func.coalesce(users.c.email, "").label("owner"),
    )
    .select_from(runbook_schedules)
    .join(connections, connections.c.id == runbook_schedules.c.connection_id)
    .outerjoin(users, users.c.id == runbook_schedules.c.owner_id)
)


class SqlRunbookSchedules:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def find(self, org_id: UUID, owner_id: UUID | None, page: Page) -> Listed[NamedSchedule]:
        own = [runbook_schedules.c.org_id == org_id]
        if owner_id is not None:
            own.append(runbook_schedules.c.owner_id == owner_id)
        wanted = _NAMED.where(*own).order_by(runbook_schedules.c.name).limit(page.limit).offset(page.offset)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
            total = (await connection.execute(count_of(runbook_schedules, *own))).scalar_one()
        return Listed([await self._named(row) for row in rows], total)

    async def get(self, org_id: UUID, name_or_id: str) -> NamedSchedule | None:
        async with self._database.statement() as connection:
            wanted = one_of(runbook_schedules, _NAMED, org_id, name_or_id)
            row = (await connection.execute(wanted)).mappings().one_or_none()
        return None if row is None else await self._named(row)

    async def add(self, schedule: Schedule, most: int) -> None:
        values = await self._values(schedule) | {name: getattr(schedule, name) for name in (*_FIXED, *_TOLD)}
        own = runbook_schedules.c.org_id == schedule.org_id
        try:
            async with self._database.transaction() as transaction:
                await one_at_a_time(transaction)
                if (await transaction.execute(count_of(runbook_schedules, own))).scalar_one() >= most:
                    raise TooMany(f"an organisation may have {most} schedules; delete one first")
                await transaction.execute(insert(runbook_schedules).values(values))
        except IntegrityError:
            raise _taken(schedule) from None

    async def update(self, schedule: Schedule, read: Schedule) -> None:
        same = (runbook_schedules.c.id == schedule.id, runbook_schedules.c.updated_at == read.updated_at)
        changed = update(runbook_schedules).where(*same)
        values = await self._values(schedule)
        try:
            async with self._database.statement() as connection:
                done = await connection.execute(changed.values(values))
        except IntegrityError:
            raise _taken(schedule) from None
        if done.rowcount != 1:
            raise Conflict(f"schedule {schedule.name!r} was changed or deleted meanwhile; look at it, and try again")

    async def remove(self, schedule_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(runbook_schedules).where(runbook_schedules.c.id == schedule_id))

    async def due(self, now: datetime, most: int) -> list[Schedule]:
        mine = (runbook_schedules.c.enabled, runbook_schedules.c.next_at <= now)
        wanted = select(*runbook_schedules.c).where(*mine).order_by(runbook_schedules.c.next_at).limit(most)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
        # What is sealed is opened for each run by itself: one that cannot be must not hold up the others.
        return [Schedule(**{name: row[name] for name in (*_FIXED, *_CHOSEN, *_TOLD)}) for row in rows]

    async def take(self, schedule_id: UUID, due_at: datetime, next_at: datetime | None, at: datetime) -> bool:
        mine = (
            runbook_schedules.c.id == schedule_id,
            runbook_schedules.c.next_at == due_at,
            runbook_schedules.c.enabled,
        )
        changed = update(runbook_schedules).where(*mine).values(next_at=next_at, last_at=at, last_error=INTERRUPTED)
        async with self._database.statement() as connection:
            return (await connection.execute(changed)).rowcount == 1

    async def ran(self, schedule_id: UUID, session_id: UUID | None, error: str) -> None:
        told: dict[str, object] = {"last_error": error}
        if session_id is not None:
            told["last_session_id"] = session_id
        async with self._database.statement() as connection:
            await connection.execute(
                update(runbook_schedules).where(runbook_schedules.c.id == schedule_id).values(told)
            )

    async def _values(self, schedule: Schedule) -> dict[str, Any]:
        clear = json.dumps({name: value.reveal() for name, value in schedule.parameters.items()}).encode()
        sealed = await self._encryption.seal(clear, row=_row(schedule.id), org_id=schedule.org_id)
        return {name: getattr(schedule, name) for name in _CHOSEN} | {"parameters": sealed}

    async def _schedule(self, row: RowMapping) -> Schedule:
        opened = await self._encryption.open(row["parameters"], row=_row(row["id"]), org_id=row["org_id"])
        parameters = {name: Secret(value) for name, value in json.loads(opened).items()}
        return Schedule(**{name: row[name] for name in (*_FIXED, *_CHOSEN, *_TOLD)}, parameters=parameters)

    async def _named(self, row: RowMapping) -> NamedSchedule:
        return NamedSchedule(await self._schedule(row), row["connection"], row["owner"])


def _row(schedule_id: UUID) -> str:
    return f"runbook_schedules/{schedule_id}"


def _taken(schedule: Schedule) -> Conflict:
    """Services check the connection first, so only a change at the same moment leads to the second."""
    return Conflict(
        f"name: a schedule {schedule.name!r} exists already, or its connection was just removed", field="name"
    )
