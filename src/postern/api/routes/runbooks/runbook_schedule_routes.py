"""Schedules: runbooks that run by themselves, as their owner."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.runbooks.runbook_schedule_schemas import (
    RunbookScheduleAnswer,
    RunbookScheduleChange,
    RunbookScheduleRequest,
    RunbookScheduleRun,
)

router = APIRouter(prefix="/runbooks/schedules", tags=["Runbooks"], route_class=AuditedRoute)

Key = Annotated[str, Path(alias="nameOrID", description="Name or identifier")]


@router.get("", responses=errors())
async def list_runbook_schedules(caller: Caller, services: Use, page: Paging) -> ListAnswer[RunbookScheduleAnswer]:
    """By name: one's own, and all of them for administrators and auditors."""
    found = await services.runbook_schedules.find(caller, page)
    return listed([RunbookScheduleAnswer.of(one) for one in found.items], found, page)


@router.post("", status_code=201, responses=errors(400, 403, 404, 409, 413, 429, 503))
async def create_runbook_schedule(body: RunbookScheduleRequest, caller: Caller, services: Use) -> RunbookScheduleAnswer:
    """It runs as who creates it, with the rights that they have at that moment. The runbook is filled in once, so that
    what is wrong is said now."""
    return RunbookScheduleAnswer.of(await services.runbook_schedules.create(caller, body.fields()))


@router.get("/{nameOrID}", responses=errors(404))
async def get_runbook_schedule(key: Key, caller: Caller, services: Use) -> RunbookScheduleAnswer:
    return RunbookScheduleAnswer.of(await services.runbook_schedules.get(caller, key))


@router.put("/{nameOrID}", responses=errors(400, 403, 404, 409, 413, 503))
async def update_runbook_schedule(
    key: Key, body: RunbookScheduleChange, caller: Caller, services: Use
) -> RunbookScheduleAnswer:
    """By its owner. An administrator may switch it off, and change nothing else: it runs as its owner."""
    return RunbookScheduleAnswer.of(await services.runbook_schedules.update(caller, key, body.fields()))


@router.delete("/{nameOrID}", status_code=204, responses=errors(403, 404))
async def delete_runbook_schedule(key: Key, caller: Caller, services: Use) -> None:
    """By its owner or an administrator. What runs goes on."""
    await services.runbook_schedules.remove(caller, key)


@router.post("/{nameOrID}/run", status_code=202, responses=errors(400, 403, 404, 409, 429, 503))
async def run_runbook_schedule(key: Key, caller: Caller, services: Use) -> RunbookScheduleRun:
    """Now, beside its times; by its owner. The session says what comes of it."""
    return RunbookScheduleRun.of(await services.runbook_schedules.run(caller, key))
