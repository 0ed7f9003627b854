"""Features that an organisation switches on and off."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.resource_kinds import ResourceKind, register
from postern.api.responses import errors
from postern.api.schemas.server.server_schemas import FeatureAnswer, FeatureRequest
from postern.domain.lists import Listed

router = APIRouter(prefix="/feature-flags", tags=["Features"], route_class=AuditedRoute)
register(
    ResourceKind(
        "feature",
        "features",
        router.prefix,
        FeatureRequest,
        address="name",
        creates="",
        changes="PUT",
        deletes=False,
        has_manager=False,
    )
)


@router.get("", responses=errors())
async def list_feature_flags(caller: Caller, services: Use, page: Paging) -> ListAnswer[FeatureAnswer]:
    """List the features of the caller's organisation, by name."""
    states = await services.features.all(caller.org_id)
    answers = [FeatureAnswer.of(state) for state in states[page.offset : page.offset + page.limit]]
    return make_list_answer(answers, Listed(states, len(states)), page)


@router.put("/{name}", responses=errors(403, 404, 413))
async def update_feature_flag(name: str, body: FeatureRequest, caller: Caller, services: Use) -> FeatureAnswer:
    """Switch a feature on or off, at once: sessions that depend on a disabled feature end."""
    return FeatureAnswer.of(await services.features.put(caller, name, enabled=body.enabled))
