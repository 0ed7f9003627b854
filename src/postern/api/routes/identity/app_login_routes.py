"""Logins of browsers at HTTP applications: what the web application's page asks for on their way."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, CallerInFull, Use
from postern.api.responses import errors
from postern.api.schemas.identity.app_login_schemas import ApplicationAnswer, AppLoginAnswer, AppLoginRequest

router = APIRouter(tags=["Authentication"], route_class=AuditedRoute)


@router.get("/applogins", responses=errors(403, 404, 409))
async def look_at_application(
    caller: Caller,
    services: Use,
    host: Annotated[str, Query(max_length=63, description="First label of the application's host")],
) -> ApplicationAnswer:
    """Return the application at a host. 409 if two connections of the caller have the same host."""
    return ApplicationAnswer.of(await services.app_logins.find(caller, host), host)


@router.post("/applogins", status_code=201, responses=errors(403, 404, 409, 413))
async def open_application(body: AppLoginRequest, caller: CallerInFull, services: Use) -> AppLoginAnswer:
    """Let the browser that began a login at the application's host use the application as the caller. The answer has a
    URL that works once, for one minute, and only in that browser, which gets a credential that ends with the caller's
    login. 403 with `Postern-Error: step-up-required` if the login must first be confirmed."""
    return AppLoginAnswer(url=await services.app_logins.begin(caller, body.host, body.challenge))
