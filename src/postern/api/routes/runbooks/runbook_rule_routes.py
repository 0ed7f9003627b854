"""Runbook rules: who may run which runbooks where."""

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
        "create": "Rules only give, and none takes away what another gives. While there is none, everybody may run "
        "every runbook on the connections that they may use; from the first one on, only administrators may run what "
        "no rule gives.",
        "update": "Holds at once, also for scheduled runs.",
        "delete": "What it gave is kept from all but administrators, unless another rule gives it; without the last "
        "rule everybody may run everything.",
    },
    filters=filter_of,
).add_to(router)
