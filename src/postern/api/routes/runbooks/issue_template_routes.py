"""Issue templates (spec 2.4, 4.5)."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import ResourceRoutes
from postern.api.responses import errors
from postern.api.route import Route
from postern.api.schemas.runbooks.issue_schemas import (
    IssuePreviewAnswer,
    IssuePreviewRequest,
    IssueTemplateAnswer,
    IssueTemplateRequest,
)

_PREFIX = "/integrations/tracker/issuetemplates"
router = APIRouter(prefix=_PREFIX, tags=["Issue Templates"], route_class=AuditedRoute)
# A preview only reads, so it leaves no entry in the audit log: a form asks for it after each change.
previews = APIRouter(prefix=_PREFIX, tags=["Issue Templates"], route_class=Route)


@previews.post("/preview", responses=errors(403, 404))
async def preview_issue_template(body: IssuePreviewRequest, caller: Caller, services: Use) -> IssuePreviewAnswer:
    """Return the issue that a saved or drafted template creates for a session, and the fields that stay empty. Nothing
    is sent to the tracker. For administrators."""
    return IssuePreviewAnswer.of(await services.issue_previews.preview(caller, body.request()))


ResourceRoutes(
    path="",
    names=("issue_template", "issue_templates"),
    service=lambda services: services.issue_templates,
    request=IssueTemplateRequest,
    answer=IssueTemplateAnswer,
    texts={
        "update": "Existing issues do not change. The connections stay if `connection_ids` is left out.",
        "delete": "Sessions of its connections no longer open issues.",
    },
).add_to(router)
