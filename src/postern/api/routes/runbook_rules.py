"""Runbook rules: who may run which runbooks where."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.runbook_rules import RunbookRuleAnswer, RunbookRuleChange, RunbookRuleRequest

router = APIRouter(prefix="/runbooks/rules", tags=["Runbooks"], route_class=AuditedRoute)

Key = Annotated[str, Path(alias="nameOrID", description="Name or identifier")]


@router.get("", responses=errors(403))
async def list_runbook_rules(caller: Caller, services: Use, page: Paging) -> ListAnswer[RunbookRuleAnswer]:
    """By name."""
    found = await services.runbook_rules.find(caller, page)
    return listed([RunbookRuleAnswer.of(rule) for rule in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def create_runbook_rule(body: RunbookRuleRequest, caller: Caller, services: Use) -> RunbookRuleAnswer:
    """Rules only give, and none takes away what another gives. While there is none, everybody may run every runbook on
    the connections that they may use; from the first one on, only administrators may run what no rule gives."""
    return RunbookRuleAnswer.of(await services.runbook_rules.create(caller, body.fields()))


@router.get("/{nameOrID}", responses=errors(403, 404))
async def get_runbook_rule(key: Key, caller: Caller, services: Use) -> RunbookRuleAnswer:
    return RunbookRuleAnswer.of(await services.runbook_rules.get(caller, key))


@router.put("/{nameOrID}", responses=errors(403, 404, 409, 413))
async def update_runbook_rule(key: Key, body: RunbookRuleChange, caller: Caller, services: Use) -> RunbookRuleAnswer:
    """Holds at once, also for scheduled runs."""
    return RunbookRuleAnswer.of(await services.runbook_rules.update(caller, key, body.fields()))


@router.delete("/{nameOrID}", status_code=204, responses=errors(403, 404))
async def delete_runbook_rule(key: Key, caller: Caller, services: Use) -> None:
    """What it gave is kept from all but administrators, unless another rule gives it; without the last rule everybody
    may run everything."""
    await services.runbook_rules.remove(caller, key)
