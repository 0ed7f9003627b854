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
        "list": "By name. All users see the names; administrators and auditors also the number of members.",
        "update": "Memberships stay, and rules and connections follow the new name. Groups that give a role cannot "
        "be renamed here.",
        "delete": "Its memberships are deleted. A group that gives a role cannot be deleted, nor one that a rule or "
        "a connection needs.",
    },
).add_to(router)
