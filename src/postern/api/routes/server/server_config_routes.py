"""Configuration of the server, and of an organisation's login, while it runs."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.info import Info
from postern.api.resource_kinds import register, setting
from postern.api.responses import errors
from postern.api.schemas.identity.organisation_schemas import AuthConfigAnswer, AuthConfigRequest
from postern.api.schemas.server.server_schemas import MiscConfigAnswer, MiscConfigRequest

router = APIRouter(prefix="/serverconfig", tags=["Server Management"], route_class=AuditedRoute)
register(setting("server-settings", f"{router.prefix}/misc", MiscConfigRequest))
register(setting("login-settings", f"{router.prefix}/auth", AuthConfigRequest))


@router.get("/misc", responses=errors(403))
async def get_misc_config(caller: Caller, services: Use, info: Info) -> MiscConfigAnswer:
    """Return the server's configuration, for administrators of the default organisation."""
    return MiscConfigAnswer.of(await services.server_configs.get(caller), info)


@router.put("/misc", responses=errors(403, 409, 413))
async def update_misc_config(body: MiscConfigRequest, caller: Caller, services: Use, info: Info) -> MiscConfigAnswer:
    """Change the server's configuration. The workers open the new listener, then close the old one; sessions continue.
    409 if the port is in use."""
    return MiscConfigAnswer.of(await services.server_configs.put(caller, body.fields()), info)


@router.get("/auth", responses=errors(403, 404))
async def get_auth_config(caller: Caller, services: Use) -> AuthConfigAnswer:
    """Return the login settings of the caller's organisation; for administrators and auditors."""
    return AuthConfigAnswer.of(*await services.auth_settings.get(caller))


@router.put("/auth", responses=errors(403, 404, 409, 413))
async def update_auth_config(body: AuthConfigRequest, caller: Caller, services: Use) -> AuthConfigAnswer:
    """Change how users log in. The provider is contacted first. 409 if no administrator is known to be able to log in
    afterwards and `confirm` is not set."""
    return AuthConfigAnswer.of(*await services.auth_settings.put(caller, body.fields()))
