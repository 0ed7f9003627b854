"""Schedules: runbooks that run by themselves, as their owner."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key, ResourceRoutes
from postern.api.responses import errors
from postern.api.schemas.runbooks.runbook_schedule_schemas import (
    RunbookScheduleAnswer,
    RunbookScheduleRequest,
    RunbookScheduleRun,
)

router = APIRouter(prefix="/runbooks/schedules", tags=["Runbooks"], route_class=AuditedRoute)
ResourceRoutes(
    path="",
    names=("runbook_schedule", "runbook_schedules"),
    service=lambda services: services.runbook_schedules,
    request=RunbookScheduleRequest,
    answer=RunbookScheduleAnswer,
    texts={
        "create": "It runs as who creates it, with the rights that they have at that moment. The runbook is filled in "
        "once, so that what is wrong is said now. Lists show one's own; all of them to administrators and auditors.",
        "update": "By its owner. An administrator may switch it off, and change nothing else: it runs as its owner.",
        "delete": "By its owner or an administrator. What runs goes on.",
    },
).add_to(router)


@router.post("/{nameOrID}/run", status_code=202, responses=errors(400, 403, 404, 409, 429, 503))
async def run_runbook_schedule(key: Key, caller: Caller, services: Use) -> RunbookScheduleRun:
    """Now, beside its times; by its owner. The session says what comes of it."""
    return RunbookScheduleRun.of(await services.runbook_schedules.run(caller, key))
