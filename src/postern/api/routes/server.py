"""What the server tells of itself, and login (spec 4.7)."""

from __future__ import annotations

from fastapi import APIRouter

from postern import __version__
from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Facts, Use
from postern.api.hand_over import GivesLogin
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


@open_router.post("/localauth/login", tags=["Authentication"], responses=open_errors(401, 403, 413, 429))
async def local_login(
    body: LoginRequest,
    services: Use,
    facts: Facts,
    hand_over: GivesLogin,
) -> StatusAnswer:
    """Answers the access token in the header `Token`, or with `session=cookie` in a cookie; it is good for 12 hours."""
    client = hand_over.client(facts)
    opened = await services.accounts.login(body.email, Secret(body.password), client, organisation=body.organization)
    hand_over(opened)
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
async def user_info(caller: Caller, services: Use) -> UserInfoAnswer:
    """Who the token belongs to."""
    shown = UserAnswer.of(await services.users.own(caller)).model_dump()
    return UserInfoAnswer(**shown, org_id=str(caller.org_id), is_admin=caller.is_admin)
