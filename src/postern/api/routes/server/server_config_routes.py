"""The configuration of the server, and of an organisation's login, read and changed while it runs."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.info import Info
from postern.api.responses import errors
from postern.api.schemas.identity.organisation_schemas import AuthConfigAnswer, AuthConfigRequest
from postern.api.schemas.server.server_schemas import MiscConfigAnswer, MiscConfigRequest

router = APIRouter(prefix="/serverconfig", tags=["Server Management"], route_class=AuditedRoute)


@router.get("/misc", responses=errors(403))
async def get_misc_config(caller: Caller, services: Use, info: Info) -> MiscConfigAnswer:
    """For administrators of the default organisation."""
    return MiscConfigAnswer.of(await services.server_configs.get(caller), info)


@router.put("/misc", responses=errors(403, 409, 413))
async def update_misc_config(body: MiscConfigRequest, caller: Caller, services: Use, info: Info) -> MiscConfigAnswer:
    """The workers open the new listener, then close the old one; sessions go on. 409 when the port is taken."""
    return MiscConfigAnswer.of(await services.server_configs.put(caller, body.fields()), info)


@router.get("/auth", responses=errors(403, 404))
async def get_auth_config(caller: Caller, services: Use) -> AuthConfigAnswer:
    """Of the caller's organisation; for administrators and auditors."""
    return AuthConfigAnswer.of(*await services.auth_settings.get(caller))


@router.put("/auth", responses=errors(403, 404, 409, 413))
async def update_auth_config(body: AuthConfigRequest, caller: Caller, services: Use) -> AuthConfigAnswer:
    """The provider is asked first. 409 when no administrator is known to get in afterwards and `confirm` is not set."""
    return AuthConfigAnswer.of(*await services.auth_settings.put(caller, body.fields()))
