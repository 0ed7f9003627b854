"""Issue templates (spec 2.4, 4.5). Who may not see all sees those of the connections that they see."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.runbooks.issue_schemas import IssueTemplateAnswer, IssueTemplateRequest

router = APIRouter(prefix="/integrations/tracker/issuetemplates", tags=["Issue Templates"], route_class=AuditedRoute)


@router.get("", responses=errors())
async def list_issue_templates(caller: Caller, services: Use, page: Paging) -> ListAnswer[IssueTemplateAnswer]:
    """By name."""
    found = await services.issue_templates.find(caller, page)
    return listed([IssueTemplateAnswer.of(template) for template in found.items], found, page)


@router.post("", responses=errors(403, 409, 413))
async def create_issue_template(body: IssueTemplateRequest, caller: Caller, services: Use) -> IssueTemplateAnswer:
    """Answers 200, as PUT does: who knows this API from elsewhere expects that."""
    return IssueTemplateAnswer.of(await services.issue_templates.create(caller, body.fields()))


@router.get("/{id}", responses=errors(404))
async def get_issue_template(id: str, caller: Caller, services: Use) -> IssueTemplateAnswer:  # noqa: A002
    return IssueTemplateAnswer.of(await services.issue_templates.get(caller, id))


@router.put("/{id}", responses=errors(403, 404, 409, 413))
async def update_issue_template(
    id: str,  # noqa: A002 - the spec's name
    body: IssueTemplateRequest,
    caller: Caller,
    services: Use,
) -> IssueTemplateAnswer:
    """Replaces the template; issues that were made stay as they are."""
    return IssueTemplateAnswer.of(await services.issue_templates.replace(caller, id, body.fields()))


@router.delete("/{id}", status_code=204, responses=errors(403, 404))
async def delete_issue_template(id: str, caller: Caller, services: Use) -> None:  # noqa: A002 - the spec's name
    """Connections that have it open no issues any more."""
    await services.issue_templates.remove(caller, id)
