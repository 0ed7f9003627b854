"""Network rules: from which addresses users and programs can log in and use connections."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.crud import ResourceRoutes
from postern.api.rule_filter_query import filter_of
from postern.api.schemas.rules.network_rule_schemas import NetworkRuleAnswer, NetworkRuleRequest

router = APIRouter(tags=["Connections"], route_class=AuditedRoute)

ResourceRoutes(
    path="/network-rules",
    names=("network_rule", "network_rules"),
    service=lambda services: services.network_rules,
    request=NetworkRuleRequest,
    answer=NetworkRuleAnswer,
    texts={
        "create": "Every rule that applies must allow the client's address. It applies at once; sessions from other "
        "addresses are ended. A rule that would lock out its author is rejected.",
        "update": "Running sessions from addresses that are no longer allowed are ended.",
    },
    filters=filter_of,
).add_to(router)
