"""Routes of connections (spec 2.1, 4.1)."""

from __future__ import annotations

from fastapi import APIRouter, Request

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.connection_filters import Filters
from postern.api.crud import ResourceRoutes
from postern.api.depends import services_of
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.schemas.targets.connection_schemas import ConnectionAnswer, ConnectionRequest
from postern.domain.identity.principal import Principal
from postern.domain.targets.connection import Connection


async def list_connections(
    caller: Caller,
    services: Use,
    page: Paging,
    wanted: Filters,
) -> ListAnswer[ConnectionAnswer]:
    found = await services.connections.search(caller, wanted, page)
    return make_list_answer(
        [ConnectionAnswer.from_view(view, with_keys=caller.is_admin) for view in found.items], found, page
    )


async def _show(resource: Connection, asked: Request, caller: Principal) -> ConnectionAnswer:
    view = await services_of(asked).connections.view(resource)
    return ConnectionAnswer.from_view(view, with_keys=caller.is_admin)


router = APIRouter(tags=["Connections"], route_class=AuditedRoute)
ResourceRoutes(
    path="/connections",
    names=("connection", "connections"),
    service=lambda services: services.connections,
    request=ConnectionRequest,
    answer=ConnectionAnswer,
    texts={
        "list": "By name, those that match all given filters.",
        "show": "Administrators also see the keys of its secret; the values are never shown.",
        "update": "`name` cannot change. `secret`, `guardrail_rules` and `subtype` keep their values if they are "
        "left out; a null value in `secret` keeps the stored value of its key, so that sending back an "
        "answer changes nothing. Null removes the limit of `access_max_duration` and the issue template; "
        "in other fields it is ignored.",
        "delete": "Its credentials are deleted; running sessions are ended, and stay on record.",
    },
    show=_show,
    own={"list": list_connections},
).add_to(router)
