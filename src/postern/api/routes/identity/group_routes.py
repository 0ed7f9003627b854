"""Groups (spec 2.6)."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.crud import ResourceRoutes
from postern.api.schemas.identity.program_schemas import GroupAnswer, GroupRequest

router = APIRouter(prefix="/users/groups", tags=["User Management"], route_class=AuditedRoute)
ResourceRoutes(
    path="",
    names=("group", "groups"),
    service=lambda services: services.groups,
    request=GroupRequest,
    answer=GroupAnswer,
    texts={
        "list": "By name. Everybody sees the names; administrators and auditors also how many are in each.",
        "update": "With all memberships; rules and connections that name it follow. The groups that give a role keep "
        "their names.",
        "delete": "With all memberships. The groups that give a role cannot be deleted, nor can those that a rule or a "
        "connection needs.",
    },
).add_to(router)
