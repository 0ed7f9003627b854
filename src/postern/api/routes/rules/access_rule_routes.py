"""Access rules, which apply if the feature `access-control` is on (spec 1 and 2.6)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key, ResourceRoutes
from postern.api.responses import errors
from postern.api.rule_filter_query import filter_of
from postern.api.schemas.rules.access_rule_schemas import (
    AccessRuleAnswer,
    AccessRuleRequest,
    ConnectionAccessAnswer,
)

router = APIRouter(tags=["Connections"], route_class=AuditedRoute)

ResourceRoutes(
    path="/access-rules",
    names=("access_rule", "access_rules"),
    service=lambda services: services.access_rules,
    request=AccessRuleRequest,
    answer=AccessRuleAnswer,
    texts={
        "create": "Members of its groups can see and use its connections. It applies at once, if the feature is on.",
        "update": "Running sessions that are no longer allowed are ended.",
        "delete": "Running sessions that no other rule allows are ended.",
    },
    filters=filter_of,
).add_to(router)


@router.get("/connections/{nameOrID}/access", responses=errors(403, 404))
async def explain_access(
    key: Key,
    caller: Caller,
    services: Use,
    user: Annotated[str | None, Query(description="Identifier, subject or e-mail address; default: the caller")] = None,
) -> ConnectionAccessAnswer:
    """Explain why a user can use the connection, or cannot; for other users needs an administrator or auditor."""
    return ConnectionAccessAnswer.of(await services.access_rules.explain(caller, key, user))
