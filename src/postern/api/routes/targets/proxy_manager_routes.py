"""Proxy managers: one's own process of the command line, told from elsewhere which connection to open a port for."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Address, Caller, CallerInFull, Use
from postern.api.responses import errors
from postern.api.schemas.targets.proxy_manager_schemas import ProxyAnswer, ProxyConnectRequest

router = APIRouter(prefix="/proxymanager", tags=["Proxy Manager"], route_class=AuditedRoute)


@router.post("/connect", responses=errors(403, 404, 409, 413))
async def proxy_connect(
    body: ProxyConnectRequest, caller: CallerInFull, services: Use, address: Address
) -> ProxyAnswer:
    """It closes what it had open, and listens on `port`, where clients wait for reviewers if they have to. 404 when
    none attends, 409 when it could not do it."""
    found = await services.proxy_managers.connect(
        caller.principal,
        body.connection_name,
        body.port,
        body.access_duration_seconds,
        source=address,
        means=caller.means,
    )
    return ProxyAnswer.of(found)


@router.post("/disconnect", status_code=202, responses=errors(404, 409))
async def proxy_disconnect(caller: Caller, services: Use) -> ProxyAnswer:
    """It closes what it has open; what runs over it ends."""
    return ProxyAnswer.of(await services.proxy_managers.disconnect(caller))


@router.get("/status", responses=errors(404))
async def proxy_status(caller: Caller, services: Use) -> ProxyAnswer:
    """404 when none attends."""
    return ProxyAnswer.of(services.proxy_managers.status(caller))
