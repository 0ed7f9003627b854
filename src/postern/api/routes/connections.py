"""Connections (spec 2.1, 4.1)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query

from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.connections import ConnectionAnswer, ConnectionPatch, ConnectionRequest
from postern.domain.principal import Principal
from postern.errors import Invalid
from postern.services.connections import ConnectionFilter, ConnectionView

router = APIRouter(prefix="/connections", tags=["Connections"], route_class=AuditedRoute)

Key = Annotated[str, Path(alias="nameOrID", description="Name or identifier")]


@router.get("", responses=errors())
async def list_connections(
    caller: Caller,
    services: Use,
    page: Paging,
    name: str | None = None,
    type: str | None = None,  # noqa: A002 - the API's name
    subtype: str | None = None,
    agent_id: UUID | None = None,
    search: Annotated[str | None, Query(description="Part of name, type, subtype or resource name")] = None,
    tag_selector: Annotated[
        str | None, Query(description="`key=value` or `key!=value`, separated by commas; all must hold")
    ] = None,
) -> ListAnswer[ConnectionAnswer]:
    """Those that all given filters fit, by name."""
    wanted = ConnectionFilter(name, type, subtype, agent_id, search, _selector(tag_selector or ""))
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
    """Changes only what is given."""
    return _answer(await services.connections.patch(caller, key, body.changes()), caller)


@router.delete("/{nameOrID}", status_code=204, responses=errors(403, 404))
async def delete_connection(key: Key, caller: Caller, services: Use) -> None:
    """With its credentials; live sessions are ended, and stay in the record."""
    await services.connections.remove(caller, key)


def _answer(view: ConnectionView, caller: Principal) -> ConnectionAnswer:
    return ConnectionAnswer.of(view, with_keys=caller.is_admin)


def _selector(text: str) -> tuple[tuple[str, str, bool], ...]:
    """`a=1,b!=2` → (("a", "1", True), ("b", "2", False))."""
    conditions = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.rstrip("!"):
            raise Invalid(f"tag_selector: {part!r} is neither key=value nor key!=value", field="tag_selector")
        conditions.append((key.removesuffix("!").strip(), value.strip(), not key.endswith("!")))
    return tuple(conditions)
