"""Schedules: runbooks that run by themselves, as their owner, at the times of a cron expression."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from postern.domain.connection import check_new_name
from postern.domain.lists import Listed, Page
from postern.domain.principal import Principal, PrincipalKind
from postern.domain.runbook import Schedule
from postern.domain.secret import Secret
from postern.domain.session import Session, SessionStatus
from postern.errors import Conflict, Denied, Invalid, NotFound, PosternError
from postern.services.access_control import AccessControl
from postern.services.runbooks.cron import next_time
from postern.services.runbooks.runs import RunRequest, Runs
from postern.services.server.trail import changed
from postern.store.ports import Clock, NamedSchedule, PrincipalStore, ScheduleStore, SessionStore

__all__ = ["NamedSchedule", "ScheduleFields", "Schedules"]

log = logging.getLogger(__name__)

MAX_SCHEDULES = 500  # of an organisation
LATEST = timedelta(hours=1)  # after its time, that a run still begins
SOURCE: Final = "schedule"  # where its sessions come from, in the place of an address
_BATCH, _AT_ONCE = 50, 8
_OWNERS = (PrincipalKind.USER, PrincipalKind.SERVICE_ACCOUNT)


@dataclass(frozen=True, slots=True)
class ScheduleFields:
    """What a writer sets; `connection` is a name or id, `repository` a name or address, empty for the only one. None
    leaves as it is, where there is something already; `parameters` are replaced whole."""

    name: str | None = None
    connection: str | None = None
    repository: str | None = None
    file: str | None = None
    cron: str | None = None
    zone: str | None = None
    parameters: Mapping[str, Secret] | None = None
    enabled: bool | None = None

    @property
    def only_switches_off(self) -> bool:
        return self == ScheduleFields(enabled=False)

    @property
    def says_what_runs(self) -> bool:
        return any(one is not None for one in (self.connection, self.repository, self.file, self.parameters))


class Schedules:
    def __init__(
        self,
        store: ScheduleStore,
        principals: PrincipalStore,
        sessions: SessionStore,
        control: AccessControl,
        runs: Runs,
        now: Clock,
    ) -> None:
        self._store = store
        self._principals = principals
        self._sessions = sessions
        self._control = control
        self._runs = runs
        self._now = now
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def find(self, principal: Principal, page: Page) -> Listed[NamedSchedule]:
        """By name: one's own; all of them for administrators and auditors."""
        return await self._store.find(principal.org_id, None if principal.sees_all else principal.id, page)

    async def get(self, principal: Principal, name_or_id: str) -> NamedSchedule:
        """Raises NotFound also for somebody else's, unless they see all."""
        found = await self._store.get(principal.org_id, name_or_id)
        if found is None or not (principal.sees_all or found.schedule.owner_id == principal.id):
            raise NotFound(f"there is no schedule {name_or_id!r}, or it is not yours")
        return found

    async def create(self, principal: Principal, given: ScheduleFields) -> NamedSchedule:
        """It runs as who creates it. The runbook is filled in once, so that what is wrong with its parameters is said
        now. Raises as `Runs.submit`, and Conflict, TooMany."""
        if principal.kind not in _OWNERS:
            raise Denied("only users and service accounts may have schedules: a run needs an owner who stays")
        at = self._now()
        empty = Schedule(uuid4(), principal.org_id, "", principal.id, uuid4(), "", "", "", created_at=at, updated_at=at)
        schedule = await self._merged(principal, empty, given, at)
        await self._store.add(schedule, MAX_SCHEDULES)
        changed(None, _told(schedule))
        return await self.get(principal, str(schedule.id))

    async def update(self, principal: Principal, name_or_id: str, given: ScheduleFields) -> NamedSchedule:
        """By its owner, whom it runs as; an administrator may switch it off. Its next run is planned anew. Raises as
        `create`, and NotFound, Denied."""
        current = (await self.get(principal, name_or_id)).schedule
        if current.owner_id != principal.id:
            if not principal.is_admin:
                raise Denied("only its owner may change a schedule")
            if not given.only_switches_off:
                raise Denied(
                    "a schedule runs as its owner, who alone may change it; an administrator may switch it off or "
                    "delete it, and create another one"
                )
        assert current.updated_at is not None, "only those of the store are changed"
        at = max(self._now(), current.updated_at + timedelta(microseconds=1))
        schedule = await self._merged(principal, current, given, at)
        await self._store.update(schedule, current)
        changed(_told(current), _told(schedule))
        return await self.get(principal, str(schedule.id))

    async def remove(self, principal: Principal, name_or_id: str) -> None:
        """By its owner or an administrator; what runs goes on. Raises NotFound, Denied."""
        current = (await self.get(principal, name_or_id)).schedule
        if current.owner_id != principal.id and not principal.is_admin:
            raise Denied("only its owner or an administrator may delete a schedule")
        await self._store.remove(current.id)
        changed(_told(current), None)

    async def run(self, principal: Principal, name_or_id: str) -> Session:
        """Now, beside its times, also while it is switched off; only by its owner. Raises as `Runs.submit`, and
        NotFound, Denied."""
        schedule = (await self.get(principal, name_or_id)).schedule
        if schedule.owner_id != principal.id:
            raise Denied("only its owner may run a schedule: it runs as them")
        session = await self._submit(principal, schedule)
        await self._store.ran(schedule.id, session.id, "")
        return session

    async def once(self) -> bool:
        """Begins what is due, of all organisations; each run by one process alone. Whether more may be due."""
        due = await self._store.due(self._now(), _BATCH)
        outcomes = await asyncio.gather(*(self._begin(schedule) for schedule in due), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):  # the store does not answer
                raise outcome
        return len(due) == _BATCH

    async def _begin(self, due: Schedule) -> None:
        """One run. It is taken before it begins, so that it never comes twice; and what goes wrong is told where its
        owner looks, and leaves the next one as it is planned."""
        async with self._at_once:
            now, due_at = self._now(), due.next_at
            if due_at is None or not await self._store.take(due.id, due_at, _after(due, now), now):
                return
            session_id, why = None, ""
            try:
                session_id = (await self._run_due(due, due_at, now)).id
            except PosternError as error:
                why = error.message
            except Exception:
                log.exception("schedule %s came to nothing", due.id)
                why = "the gateway met an error that it did not expect; its log has it"
            if why:
                log.warning("schedule %s of organisation %s did not run: %s", due.id, due.org_id, why)
            await self._store.ran(due.id, session_id, why)

    async def _run_due(self, due: Schedule, due_at: datetime, now: datetime) -> Session:
        """Raises as `Runs.submit`, and why it is left out."""
        if now - due_at > LATEST:
            raise Conflict(f"missed: it was due at {due_at:%Y-%m-%d %H:%M} UTC, when no gateway ran")
        named = await self._store.get(due.org_id, str(due.id))  # as it was saved, also a moment ago
        if named is None:
            raise NotFound("it was deleted")
        schedule = named.schedule
        if await self._still_runs(schedule):
            raise Conflict(f"skipped: session {schedule.last_session_id}, the run before, has not ended")
        account = await self._principals.get(due.org_id, schedule.owner_id)
        if account is None:
            raise Denied("its owner was deleted; an administrator may delete it")
        return await self._submit(account.principal, schedule)

    async def _still_runs(self, schedule: Schedule) -> bool:
        """Or waits for its review."""
        if schedule.last_session_id is None:
            return False
        last = await self._sessions.get(schedule.org_id, schedule.last_session_id)
        return last is not None and last.status is not SessionStatus.DONE

    async def _submit(self, owner: Principal, schedule: Schedule) -> Session:
        return await self._runs.submit(
            owner, _wanted(schedule), source=SOURCE, means=f"schedule:{schedule.id}", schedule=schedule.name
        )

    async def _merged(self, principal: Principal, current: Schedule, given: ScheduleFields, at: datetime) -> Schedule:
        if given.name is not None:
            check_new_name(given.name)
        chosen = {name: value for name in _PLAIN if (value := getattr(given, name)) is not None}
        merged = replace(current, **chosen, updated_at=at)
        if given.connection is not None:
            found = await self._control.find(principal, given.connection)
            if found is None:
                raise NotFound(f"there is no connection {given.connection!r}; list them and check the name")
            merged = replace(merged, connection_id=found.id)
        if given.says_what_runs or (merged.enabled and not current.enabled):
            filled = await self._runs.fill(principal, _wanted(merged))
            merged = replace(merged, repository=filled.runbook.repository, file=filled.runbook.file)
        if not merged.enabled and given.cron is None and given.zone is None:
            return replace(merged, next_at=None)
        coming = next_time(merged.cron, merged.zone, at)
        return replace(merged, next_at=coming if merged.enabled else None)


_PLAIN = ("name", "repository", "file", "cron", "zone", "parameters", "enabled")


def _after(due: Schedule, now: datetime) -> datetime | None:
    try:
        return next_time(due.cron, due.zone, now)
    except Invalid as error:  # saved with other time zones than there are now
        log.warning("schedule %s has no next time: %s", due.id, error.message)
        return None


def _wanted(schedule: Schedule) -> RunRequest:
    return RunRequest(str(schedule.connection_id), schedule.file, schedule.repository, parameters=schedule.parameters)


def _told(schedule: Schedule) -> dict[str, object]:
    """For the audit log, which shows no value of a parameter: some are secret."""
    shown = ("id", "name", "owner_id", "connection_id", "repository", "file", "cron", "zone", "enabled")
    return {name: getattr(schedule, name) for name in shown} | {"parameter_names": sorted(schedule.parameters)}
