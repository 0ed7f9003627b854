"""Masking rules."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.rule_filter import Where
from postern.api.schemas.masking_rules import (
    MaskingPresetAnswer,
    MaskingRuleAnswer,
    MaskingRuleRequest,
    MaskingTestAnswer,
    MaskingTestRequest,
)

router = APIRouter(prefix="/datamasking-rules", tags=["Masking"], route_class=AuditedRoute)


@router.get("", responses=errors(403))
async def list_masking_rules(
    caller: Caller, services: Use, page: Paging, where: Where
) -> ListAnswer[MaskingRuleAnswer]:
    """By name."""
    found = await services.masking_rules.find(caller, page, where)
    return listed([MaskingRuleAnswer.of(rule) for rule in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def create_masking_rule(body: MaskingRuleRequest, caller: Caller, services: Use) -> MaskingRuleAnswer:
    return MaskingRuleAnswer.of(await services.masking_rules.create(caller, body.fields()))


@router.post("/test", responses=errors(403, 413))
async def test_masking_rule(body: MaskingTestRequest, caller: Caller, services: Use) -> MaskingTestAnswer:
    """What a rule would make of texts and rows; neither is kept."""
    return MaskingTestAnswer.of(await services.masking_rules.test(caller, body.rule.fields(), body.samples()))


@router.get("/presets", responses=errors(403))
async def list_masking_presets(caller: Caller, services: Use) -> list[MaskingPresetAnswer]:
    """Rules to begin with, to be saved as they are or changed."""
    return [MaskingPresetAnswer.of(preset) for preset in services.masking_rules.presets(caller)]


@router.get("/{id}", responses=errors(403, 404))
async def get_masking_rule(id: str, caller: Caller, services: Use) -> MaskingRuleAnswer:  # noqa: A002 - as elsewhere
    return MaskingRuleAnswer.of(await services.masking_rules.get(caller, id))


@router.put("/{id}", responses=errors(403, 404, 409, 413))
async def update_masking_rule(
    id: str,  # noqa: A002 - as elsewhere
    body: MaskingRuleRequest,
    caller: Caller,
    services: Use,
) -> MaskingRuleAnswer:
    """Replaces the rule; live sessions follow it at once."""
    return MaskingRuleAnswer.of(await services.masking_rules.replace(caller, id, body.fields()))


@router.delete("/{id}", status_code=204, responses=errors(403, 404, 409))
async def delete_masking_rule(
    id: str,  # noqa: A002 - as elsewhere
    caller: Caller,
    services: Use,
    force: Annotated[bool, Query(description="Also one that applies to connections")] = False,
) -> None:
    """Conflict where it applies to connections, unless `force` is true."""
    await services.masking_rules.remove(caller, id, unused=not force)
