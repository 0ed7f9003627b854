"""Schedules: runbooks that run automatically, as their owner, at the times of a cron expression.

The next time of an expression is computed in a time zone, also across changes of daylight saving time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.lists import Listed, Page
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.domain.runbook import SCHEDULE_SOURCE, Schedule
from postern.domain.sessions.session import Session, SessionStatus
from postern.errors import Conflict, Denied, Invalid, NotFound, PosternError
from postern.services.named_resources import ResourceService
from postern.services.rules.access_control import AccessControl
from postern.services.runbooks.runs import RunRequest, Runs
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.identity_ports import PrincipalStore
from postern.store.ports.runbook_ports import ScheduleStore
from postern.store.ports.target_ports import SessionStore

_LONGEST, _LONGEST_ZONE = 128, 64
_FIELDS = 5


def next_time(expression: str, zone: str, after: datetime) -> datetime:
    """Return the next time after `after`, in UTC.

    A time that clocks skip becomes the first one after the gap; a repeated one is the first of the two, unless the hour
    is `*`. Raises Invalid.
    """
    return next_times(expression, zone, after, 1)[0]


def next_times(expression: str, zone: str, after: datetime, count: int) -> list[datetime]:
    """Return the next `count` times after `after`, in UTC; fewer if the expression has no more. Raises Invalid."""
    place = _zone(zone)
    times: list[datetime] = []
    with _reading(expression):
        # When clocks are set back, it can start before `after` and repeat times.
        for at in CronSim(expression, after.astimezone(place)):
            time = at.astimezone(UTC)
            if time > (times[-1] if times else after):
                times.append(time)
            if len(times) == count:
                break
    if not times:
        raise Invalid(f"cron: {expression!r} never occurs", field="cron")
    return times


def explain(expression: str) -> str:
    """Return the times of an expression in words: "At 02:30 on Monday through Friday". Raises Invalid."""
    with _reading(expression):
        return CronSim(expression, datetime.now(UTC)).explain()


@contextmanager
def _reading(expression: str) -> Iterator[None]:
    """Turn errors of reading an expression into Invalid."""
    if len(expression) > _LONGEST or len(expression.split()) != _FIELDS:
        raise Invalid(
            "cron: must be five fields: minute, hour, day of the month, month, day of the week; such as `30 2 * * MON`",
            field="cron",
        )
    try:
        yield
    except (CronSimError, AssertionError, ValueError, OverflowError) as error:
        raise Invalid(f"cron: {expression!r} cannot be read: {error}", field="cron") from None


def _zone(name: str) -> ZoneInfo:
    try:
        if len(name) > _LONGEST_ZONE:
            raise ValueError
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        text = name[:_LONGEST_ZONE]
        raise Invalid(f"zone: {text!r} is not an IANA time zone, such as Europe/Berlin", field="zone") from None


log = logging.getLogger(__name__)

LATEST = timedelta(hours=1)  # delay after which a run no longer starts
INTERRUPTED: Final = "the gateway stopped before this run had a session; the next run starts as planned"
_GRACE = timedelta(minutes=2)  # more than beginning a run takes, with the tracker that it may wait for
_BATCH, _AT_ONCE = 50, 8
_BATCH_EACH, _AT_ONCE_EACH = 8, 4  # of an organisation: a run may wait for its tracker, or for a repository
_OWNERS = (PrincipalKind.USER, PrincipalKind.SERVICE_ACCOUNT)
_SET_ANEW = ("name", "repository", "file", "cron", "zone", "enabled")  # by a replacement
_PLAIN = (*_SET_ANEW, "parameters", "tracker_fields")
_FILLED = frozenset({"connection", "repository", "file", "parameters", "tracker_fields"})  # what runs, and where
_TIMES = frozenset({"cron", "zone"})
_BY = "by"  # the field with the author of a change


class Schedules(ResourceService[Schedule]):
    """A schedule runs as its owner; an administrator can disable or delete it.

    Values of parameters and of issue fields are written and never read, so a replacement that leaves them out keeps
    them. `counted` receives the outcome of each scheduled run, once: "begun" or "failed".
    """

    noun = "schedule"
    preserved_fields = frozenset(field.name for field in fields(Schedule)) - {*_SET_ANEW, "next_at"}

    def __init__(
        self,
        store: ScheduleStore,
        signals: Signals,
        now: Clock,
        *,
        principals: PrincipalStore,
        sessions: SessionStore,
        control: AccessControl,
        runs: Runs,
    ) -> None:
        super().__init__(store, signals, now)
        self.counted: Callable[[str], None] = lambda _outcome: None
        self._schedules = store
        self._principals = principals
        self._sessions = sessions
        self._control = control
        self._runs = runs
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._shares: defaultdict[UUID, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_AT_ONCE_EACH))

    def blank(self, key: UUID, org_id: UUID) -> Schedule:
        return Schedule(key, org_id, "", key, key)

    async def find(self, principal: Principal, page: Page, where: RuleFilter = ALL_RULES) -> Listed[Schedule]:
        """Return schedules by name: the caller's own; all of them for administrators and auditors."""
        return await self._schedules.find(principal.org_id, page, where, None if principal.sees_all else principal.id)

    async def get(self, principal: Principal, name_or_id: str) -> Schedule:
        return await self.existing(principal, name_or_id)

    async def existing(self, principal: Principal, name_or_id: str) -> Schedule:
        """Return the schedule. Raises NotFound also for another user's, unless they see all."""
        schedule = await self._store.get(principal.org_id, name_or_id)
        if schedule is None or not (principal.sees_all or schedule.owner_id == principal.id):
            raise NotFound(f"there is no schedule {name_or_id!r}, or it is not yours")
        return schedule

    async def create(self, principal: Principal, fields: Mapping[str, Any]) -> Schedule:
        """Create a schedule that runs as its creator. Raises as `Runs.submit`, and Conflict, TooMany.

        The runbook is rendered once, so that wrong parameters or missing issue fields are reported now.
        """
        if principal.kind not in _OWNERS:
            raise Denied("only users and service accounts can have schedules: a run needs a lasting owner")
        return await super().create(principal, {**fields, _BY: principal})

    async def update(
        self, principal: Principal, name_or_id: str, fields: Mapping[str, Any], version: int | None = None
    ) -> Schedule:
        """Update it, as its owner; an administrator can disable it. Its next run is planned anew.

        Raises as `create`, and NotFound, PreconditionFailed.
        """
        return await super().update(principal, name_or_id, {**fields, _BY: principal}, version)

    async def replace(
        self, principal: Principal, name_or_id: str, fields: Mapping[str, Any], version: int | None = None
    ) -> Schedule:
        """Replace it, as its owner. Raises as `update`."""
        return await super().replace(principal, name_or_id, {**fields, _BY: principal}, version)

    async def remove(self, principal: Principal, name_or_id: str, version: int | None = None) -> None:
        """Remove it, as its owner or an administrator; running sessions continue. Raises NotFound, Denied,
        PreconditionFailed."""
        current = await self.existing(principal, name_or_id)
        if current.owner_id != principal.id and not principal.is_admin:
            raise Denied("only its owner or an administrator can delete a schedule")
        await super().remove(principal, name_or_id, version)

    def require_admin(self, principal: Principal) -> None:
        """Allow all: `merge` and `remove` check the owner."""

    async def announce(self, before: Schedule | None, after: Schedule | None) -> None:
        """Signal nothing: the job reads schedules anew in each round."""

    def audit_view(self, resource: Schedule) -> object:
        """Return the fields without values of parameters and issue fields: some are secret."""
        field_names = ("id", "name", "owner_id", "connection_id", "repository", "file", "cron", "zone", "enabled")
        names = {
            "parameter_names": sorted(resource.parameters),
            "tracker_field_names": sorted(resource.tracker_fields),
        }
        return {name: getattr(resource, name) for name in field_names} | names

    async def resolve(self, current: Schedule, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Resolve the fields. `connection` is a name or id, `repository` a name or address, empty for the only one."""
        resolved = {name: fields[name] for name in _PLAIN if name in fields}
        if "connection" in fields:
            connection = await self._control.find(fields[_BY], fields["connection"])
            if connection is None:
                raise NotFound(f"there is no connection {fields['connection']!r}; check its name")
            resolved["connection_id"] = connection.id
        return resolved

    async def merge(self, current: Schedule, base: Schedule, fields: Mapping[str, Any]) -> Schedule:
        """Merge the fields. The runbook is rendered again where the change concerns it, or enables the schedule."""
        by: Principal = fields[_BY]
        if current.name:
            _require_changeable(current, by, fields)
        else:
            base = replace(base, owner_id=by.id)
        merged = await super().merge(current, base, fields)
        if not _FILLED.isdisjoint(fields) or (merged.enabled and not current.enabled):
            filled = await self._runs.fill(by, _make_run_request(merged), with_issue=True)
            merged = replace(merged, repository=filled.runbook.repository, file=filled.runbook.file)
        if not merged.enabled and _TIMES.isdisjoint(fields):
            return replace(merged, next_at=None)
        coming = next_time(merged.cron, merged.zone, self._now())
        return replace(merged, next_at=coming if merged.enabled else None)

    async def run(self, principal: Principal, name_or_id: str) -> Session:
        """Run now, besides the schedule, even while it is disabled; only for its owner. Raises as `Runs.submit`, and
        NotFound, Denied."""
        schedule = await self.existing(principal, name_or_id)
        if schedule.owner_id != principal.id:
            raise Denied("only its owner can run a schedule, since it runs as the owner")
        _require_open(schedule)
        session = await self._submit(principal, schedule)
        await self._schedules.ran(schedule.id, session.id)
        return session

    async def once(self) -> bool:
        """Start what is due, of all organisations, each run by one process alone; return whether more may be due."""
        lost = await self._schedules.find_unsettled(self._now() - _GRACE, _BATCH)
        for run in lost:
            await self._settle(run.org_id, run.id, run.schedule_id, INTERRUPTED)
        due = await self._schedules.due(self._now(), _BATCH, _BATCH_EACH)
        outcomes = await asyncio.gather(*(self._begin(schedule) for schedule in due), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):  # the store does not answer
                raise outcome
        each = Counter(schedule.org_id for schedule in due)
        return _BATCH in (len(due), len(lost)) or _BATCH_EACH in each.values()

    async def _begin(self, due: Schedule) -> None:
        """Start one run. It is claimed first, so that it never runs twice.

        Errors are stored where its owner sees them, and the next run stays planned.
        """
        async with self._shares[due.org_id], self._at_once:
            now, due_at, run_id = self._now(), due.next_at, uuid4()
            coming, why = _after(due, now)
            if due_at is None or not await self._schedules.take(run_id, due.id, due_at, coming, now):
                return
            try:
                if not why:
                    await self._run_due(due, run_id, due_at, now)
            except PosternError as error:
                why = error.message
            except Exception:
                log.exception("schedule failed: schedule=%s", due.id)
                why = "internal error of the gateway; see its log"
            if not await self._settle(due.org_id, run_id, due.id, why) and not why:
                await self._schedules.ran(due.id, run_id)  # the run had already been settled as lost

    async def _settle(self, org_id: UUID, run_id: UUID, schedule_id: UUID, why: str) -> bool:
        """Store the outcome, and return whether no other process did. A run with a session counts as begun despite
        `why`."""
        if why and await self._sessions.get(org_id, run_id) is not None:
            why = ""
        is_ours = await self._schedules.settle(run_id, why)
        if is_ours:
            self.counted("failed" if why else "begun")
        if is_ours and why:
            log.warning("schedule did not run: schedule=%s org=%s reason=%s", schedule_id, org_id, why)
        return is_ours

    async def _run_due(self, due: Schedule, run_id: UUID, due_at: datetime, now: datetime) -> None:
        """Submit a due run. Raises as `Runs.submit`, and why it is skipped."""
        if now - due_at > LATEST:
            raise Conflict(f"missed: it was due at {due_at:%Y-%m-%d %H:%M} UTC, when no gateway was running")
        schedule = await self._store.get(due.org_id, str(due.id))  # the newest saved version
        if schedule is None:
            raise NotFound("it was deleted")
        _require_open(schedule)
        await self._require_ended(schedule, run_id)
        account = await self._principals.get(due.org_id, schedule.owner_id)
        if account is None:
            raise Denied("its owner was deleted; ask an administrator to delete the schedule")
        await self._submit(account.principal, schedule, run_id)

    async def _require_ended(self, schedule: Schedule, run_id: UUID) -> None:
        """Check that the previous run's session has ended, one that waits for its review included. Raises Conflict."""
        last = schedule.last_session_id
        for run in await self._schedules.find_unsettled(self._now(), _BATCH, schedule.id):
            if run.id == run_id:
                continue
            if await self._sessions.get(run.org_id, run.id) is None:
                raise Conflict(f"skipped: the previous run, of {run.at:%Y-%m-%d %H:%M} UTC, has not started yet")
            await self._settle(run.org_id, run.id, schedule.id, "")  # before there is a later session
            last = run.id
        session = None if last is None else await self._sessions.get(schedule.org_id, last)
        if session is not None and session.status is not SessionStatus.DONE:
            raise Conflict(f"skipped: the previous run, session {last}, has not ended")

    async def _submit(self, owner: Principal, schedule: Schedule, session_id: UUID | None = None) -> Session:
        return await self._runs.submit(
            owner,
            _make_run_request(schedule),
            source=SCHEDULE_SOURCE,
            means=f"schedule:{schedule.id}",
            session_id=session_id,
            schedule=schedule.name,
        )


def _after(due: Schedule, now: datetime) -> tuple[datetime | None, str]:
    """Return the next time, or why there is none: its time zone no longer exists."""
    try:
        return next_time(due.cron, due.zone, now), ""
    except Invalid as error:
        return None, f"{error.message}; the schedule does not run until its owner changes it"


def _require_changeable(current: Schedule, by: Principal, fields: Mapping[str, Any]) -> None:
    """Raise Denied or Conflict where the principal cannot change the schedule."""
    is_owner = current.owner_id == by.id
    only_switches_off = {name: value for name, value in fields.items() if name != _BY} == {"enabled": False}
    if only_switches_off and (is_owner or by.is_admin):
        return
    if not is_owner:
        if not by.is_admin:
            raise Denied("only its owner can change a schedule")
        raise Denied(
            "a schedule runs as its owner, so only the owner can change it; an administrator can disable or "
            "delete it, and create a new one"
        )
    _require_open(current)


def _require_open(schedule: Schedule) -> None:
    """Raise Conflict for a schedule whose secrets cannot be opened. It can still be shown, disabled and deleted."""
    if schedule.problem:
        raise Conflict(f"{schedule.problem}; delete this schedule and create it again")


def _make_run_request(schedule: Schedule) -> RunRequest:
    return RunRequest(
        str(schedule.connection_id),
        schedule.file,
        schedule.repository,
        parameters=schedule.parameters,
        tracker_fields={name: value.reveal() for name, value in schedule.tracker_fields.items()},
    )
