"""Resources, to which connections belong, the tags of connections, and what there are connections to."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.responses import errors
from postern.api.rule_filter_query import NameFilter
from postern.api.schemas.targets.connection_type_schemas import ConnectionTypeAnswer, connection_types
from postern.api.schemas.targets.resource_schemas import ResourceAnswer, TagAnswer

router = APIRouter(prefix="/resources", tags=["Connections"], route_class=AuditedRoute)
tags_router = APIRouter(prefix="/connection-tags", tags=["Connections"], route_class=AuditedRoute)
types_router = APIRouter(prefix="/connection-types", tags=["Connections"], route_class=AuditedRoute)


@types_router.get("", responses=errors())
async def list_connection_types(caller: Caller) -> list[ConnectionTypeAnswer]:
    """List the subtypes of connections, with the keys that the secret of each has."""
    return connection_types()


@tags_router.get("", responses=errors())
async def list_connection_tags(caller: Caller, services: Use, page: Paging) -> ListAnswer[TagAnswer]:
    """List tags by key and value, to choose from."""
    listed = await services.connections.tags(caller, page)
    return make_list_answer([TagAnswer.of(use) for use in listed.items], listed, page)


@router.get("", responses=errors())
async def list_resources(caller: Caller, services: Use, page: Paging, where: NameFilter) -> ListAnswer[ResourceAnswer]:
    """List resources by name, with the connections of each. A resource is created with the first connection that names
    it."""
    listed = await services.resources.find(caller, page, where)
    return make_list_answer([ResourceAnswer.of(item) for item in listed.items], listed, page)


@router.get("/{nameOrID}", responses=errors(404))
async def get_resource(key: Key, caller: Caller, services: Use) -> ResourceAnswer:
    return ResourceAnswer.of(await services.resources.get(caller, key))


@router.delete("/{nameOrID}", status_code=204, responses=errors(403, 404, 409))
async def delete_resource(key: Key, caller: Caller, services: Use) -> None:
    """Delete a resource. 409 while connections belong to it."""
    await services.resources.remove(caller, key)
