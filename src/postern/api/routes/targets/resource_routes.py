"""Resources, to which connections belong, and the tags of connections."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.responses import errors
from postern.api.rule_filter_query import NameFilter
from postern.api.schemas.targets.resource_schemas import ResourceAnswer, TagAnswer

router = APIRouter(prefix="/resources", tags=["Connections"], route_class=AuditedRoute)
tags_router = APIRouter(prefix="/connection-tags", tags=["Connections"], route_class=AuditedRoute)


@tags_router.get("", responses=errors())
async def list_connection_tags(caller: Caller, services: Use, page: Paging) -> ListAnswer[TagAnswer]:
    """List tags by key and value, to choose from."""
    found = await services.connections.tags(caller, page)
    return make_list_answer([TagAnswer.of(use) for use in found.items], found, page)


@router.get("", responses=errors())
async def list_resources(caller: Caller, services: Use, page: Paging, where: NameFilter) -> ListAnswer[ResourceAnswer]:
    """List resources by name, with the connections of each. A resource is created with the first connection that names
    it."""
    found = await services.resources.find(caller, page, where)
    return make_list_answer([ResourceAnswer.of(one) for one in found.items], found, page)


@router.get("/{nameOrID}", responses=errors(404))
async def get_resource(key: Key, caller: Caller, services: Use) -> ResourceAnswer:
    return ResourceAnswer.of(await services.resources.get(caller, key))


@router.delete("/{nameOrID}", status_code=204, responses=errors(403, 404, 409))
async def delete_resource(key: Key, caller: Caller, services: Use) -> None:
    """Delete a resource. 409 while connections belong to it."""
    await services.resources.remove(caller, key)
