"""Issue templates (spec 2.4, 4.5)."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.crud import ResourceRoutes
from postern.api.schemas.runbooks.issue_schemas import IssueTemplateAnswer, IssueTemplateRequest

router = APIRouter(prefix="/integrations/tracker/issuetemplates", tags=["Issue Templates"], route_class=AuditedRoute)
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
