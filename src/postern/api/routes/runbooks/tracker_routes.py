"""The organisation's issue tracker. All users can see that there is one, and no user its token."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import Paging
from postern.api.resource_kinds import register, setting
from postern.api.responses import errors
from postern.api.schemas.runbooks.issue_schemas import (
    AssetsAnswer,
    TrackerAnswer,
    TrackerRequest,
    TrackerTestAnswer,
    TrackerTestRequest,
)

router = APIRouter(prefix="/integrations/tracker", tags=["Issue Templates"], route_class=AuditedRoute)
register(setting("tracker", router.prefix, TrackerRequest, creates="POST", deletes=True))


@router.get("", responses=errors(404))
async def get_tracker(caller: Caller, services: Use) -> TrackerAnswer:
    """Return the tracker. 404 if none is set up."""
    return TrackerAnswer.of(await services.tracker.get(caller))


@router.post("", status_code=201, responses=errors(403, 409))
async def create_tracker(body: TrackerRequest, caller: Caller, services: Use) -> TrackerAnswer:
    """Set up the tracker. 409 if there is one. The tracker is not contacted yet: use the test."""
    return TrackerAnswer.of(await services.tracker.create(caller, body.fields()))


@router.put("", responses=errors(403, 404, 409))
async def update_tracker(body: TrackerRequest, caller: Caller, services: Use) -> TrackerAnswer:
    """Replace all settings, with defaults for those left out. Issues that are still to be opened or closed use the new
    ones. 409 if another request changed it at the same time."""
    return TrackerAnswer.of(await services.tracker.replace(caller, body.fields()))


@router.delete("", status_code=204, responses=errors(403, 404))
async def delete_tracker(caller: Caller, services: Use) -> None:
    """Delete the tracker with its token. Sessions no longer open issues; templates stay."""
    await services.tracker.remove(caller)


@router.post("/test", responses=errors(403, 404, 503))
async def test_tracker(body: TrackerTestRequest, caller: Caller, services: Use) -> TrackerTestAnswer:
    """Test the tracker's token. 422 with the tracker's error, 503 if it does not answer."""
    return TrackerTestAnswer(answer=await services.tracker.test(caller, body.project_key))


@router.get("/assets/objects", responses=errors(403, 404, 503))
async def list_tracker_objects(
    caller: Caller,
    services: Use,
    page: Paging,
    object_type: Annotated[str, Query(min_length=1, max_length=255)],
    query: Annotated[str, Query(max_length=255, description="Text in the name")] = "",
) -> AssetsAnswer:
    """List assets by name, for a template's fields."""
    return AssetsAnswer.of(await services.tracker.objects(caller, object_type, query, page))
