"""Proxy managers: a user's own process of the command line, which opens local ports on request."""

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
    """Open a local port for a connection. It closes the port that is open, and listens on `port`, where clients wait
    for reviewers if necessary. 404 if none is running, 409 if it could not open the port."""
    state = await services.proxy_managers.connect(
        caller.principal,
        body.connection_name,
        body.port,
        body.access_duration_seconds,
        source=address,
        means=caller.means,
    )
    return ProxyAnswer.of(state)


@router.post("/disconnect", status_code=202, responses=errors(404, 409))
async def proxy_disconnect(caller: Caller, services: Use) -> ProxyAnswer:
    """Close the open port; connections through it end."""
    return ProxyAnswer.of(await services.proxy_managers.disconnect(caller))


@router.get("/status", responses=errors(404))
async def proxy_status(caller: Caller, services: Use) -> ProxyAnswer:
    """Return the state of the proxy manager. 404 if none is running."""
    return ProxyAnswer.of(services.proxy_managers.status(caller))
