"""Review rules: who must agree before somebody connects or runs a script."""

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
        "create": "Whoever connects to what it covers, or runs a script there, needs others to agree; administrators, "
        "too. Where several rules cover a connection, each must be met.",
        "update": "What was agreed to before holds only as long as the same is asked for.",
        "delete": "From now on it asks nobody for anything.",
    },
    filters=filter_of,
).add_to(router)
