"""Connections (spec 2.1, 4.1)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.connection_filters import Filters
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.targets.connection_schemas import ConnectionAnswer, ConnectionPatch, ConnectionRequest
from postern.domain.identity.principal import Principal
from postern.services.targets.connections import ConnectionView

router = APIRouter(prefix="/connections", tags=["Connections"], route_class=AuditedRoute)

Key = Annotated[str, Path(alias="nameOrID", description="Name or identifier")]


@router.get("", responses=errors())
async def list_connections(
    caller: Caller,
    services: Use,
    page: Paging,
    wanted: Filters,
) -> ListAnswer[ConnectionAnswer]:
    """Those that all given filters fit, by name."""
    found = await services.connections.find(caller, wanted, page)
    return listed([_answer(view, caller) for view in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def create_connection(body: ConnectionRequest, caller: Caller, services: Use) -> ConnectionAnswer:
    return _answer(await services.connections.create(caller, body.fields()), caller)


@router.get("/{nameOrID}", responses=errors(404))
async def get_connection(key: Key, caller: Caller, services: Use) -> ConnectionAnswer:
    """With the keys of its secret for administrators; the values are shown to nobody."""
    return _answer(await services.connections.get(caller, key), caller)


@router.put("/{nameOrID}", responses=errors(403, 404, 413))
async def update_connection(key: Key, body: ConnectionRequest, caller: Caller, services: Use) -> ConnectionAnswer:
    """Replaces all settings; `name` cannot change, `secret` and `guardrail_rules` stay when they are left out. What GET
    answered, sent back, changes nothing: a null value in `secret` keeps what is stored under its key."""
    return _answer(await services.connections.replace(caller, key, body.fields()), caller)


@router.patch("/{nameOrID}", responses=errors(403, 404, 413))
async def patch_connection(key: Key, body: ConnectionPatch, caller: Caller, services: Use) -> ConnectionAnswer:
    """Changes only what is given. A null removes the limit of `access_max_duration` and the issue template; elsewhere
    it says nothing."""
    return _answer(await services.connections.patch(caller, key, body.changes()), caller)


@router.delete("/{nameOrID}", status_code=204, responses=errors(403, 404))
async def delete_connection(key: Key, caller: Caller, services: Use) -> None:
    """With its credentials; live sessions are ended, and stay in the record."""
    await services.connections.remove(caller, key)


def _answer(view: ConnectionView, caller: Principal) -> ConnectionAnswer:
    return ConnectionAnswer.of(view, with_keys=caller.is_admin)
