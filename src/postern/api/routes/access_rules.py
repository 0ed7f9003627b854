"""Access rules, which take effect where the feature `access-control` is on (spec 1 and 2.6)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.access_rules import (
    AccessRuleAnswer,
    AccessRuleChange,
    AccessRuleRequest,
    ConnectionAccessAnswer,
)

router = APIRouter(tags=["Connections"], route_class=AuditedRoute)

Key = Annotated[str, Path(alias="nameOrID", description="Name or identifier")]


@router.get("/access-rules", responses=errors(403))
async def list_access_rules(caller: Caller, services: Use, page: Paging) -> ListAnswer[AccessRuleAnswer]:
    """By name."""
    found = await services.access_rules.find(caller, page)
    return listed([AccessRuleAnswer.of(rule) for rule in found.items], found, page)


@router.post("/access-rules", status_code=201, responses=errors(403, 409, 413))
async def create_access_rule(body: AccessRuleRequest, caller: Caller, services: Use) -> AccessRuleAnswer:
    """Members of any of its groups may see and use what it names. It holds at once, if the feature is on."""
    return AccessRuleAnswer.of(await services.access_rules.create(caller, body.fields()))


@router.get("/access-rules/{nameOrID}", responses=errors(403, 404))
async def get_access_rule(key: Key, caller: Caller, services: Use) -> AccessRuleAnswer:
    return AccessRuleAnswer.of(await services.access_rules.get(caller, key))


@router.put("/access-rules/{nameOrID}", responses=errors(403, 404, 409, 413))
async def update_access_rule(key: Key, body: AccessRuleChange, caller: Caller, services: Use) -> AccessRuleAnswer:
    """Live sessions that it no longer allows are ended."""
    return AccessRuleAnswer.of(await services.access_rules.update(caller, key, body.fields()))


@router.delete("/access-rules/{nameOrID}", status_code=204, responses=errors(403, 404))
async def delete_access_rule(key: Key, caller: Caller, services: Use) -> None:
    """Live sessions that no other rule allows are ended."""
    await services.access_rules.remove(caller, key)


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
