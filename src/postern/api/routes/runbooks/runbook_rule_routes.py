"""Runbook rules: the groups that can run runbooks, and on which connections."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.crud import ResourceRoutes
from postern.api.rule_filter_query import filter_of
from postern.api.schemas.runbooks.runbook_rule_schemas import RunbookRuleAnswer, RunbookRuleRequest

router = APIRouter(tags=["Runbooks"], route_class=AuditedRoute)
ResourceRoutes(
    path="/runbooks/rules",
    names=("runbook_rule", "runbook_rules"),
    service=lambda services: services.runbook_rules,
    request=RunbookRuleRequest,
    answer=RunbookRuleAnswer,
    texts={
        "create": "Rules only grant, and none restricts another. Without any rule, all users can run every runbook "
        "on the connections that they can use. As soon as there is one, only administrators can run "
        "runbooks that no rule grants.",
        "update": "It applies at once, also to scheduled runs.",
        "delete": "Only administrators can then run what it granted, unless another rule grants it; if no rule is "
        "left, all users can run every runbook.",
    },
    filters=filter_of,
).add_to(router)
