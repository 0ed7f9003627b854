"""Schedules: runbooks that run at set times, as their owner."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key, ResourceRoutes
from postern.api.responses import errors
from postern.api.schemas.runbooks.runbook_schedule_schemas import (
    CRON,
    RunbookScheduleAnswer,
    RunbookScheduleRequest,
    RunbookScheduleRun,
    ScheduleTimesAnswer,
)
from postern.services.runbooks.schedules import explain, next_times

_MAX_TIMES = 20

router = APIRouter(prefix="/runbooks", tags=["Runbooks"], route_class=AuditedRoute)
ResourceRoutes(
    path="/schedules",
    names=("runbook_schedule", "runbook_schedules"),
    service=lambda services: services.runbook_schedules,
    request=RunbookScheduleRequest,
    answer=RunbookScheduleAnswer,
    texts={
        "create": "It runs as its creator, with the permissions that they have at that time. The runbook is rendered "
        "once, so that errors are reported now. Lists contain the caller's schedules; all of them for "
        "administrators and auditors.",
        "update": "For its owner. An administrator can disable it, and change nothing else, because it runs as "
        "its owner.",
        "delete": "For its owner or an administrator. A run that has started continues.",
    },
).add_to(router)


@router.post("/schedules/{nameOrID}/run", status_code=202, responses=errors(400, 403, 404, 409, 429, 503))
async def run_runbook_schedule(key: Key, caller: Caller, services: Use) -> RunbookScheduleRun:
    """Run a schedule now, in addition to its times; for its owner. The session has the result."""
    return RunbookScheduleRun.of(await services.runbook_schedules.run(caller, key))


@router.get("/schedule-times", responses=errors())  # not below /schedules, where `times` is the name of a schedule
async def preview_schedule_times(
    _caller: Caller,
    services: Use,
    cron: Annotated[str, Query(max_length=128, description=CRON)],
    timezone: Annotated[str, Query(max_length=64, description="IANA time zone of these times")] = "UTC",
    count: Annotated[int, Query(ge=1, le=_MAX_TIMES)] = 5,
) -> ScheduleTimesAnswer:
    """Return when a schedule with this cron expression would run next. 422 if it cannot be read, or never occurs."""
    return ScheduleTimesAnswer(description=explain(cron), times=next_times(cron, timezone, services.now(), count))
