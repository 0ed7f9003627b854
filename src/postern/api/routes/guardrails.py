"""Guard rails (spec 2.5, 4.6)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.rule_filter import Where
from postern.api.schemas.guardrails import GuardRailAnswer, GuardRailRequest
from postern.domain.guardrail import GuardRail
from postern.services.bundle import Services

router = APIRouter(prefix="/guardrails", tags=["Guard Rails"], route_class=AuditedRoute)


@router.get("", responses=errors(403))
async def list_guardrails(caller: Caller, services: Use, page: Paging, where: Where) -> ListAnswer[GuardRailAnswer]:
    """By name."""
    found = await services.guardrails.find(caller, page, where)
    return listed([GuardRailAnswer.of(guardrail) for guardrail in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def create_guardrail(body: GuardRailRequest, caller: Caller, services: Use) -> GuardRailAnswer:
    return await _with_advice(await services.guardrails.create(caller, body.fields()), services)


@router.get("/{id}", responses=errors(403, 404))
async def get_guardrail(id: str, caller: Caller, services: Use) -> GuardRailAnswer:  # noqa: A002 - the spec's name
    return await _with_advice(await services.guardrails.get(caller, id), services)


@router.put("/{id}", responses=errors(403, 404, 409, 413))
async def update_guardrail(
    id: str,  # noqa: A002 - the spec's name
    body: GuardRailRequest,
    caller: Caller,
    services: Use,
) -> GuardRailAnswer:
    """Replaces the rule; live sessions follow it from their next statement on."""
    return await _with_advice(await services.guardrails.replace(caller, id, body.fields()), services)


@router.delete("/{id}", status_code=204, responses=errors(403, 404, 409))
async def delete_guardrail(
    id: str,  # noqa: A002 - the spec's name
    caller: Caller,
    services: Use,
    force: Annotated[bool, Query(description="Also one that applies to connections")] = False,
) -> None:
    """Conflict where it applies to connections, unless `force` is true."""
    await services.guardrails.remove(caller, id, unused=not force)


async def _with_advice(guardrail: GuardRail, services: Services) -> GuardRailAnswer:
    answer = GuardRailAnswer.of(guardrail)
    answer.notices = await services.guardrails.advice(guardrail)
    return answer
