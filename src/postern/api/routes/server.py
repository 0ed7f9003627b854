"""What the server tells of itself, and login (spec 4.7)."""

from __future__ import annotations

from fastapi import APIRouter, Response

from postern import __version__
from postern.api.audited import AuditedRoute
from postern.api.auth import By, Caller, Facts, Use
from postern.api.info import Info
from postern.api.responses import errors, open_errors
from postern.api.schemas.users import (
    LivenessAnswer,
    LoginRequest,
    PublicServerInfoAnswer,
    ServerInfoAnswer,
    StatusAnswer,
    UserAnswer,
    UserInfoAnswer,
)
from postern.domain.secret import Secret
from postern.errors import Malformed

_LOCAL = "local"

open_router = APIRouter(route_class=AuditedRoute)
router = APIRouter(route_class=AuditedRoute)


@open_router.get("/healthz", tags=["Server Management"], responses=open_errors())
async def healthz() -> LivenessAnswer:
    """Whether the API process answers."""
    return LivenessAnswer()


@open_router.get("/publicserverinfo", tags=["Server Management"], responses=open_errors())
async def public_server_info() -> PublicServerInfoAnswer:
    """How to log in. The first admin is made at the first start, so no set-up is ever left to a stranger."""
    return PublicServerInfoAnswer(auth_method=_LOCAL, setup_required=False)


@open_router.get("/login", tags=["Authentication"], responses=open_errors())
async def login() -> StatusAnswer:
    """Where to go to log in at an identity provider; there is none with local login."""
    raise Malformed("this gateway uses local login: POST /api/localauth/login with email and password")


@open_router.post("/localauth/login", tags=["Authentication"], responses=open_errors(401, 413, 429))
async def local_login(body: LoginRequest, services: Use, facts: Facts, response: Response) -> StatusAnswer:
    """Answers the access token in the header `Token`; it is good for 12 hours."""
    opened = await services.accounts.login(body.email, Secret(body.password), facts, organisation=body.organization)
    response.headers["Token"] = opened.token.reveal()
    return StatusAnswer()


@router.get("/serverinfo", tags=["Server Management"], responses=errors())
async def server_info(_caller: Caller, info: Info) -> ServerInfoAnswer:
    """The configuration that clients need."""
    return ServerInfoAnswer(
        version=__version__,
        auth_method=_LOCAL,
        api_url=info.api_url,
        postgres_host=info.postgres_host,
        postgres_port=info.postgres_port,
        tunnel_url=info.tunnel_url,
        ca_certificate=info.ca_certificate,
    )


@router.get("/userinfo", tags=["User Management"], responses=errors())
async def user_info(caller: Caller, by: By, services: Use) -> UserInfoAnswer:
    """Who asks, by what, and where they are."""
    profile = await services.users.profile(caller)
    return UserInfoAnswer(
        **UserAnswer.of(profile.account).model_dump(),
        org_id=str(caller.org_id),
        org_name=profile.organisation.name,
        tenancy_type="selfhosted" if profile.alone else "multitenant",
        is_multitenant=not profile.alone,
        is_admin=caller.is_admin,
        kind=caller.kind,
        login_method=by.login.method if by.login else None,
        login_expires_at=by.login.expires_at if by.login else None,
        api_key=by.api_key.name if by.api_key else None,
    )
