"""Routes of connections (spec 2.1, 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.connection_filters import Filters
from postern.api.crud import ResourceRoutes
from postern.api.depends import services_of
from postern.api.paging import FacetAnswer, Paging, make_list_answer
from postern.api.query_words import words
from postern.api.schemas.targets.connection_schemas import (
    CatalogueAccessAnswer,
    CatalogueAnswer,
    ConnectionActivityAnswer,
    ConnectionAnswer,
    ConnectionListAnswer,
    ConnectionRequest,
)
from postern.domain.identity.principal import Principal
from postern.domain.targets.connection import Connection
from postern.domain.targets.connection_use import ConnectionAccess, ConnectionActivity, ConnectionFacet
from postern.services.identity.app_logins import AppAddresses
from postern.services.targets.connections import ConnectionView


async def list_connections(
    caller: Caller,
    services: Use,
    page: Paging,
    connection_filter: Filters,
    expand: Annotated[
        list[str] | None,
        Query(
            description="access: what the caller can do with each connection; activity: when it was used; repeated, or "
            "separated by commas"
        ),
    ] = None,
    facets: Annotated[
        list[str] | None,
        Query(description="type, subtype, status, tag: count the values; repeated, or separated by commas"),
    ] = None,
) -> ConnectionListAnswer:
    expanded = words("expand", expand, ("access", "activity"))
    fields = [ConnectionFacet(name) for name in words("facets", facets, tuple(ConnectionFacet))]
    listed = await services.connections.search(caller, connection_filter, page)
    connections = [view.connection for view in listed.items]
    access = await services.connection_catalogue.access(caller, connections) if "access" in expanded else {}
    activity = await services.connection_catalogue.activity(caller, connections) if "activity" in expanded else {}
    counts = await services.connections.facets(caller, connection_filter, fields) if fields else None
    addresses = await services.app_logins.addresses()
    rows = [_row(view, caller, addresses, access, activity) for view in listed.items]
    answer = make_list_answer(rows, listed, page)
    return ConnectionListAnswer(
        **dict(answer),
        facets=None if counts is None else {name: FacetAnswer.of(facet) for name, facet in counts.items()},
    )


def _row(
    view: ConnectionView,
    caller: Principal,
    addresses: AppAddresses,
    access: Mapping[UUID, ConnectionAccess],
    activity: Mapping[UUID, ConnectionActivity],
) -> CatalogueAnswer:
    answer = CatalogueAnswer.from_view(view, addresses, with_keys=caller.is_admin)
    if (known_access := access.get(view.connection.id)) is not None:
        answer.access = CatalogueAccessAnswer.of(known_access)
    if (known_activity := activity.get(view.connection.id)) is not None:
        answer.activity = ConnectionActivityAnswer.of(known_activity)
    return answer


async def _show(resource: Connection, request: Request, caller: Principal) -> ConnectionAnswer:
    services = services_of(request)
    view, addresses = await services.connections.view(resource), await services.app_logins.addresses()
    return ConnectionAnswer.from_view(view, addresses, with_keys=caller.is_admin)


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
