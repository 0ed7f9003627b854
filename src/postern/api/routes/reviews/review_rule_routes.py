"""Review rules: the groups that must approve access to connections and scripts."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.crud import ResourceRoutes
from postern.api.rule_filter_query import filter_of
from postern.api.schemas.reviews.review_rule_schemas import ReviewRuleAnswer, ReviewRuleRequest

router = APIRouter(tags=["Reviews"], route_class=AuditedRoute)
ResourceRoutes(
    path="/access-requests/rules",
    names=("review_rule", "review_rules"),
    service=lambda services: services.review_rules,
    request=ReviewRuleRequest,
    answer=ReviewRuleAnswer,
    texts={
        "create": "Connecting to the covered connections, or running a script on them, needs the approval of "
        "others; for administrators, too. If several rules cover a connection, each must be met.",
        "update": "Approvals that were given before stay valid only if the requirement is the same.",
        "delete": "It no longer requires approval.",
    },
    filters=filter_of,
).add_to(router)
