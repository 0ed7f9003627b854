"""Masking rules."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Forced, Key, ResourceRoutes, Version
from postern.api.responses import errors
from postern.api.route import Route
from postern.api.rule_filter_query import filter_of
from postern.api.schemas.rules.masking_rule_schemas import (
    InformationTypeAnswer,
    MaskingPresetAnswer,
    MaskingRuleAnswer,
    MaskingRuleRequest,
    MaskingTestAnswer,
    MaskingTestRequest,
)

router = APIRouter(tags=["Masking"], route_class=AuditedRoute)
# It only reads, so it leaves no entry in the audit log: an editor tries a rule after each change.
trials = APIRouter(tags=["Masking"], route_class=Route)


@trials.post("/datamasking-rules/test", responses=errors(403, 413))
async def test_masking_rule(body: MaskingTestRequest, caller: Caller, services: Use) -> MaskingTestAnswer:
    """Try a rule on texts and rows; neither is stored."""
    return MaskingTestAnswer.of(await services.masking_rules.test(caller, body.rule.fields(), body.samples()))


@router.get("/datamasking-rules/presets", responses=errors(403))
async def list_masking_presets(caller: Caller, services: Use) -> list[MaskingPresetAnswer]:
    """List presets, to be saved or changed."""
    return [MaskingPresetAnswer.of(preset) for preset in services.masking_rules.presets(caller)]


@router.get("/datamasking-rules/types", responses=errors(403))
async def list_information_types(caller: Caller, services: Use) -> list[InformationTypeAnswer]:
    """List the information types that a rule can name, by name."""
    return [InformationTypeAnswer.of(detected) for detected in services.masking_rules.types(caller)]


async def _remove(key: Key, caller: Caller, services: Use, version: Version, force: Forced = False) -> None:
    await services.masking_rules.remove(caller, key, version, unused=not force)


ResourceRoutes(
    path="/datamasking-rules",
    names=("masking_rule", "masking_rules"),
    service=lambda services: services.masking_rules,
    request=MaskingRuleRequest,
    answer=MaskingRuleAnswer,
    texts={
        "update": "Running sessions use it at once.",
        "delete": "409 if it applies to connections, unless `force` is true.",
    },
    filters=filter_of,
    own={"delete": _remove},
).add_to(router)
