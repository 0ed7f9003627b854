"""Login at an OpenID Connect provider: the redirect there, the callback, and a command line's token (spec 4.7, 5)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from postern.api.audited import AuditedRoute, record_login
from postern.api.authentication_of_requests import Address, Facts, Use
from postern.api.browser.cookies import set_login_cookie
from postern.api.browser.state_cookie import clear_state_cookie, set_state_cookie, state_cookie
from postern.api.info import Info
from postern.api.responses import open_errors
from postern.api.schemas.identity.login_schemas import (
    AtOrganization,
    CodeChallenge,
    ExchangeRequest,
    LoginUrlAnswer,
    Redirect,
)
from postern.api.schemas.identity.user_schemas import StatusAnswer
from postern.domain.secret import Secret
from postern.services.identity.logins.oidc_login import ProviderLoginRequest, Returned

router = APIRouter(tags=["Authentication"], route_class=AuditedRoute)

_LONG = 4_096  # characters of a code; some providers put whole tokens into it


@router.get("/login", responses=open_errors(429))
async def login(
    services: Use,
    info: Info,
    address: Address,
    response: Response,
    redirect: Redirect = None,
    code_challenge: CodeChallenge = None,
    organization: AtOrganization = None,
    prompt: Annotated[str, Query(max_length=64, description="Passed on to the provider")] = "",
    screen_hint: Annotated[str, Query(max_length=32, description="Passed on to the provider")] = "",
) -> LoginUrlAnswer:
    """Return the URL of the login at the organisation's OpenID Connect provider. 400 if users log in in a different
    way."""
    login_request = ProviderLoginRequest(redirect, code_challenge, organization, prompt, screen_hint)
    started = await services.oidc_login.begin(login_request, api_url=info.api_url, address=address)
    set_state_cookie(response, started, info)
    return LoginUrlAnswer(login_url=started.login_url)


@router.get("/callback", status_code=303, response_class=RedirectResponse, responses=open_errors(401, 429))
async def callback(
    request: Request,
    services: Use,
    info: Info,
    facts: Facts,
    state: Annotated[str, Query(max_length=512)] = "",
    code: Annotated[str | None, Query(max_length=_LONG)] = None,
    error: Annotated[str | None, Query(max_length=_LONG)] = None,
    iss: Annotated[str | None, Query(max_length=2_000)] = None,
) -> RedirectResponse:
    """Receive the browser from the OpenID Connect provider. A browser gets its session in a cookie; a command line gets
    a `code` for POST /api/login/exchange. Errors are sent to the redirect target as `error` and `error_description`;
    401 if the login was not begun here."""
    secret = Secret(state)
    returned = Returned(secret, code, error, iss, state_cookie(request, secret, info))
    landed = await services.oidc_login.finish(returned, facts, api_url=info.api_url)
    response = RedirectResponse(landed.url, status_code=303)
    clear_state_cookie(response, secret, info)
    if landed.account is not None:
        request.state.principal = landed.account.principal
        await record_login(request, landed.account.principal, "oidc")
    if landed.opened is not None:
        set_login_cookie(response, landed.opened, info)
    return response


@router.post("/login/exchange", responses=open_errors(401, 413))
async def exchange(
    body: ExchangeRequest, request: Request, services: Use, facts: Facts, response: Response
) -> StatusAnswer:
    """Exchange a command line's code for its token, in the header `Token`, once."""
    code, verifier = Secret(body.code), Secret(body.code_verifier)
    account, opened = await services.code_exchange.exchange(code, verifier, facts)
    request.state.principal = account.principal
    response.headers["Token"] = opened.token.reveal()
    return StatusAnswer()
