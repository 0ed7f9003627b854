"""Local login in a browser: where links of reviews, set-up and waiting programs lead users who are not logged in.

The pages work without scripts. If users log in at an identity provider, the links lead there instead
(`api/browser/browser.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Facts, Use
from postern.api.browser import web_login_pages
from postern.api.browser.browser import SHOWN, form_of, require_own_submit, to_provider
from postern.api.browser.cookies import set_login_cookie
from postern.api.browser.web_login_pages import Back
from postern.api.info import Info, ServerAddresses
from postern.api.responses import open_errors
from postern.domain.identity.login import ClientKind, TokenPurpose
from postern.domain.identity.second_factor import FactorKind
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, Malformed, PosternError, TooMany, Unauthenticated, Unavailable, status_of
from postern.services.bundle import Services
from postern.services.identity.logins.factor_check import FactorAnswer
from postern.services.identity.logins.local_login import SecondStep
from postern.services.identity.logins.logins import ClientFacts, OpenedLogin
from postern.services.identity.logins.redirect_targets import redirect_target_of

router = APIRouter(prefix="/web", tags=["Authentication"], route_class=AuditedRoute)

_TOTP_LENGTH = 6
_TOLD = (Denied, Invalid, Malformed, TooMany, Unauthenticated, Unavailable)
_LEADS_ON: dict[int | str, dict[str, Any]] = {303: {"description": "Logged in: back to the page that needed the login"}}


def _form(*names: str) -> dict[str, Any]:
    """Describe a form for OpenAPI."""
    schema = {"type": "object", "required": list(names), "properties": {name: {"type": "string"} for name in names}}
    return {"requestBody": {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": schema}}}}


async def _login_page(services: Services, back: Back, problem: PosternError | None = None) -> HTMLResponse:
    method = (await services.auth_settings.public(back.organization or None)).method
    if problem is None:
        return web_login_pages.login(back, method)
    return web_login_pages.login(back, method, problem.message, status_of(problem))


@router.get(
    "/login",
    response_class=Response,
    responses=open_errors(422, 429) | SHOWN | {303: {"description": "Redirect to the identity provider"}},
)
async def web_login_page(
    request: Request,
    services: Use,
    info: Info,
    back: Annotated[str, Query(max_length=2_000, description="Path of the gateway to return to")] = "/",
    organization: Annotated[str, Query(max_length=255)] = "",
) -> Response:
    """Show the page to users: a form to log in with a password. Redirects to the identity provider if users log in
    there."""
    redirect_target_of(back, None, info.api_url)
    provider = await to_provider(request, services, info, back, organization or None)
    return provider or await _login_page(services, Back(back, organization))


@router.post(
    "/login",
    response_class=Response,
    responses=open_errors(400, 401, 403, 413, 422, 429) | SHOWN | _LEADS_ON,
    openapi_extra=_form("email", "password"),
)
async def web_login(request: Request, services: Use, info: Info, facts: Facts) -> Response:
    """Receive the form. The page shows errors."""
    form = await form_of(request)
    require_own_submit(request, info)
    back = Back(form.get("back", "/"), form.get("organization", ""))
    redirect_target_of(back.path, None, info.api_url)
    email = request.state.claimed = form.get("email", "")
    try:
        step = await services.local_login.login(
            email, Secret(form.get("password", "")), _in_browser(facts), organisation=back.organization or None
        )
    except _TOLD as error:
        return await _login_page(services, back, error)
    if step.account is not None:
        request.state.principal = step.account.principal
    return _go_on(step, back.path, info)


@router.post(
    "/second-factor",
    response_class=Response,
    responses=open_errors(400, 401, 403, 413, 422, 429) | SHOWN | _LEADS_ON,
    openapi_extra=_form("ticket", "code"),
)
async def web_second_factor(request: Request, services: Use, info: Info, facts: Facts) -> Response:
    """Complete the login with a code of an authenticator app, or a recovery code."""
    form = await form_of(request)
    require_own_submit(request, info)
    back, ticket, code = form.get("back", "/"), Secret(form.get("ticket", "")), form.get("code", "").strip()
    redirect_target_of(back, None, info.api_url)
    try:
        account = await services.local_login.find_account(TokenPurpose.SECOND_FACTOR, ticket)
    except Unauthenticated as error:
        return await _login_page(services, Back(back), error)
    request.state.principal = account.principal
    kind = FactorKind.TOTP if code.isdecimal() and len(code) == _TOTP_LENGTH else FactorKind.RECOVERY
    try:
        opened = await services.local_login.second_step(
            ticket, FactorAnswer(kind, Secret(code), None), _in_browser(facts)
        )
    except _TOLD as error:
        return web_login_pages.second_factor(back, ticket.reveal(), error.message, status_of(error))
    return _go_on(opened, back, info)


@router.post(
    "/setup",
    response_class=Response,
    responses=open_errors(400, 401, 403, 413, 422, 429) | SHOWN | _LEADS_ON,
    openapi_extra=_form("token", "password", "again"),
)
async def web_set_up(request: Request, services: Use, info: Info, facts: Facts) -> Response:
    """Receive the form of the set-up page: set the password, and log in."""
    form = await form_of(request)
    require_own_submit(request, info)
    token = Secret(form.get("token", "").strip())
    try:
        if form.get("password", "") != form.get("again", ""):
            raise Invalid("password: the two passwords differ", field="password")
        request.state.principal = (await services.local_login.find_account(TokenPurpose.SETUP, token)).principal
        step = await services.local_login.set_up(token, Secret(form.get("password", "")), None, _in_browser(facts))
    except _TOLD as error:
        return web_login_pages.set_up(error.message, token.reveal(), status_of(error))
    return _go_on(step, "/", info)


@router.get("/setup", response_class=Response, responses=open_errors() | SHOWN)
async def web_set_up_page() -> HTMLResponse:
    """Show the page of a set-up link to browsers without scripts."""
    return web_login_pages.set_up()


def _in_browser(facts: ClientFacts) -> ClientFacts:
    return replace(facts, kind=ClientKind.WEB)


def _go_on(step: OpenedLogin | SecondStep, back: str, info: ServerAddresses) -> Response:
    if isinstance(step, SecondStep):
        kinds = {factor.kind for factor in step.factors}
        if not kinds & {FactorKind.TOTP, FactorKind.RECOVERY}:
            raise Denied(
                "this account has only a security key, which this page does not support: log in with `postern login`"
            )
        return web_login_pages.second_factor(back, step.ticket.reveal())
    response = RedirectResponse(redirect_target_of(back, None, info.api_url).url, status_code=303)
    set_login_cookie(response, step, info)
    return response
