"""Groups (spec 2.6)."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.identity.program_schemas import GroupAnswer, GroupRequest

router = APIRouter(prefix="/users/groups", tags=["User Management"], route_class=AuditedRoute)


@router.get("", responses=errors())
async def list_groups(caller: Caller, services: Use, page: Paging) -> ListAnswer[GroupAnswer]:
    """By name. Everybody sees the names; administrators and auditors also how many are in each."""
    found = await services.groups.find(caller, page)
    return listed([GroupAnswer.of(group) for group in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def create_group(body: GroupRequest, caller: Caller, services: Use) -> GroupAnswer:
    return GroupAnswer.of(await services.groups.create(caller, body.name))


@router.put("/{name}", responses=errors(403, 404, 409, 413))
async def rename_group(name: str, body: GroupRequest, caller: Caller, services: Use) -> GroupAnswer:
    """By name or identifier, with all memberships. The groups that give a role keep their names."""
    return GroupAnswer.of(await services.groups.rename(caller, name, body.name))


@router.delete("/{name}", status_code=204, responses=errors(403, 404))
async def delete_group(name: str, caller: Caller, services: Use) -> None:
    """By name or identifier, with all memberships. The groups that give a role cannot be deleted."""
    await services.groups.remove(caller, name)
