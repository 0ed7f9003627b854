"""Status of the server (spec 4.7): whether it is alive, whether it can serve, how to log in, where to connect."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from postern import __version__
from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.info import Info
from postern.api.responses import errors, open_errors
from postern.api.schemas.server.server_schemas import (
    LivenessAnswer,
    LoginMethodAnswer,
    PublicServerInfoAnswer,
    ReadinessAnswer,
    ServerInfoAnswer,
)
from postern.domain.identity.auth_config import AuthConfig
from postern.domain.identity.login import LoginMethod

open_router = APIRouter(tags=["Server Management"], route_class=AuditedRoute)
router = APIRouter(tags=["Server Management"], route_class=AuditedRoute)


@open_router.get("/healthz", responses=open_errors())
async def healthz() -> LivenessAnswer:
    """Return whether the API process answers; it checks nothing else, so that a slow store causes no restart."""
    return LivenessAnswer()


@open_router.get("/readyz", responses=open_errors())
async def readyz(services: Use) -> ReadinessAnswer:
    """Return whether this gateway can serve; 503 names the missing part."""
    await services.health.require_ready()
    return ReadinessAnswer()


@open_router.get("/publicserverinfo", responses=open_errors())
async def public_server_info(
    services: Use,
    organization: Annotated[str | None, Query(description="Default: the default organisation")] = None,
) -> PublicServerInfoAnswer:
    """Return how users log in. For an organisation that does not exist the answer is that of one with local login."""
    config = await services.auth_settings.public(organization)
    return PublicServerInfoAnswer(
        auth_method=config.method,
        setup_required=await services.accounts.is_setup_required(),
        idp_provider_name=config.provider_name,
        methods=[_method_of(config)],
    )


def _method_of(config: AuthConfig) -> LoginMethodAnswer:
    """Return the way to log in. An organisation has one today; clients get a list."""
    if config.method is LoginMethod.LOCAL:
        return LoginMethodAnswer(kind=config.method, name="Password", url="/api/localauth/login")
    if config.method is LoginMethod.LDAP:
        return LoginMethodAnswer(kind=config.method, name=config.provider_name or "LDAP", url="/api/localauth/login")
    is_saml = config.method is LoginMethod.SAML
    name = config.provider_name or ("SAML" if is_saml else "Single sign-on")
    return LoginMethodAnswer(kind=config.method, name=name, url="/api/saml/login" if is_saml else "/api/login")


@router.get("/serverinfo", responses=errors())
async def server_info(caller: Caller, info: Info, services: Use) -> ServerInfoAnswer:
    """Return the configuration that clients need."""
    config = await services.auth_configs.of(caller.org_id)
    return ServerInfoAnswer.of(
        info,
        version=__version__,
        auth=(config.method, config.provider_name),
        tenancy_type="multitenant" if await services.organisations.are_several() else "selfhosted",
        is_default=await services.organisations.is_default(caller),
        flags=await services.features.all(caller.org_id),
    )
