"""Review rules: who must agree before somebody connects or runs a script."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.review_rules import ReviewRuleAnswer, ReviewRuleChange, ReviewRuleRequest

router = APIRouter(prefix="/access-requests/rules", tags=["Reviews"], route_class=AuditedRoute)

Key = Annotated[str, Path(alias="nameOrID", description="Name or identifier")]


@router.get("", responses=errors(403))
async def list_review_rules(caller: Caller, services: Use, page: Paging) -> ListAnswer[ReviewRuleAnswer]:
    """By name."""
    found = await services.review_rules.find(caller, page)
    return listed([ReviewRuleAnswer.of(rule) for rule in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def create_review_rule(body: ReviewRuleRequest, caller: Caller, services: Use) -> ReviewRuleAnswer:
    """Whoever connects to what it covers, or runs a script there, needs others to agree; administrators, too. Where
    several rules cover a connection, each must be met."""
    return ReviewRuleAnswer.of(await services.review_rules.create(caller, body.fields()))


@router.get("/{nameOrID}", responses=errors(403, 404))
async def get_review_rule(key: Key, caller: Caller, services: Use) -> ReviewRuleAnswer:
    return ReviewRuleAnswer.of(await services.review_rules.get(caller, key))


@router.put("/{nameOrID}", responses=errors(403, 404, 409, 413))
async def update_review_rule(key: Key, body: ReviewRuleChange, caller: Caller, services: Use) -> ReviewRuleAnswer:
    """What was agreed to before holds only as long as the same is asked for."""
    return ReviewRuleAnswer.of(await services.review_rules.update(caller, key, body.fields()))


@router.delete("/{nameOrID}", status_code=204, responses=errors(403, 404))
async def delete_review_rule(key: Key, caller: Caller, services: Use) -> None:
    """From now on it asks nobody for anything."""
    await services.review_rules.remove(caller, key)
