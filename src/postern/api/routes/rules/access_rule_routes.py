"""Access rules, which take effect where the feature `access-control` is on (spec 1 and 2.6)."""

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
        "create": "Members of any of its groups may see and use what it names. It holds at once, if the feature is on.",
        "update": "Live sessions that it no longer allows are ended.",
        "delete": "Live sessions that no other rule allows are ended.",
    },
    filters=filter_of,
).add_to(router)


@router.get("/connections/{nameOrID}/access", responses=errors(403, 404))
async def explain_access(
    key: Key,
    caller: Caller,
    services: Use,
    user: Annotated[
        str | None, Query(description="Identifier, subject or e-mail address; oneself when left out")
    ] = None,
) -> ConnectionAccessAnswer:
    """Why somebody may use the connection, or not; of others for administrators and auditors."""
    return ConnectionAccessAnswer.of(await services.access_rules.explain(caller, key, user))
