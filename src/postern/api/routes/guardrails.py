"""Guard rails (spec 2.5, 4.6)."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.guardrails import GuardRailAnswer, GuardRailRequest

router = APIRouter(prefix="/guardrails", tags=["Guard Rails"], route_class=AuditedRoute)


@router.get("", responses=errors(403))
async def list_guardrails(caller: Caller, services: Use, page: Paging) -> ListAnswer[GuardRailAnswer]:
    """By name."""
    found = await services.guardrails.find(caller, page)
    return listed([GuardRailAnswer.of(guardrail) for guardrail in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def create_guardrail(body: GuardRailRequest, caller: Caller, services: Use) -> GuardRailAnswer:
    return GuardRailAnswer.of(await services.guardrails.create(caller, body.fields()))


@router.get("/{id}", responses=errors(403, 404))
async def get_guardrail(id: str, caller: Caller, services: Use) -> GuardRailAnswer:  # noqa: A002 - the spec's name
    return GuardRailAnswer.of(await services.guardrails.get(caller, id))


@router.put("/{id}", responses=errors(403, 404, 409, 413))
async def update_guardrail(
    id: str,  # noqa: A002 - the spec's name
    body: GuardRailRequest,
    caller: Caller,
    services: Use,
) -> GuardRailAnswer:
    """Replaces the rule; live sessions follow it from their next statement on."""
    return GuardRailAnswer.of(await services.guardrails.replace(caller, id, body.fields()))


@router.delete("/{id}", status_code=204, responses=errors(403, 404))
async def delete_guardrail(id: str, caller: Caller, services: Use) -> None:  # noqa: A002 - the spec's name
    await services.guardrails.remove(caller, id)
