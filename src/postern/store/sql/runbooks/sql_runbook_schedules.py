"""Schedules of runbooks; values of parameters and of issue fields are sealed."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Select, delete, func, insert, select, update

from postern.domain.lists import Listed, Page
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.domain.runbook import Schedule, ScheduleRun
from postern.domain.secret import Secret
from postern.errors import Misconfigured, TooMany
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.prepared import Row
from postern.store.schema.identity_tables import users
from postern.store.schema.runbook_tables import runbook_schedule_runs, runbook_schedules
from postern.store.schema.target_tables import connections
from postern.store.sql.resource_table import ResourceTable

log = logging.getLogger(__name__)

_SHUT = "its parameters cannot be decrypted with the keys of this server"
BEGINS: Final = "the gateway stopped while it started this run; the result appears here within a few minutes"

_CHOSEN = ("name", "connection_id", "repository", "file", "cron", "zone", "enabled", "next_at", "updated_at")
_SEALED = ("parameters", "tracker_fields")
_KEPT = ("org_id", "owner_id", "owner", "connection_id", "connection", "repository", "file")  # of a run
_SHOWN = (  # all but what is sealed
    *("id", "org_id", "owner_id", "created_at", "managed_by", "version", *_CHOSEN),
    *("last_at", "last_session_id", "last_error"),
)


class SqlRunbookSchedules(ResourceTable[Schedule]):
    """Runs write into these rows, too. That is not a change of the schedule, so the version stays."""

    table, noun = runbook_schedules, "schedule"
    most, full = 500, TooMany

    def __init__(self, database: Database, encryption: Encryption) -> None:
        super().__init__(database)
        self._encryption = encryption

    def select_rows(self) -> Select[Any]:
        owner = func.coalesce(users.c.email, "").label("owner")
        return (
            select(*runbook_schedules.c, connections.c.name.label("connection"), owner)
            .select_from(runbook_schedules)
            .join(connections, connections.c.id == runbook_schedules.c.connection_id)
            .outerjoin(users, users.c.id == runbook_schedules.c.owner_id)
        )

    async def find(
        self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES, owner_id: UUID | None = None
    ) -> Listed[Schedule]:
        conditions = [] if owner_id is None else [runbook_schedules.c.owner_id == owner_id]
        return await self.some(page, runbook_schedules.c.org_id == org_id, *self._conditions(where), *conditions)

    async def read(self, row: Row) -> Schedule:
        parameters, problem = {}, ""
        try:
            parameters = await self._unseal(row)
        except Misconfigured as error:
            log.warning("the parameters of a schedule cannot be decrypted: schedule=%s error=%s", row["id"], error)
            problem = _SHUT
        return Schedule(**{name: row[name] for name in (*_SHOWN, "connection", "owner")}, **parameters, problem=problem)

    async def values(self, resource: Schedule) -> dict[str, Any]:
        sealed = {} if resource.problem else await self._seal(resource)  # its key may come back
        return {name: getattr(resource, name) for name in ("owner_id", *_CHOSEN)} | sealed

    def conflict_message(self, resource: Schedule) -> str:
        """Return the reason. Services check the connection first, so the second reason only follows a concurrent
        change."""
        return f"name: a schedule {resource.name!r} exists already, or its connection was just deleted"

    async def due(self, now: datetime, most: int, most_each: int) -> list[Schedule]:
        columns = runbook_schedules.c
        # What is sealed is opened for each run by itself: one that cannot be must not hold up the others.
        turn = func.row_number().over(partition_by=columns.org_id, order_by=(columns.next_at, columns.id)).label("turn")
        mine = (columns.enabled, columns.next_at <= now)
        ranked = select(*(columns[name] for name in _SHOWN), turn).where(*mine).subquery().c
        query = select(*(ranked[name] for name in _SHOWN)).where(ranked.turn <= most_each)
        async with self._database.statement() as connection:
            rows = await connection.execute(query.order_by(ranked.turn, ranked.next_at).limit(most))
            return [Schedule(**row) for row in rows.mappings()]

    async def take(
        self, run_id: UUID, schedule_id: UUID, due_at: datetime, next_at: datetime | None, at: datetime
    ) -> bool:
        mine = (
            runbook_schedules.c.id == schedule_id,
            runbook_schedules.c.next_at == due_at,
            runbook_schedules.c.enabled,
        )
        changed = update(runbook_schedules).where(*mine).values(next_at=next_at, last_at=at, last_error=BEGINS)
        async with self._database.transaction() as transaction:
            if (await transaction.execute(changed)).rowcount != 1:
                return False
            query = self.select_rows().where(runbook_schedules.c.id == schedule_id)
            row = (await transaction.execute(query)).mappings().one()
            values = {name: row[name] for name in _KEPT}
            run = ScheduleRun(run_id, schedule_id=schedule_id, schedule=row["name"], due_at=due_at, at=at, **values)
            await transaction.execute(insert(runbook_schedule_runs).values(asdict(run)))
            return True

    async def settle(self, run_id: UUID, error: str) -> bool:
        runs = runbook_schedule_runs
        mine = (runs.c.id == run_id, runs.c.error == "")
        settled = update(runs).where(*mine).values(error=error) if error else delete(runs).where(*mine)
        async with self._database.transaction() as transaction:
            run = (await transaction.execute(settled.returning(runs.c.schedule_id, runs.c.at))).one_or_none()
            if run is None:
                return False
            changed = update(runbook_schedules).where(runbook_schedules.c.id == run.schedule_id)
            if not error:
                await transaction.execute(changed.values(last_session_id=run_id))
            await transaction.execute(changed.where(runbook_schedules.c.last_at == run.at).values(last_error=error))
            return True

    async def find_unsettled(self, before: datetime, most: int, schedule_id: UUID | None = None) -> list[ScheduleRun]:
        runs = runbook_schedule_runs.c
        query = select(*runs).where(runs.error == "", runs.at < before).order_by(runs.at, runs.id).limit(most)
        if schedule_id is not None:
            query = query.where(runs.schedule_id == schedule_id)
        async with self._database.statement() as connection:
            return [ScheduleRun(**row) for row in (await connection.execute(query)).mappings()]

    async def ran(self, schedule_id: UUID, session_id: UUID) -> None:
        changed = update(runbook_schedules).where(runbook_schedules.c.id == schedule_id)
        async with self._database.statement() as connection:
            await connection.execute(changed.values(last_session_id=session_id, last_error=""))

    async def _seal(self, schedule: Schedule) -> dict[str, Any]:
        parameters = {
            kind: {name: value.reveal() for name, value in getattr(schedule, kind).items()} for kind in _SEALED
        }
        sealed = await self._encryption.seal(
            json.dumps(parameters).encode(), row=_row(schedule.id), org_id=schedule.org_id
        )
        return {"given": sealed}

    async def _unseal(self, row: Row) -> dict[str, Any]:
        """Decrypt the values. Raises Misconfigured."""
        opened = json.loads(await self._encryption.open(row["given"], row=_row(row["id"]), org_id=row["org_id"]))
        return {kind: {name: Secret(value) for name, value in opened[kind].items()} for kind in _SEALED}


def _row(schedule_id: UUID) -> str:
    return f"runbook_schedules/{schedule_id}"
