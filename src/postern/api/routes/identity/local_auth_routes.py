"""Local accounts: login with a password and a second factor, and set-up links (spec 4.7)."""

from __future__ import annotations

from fastapi import APIRouter, Request

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Facts, Use
from postern.api.browser.token_delivery import DeliversToken, TokenDelivery
from postern.api.crud import Key
from postern.api.responses import errors, open_errors
from postern.api.schemas.identity.local_auth_schemas import (
    LoginAnswer,
    LoginRequest,
    RegisterRequest,
    SecondFactorRequest,
    SetupLinkAnswer,
    SetupRequest,
)
from postern.api.schemas.identity.user_schemas import StatusAnswer
from postern.domain.identity.login import TokenPurpose
from postern.domain.secret import Secret
from postern.errors import Denied
from postern.services.identity.logins.local_login import SecondStep
from postern.services.identity.logins.logins import OpenedLogin

router = APIRouter(tags=["Authentication"], route_class=AuditedRoute)


@router.post("/localauth/register", responses=open_errors(403, 413))
async def register(_body: RegisterRequest) -> StatusAnswer:
    """Reject self-registration: the first start creates the first administrator, who creates all other users."""
    raise Denied("this gateway is set up already; ask an administrator for an account")


@router.post("/localauth/login", response_model_exclude_none=True, responses=open_errors(401, 403, 413, 429))
async def local_login(
    body: LoginRequest, request: Request, services: Use, facts: Facts, delivery: DeliversToken
) -> LoginAnswer:
    """Log in with e-mail and password; with LDAP, `email` is the user name in the directory. Returns the access token
    in the header `Token`, or with `session=cookie` in a cookie; it is valid for 12 hours. With a second factor it
    returns a ticket instead."""
    client = delivery.client(facts)
    step = await services.local_login.login(body.email, Secret(body.password), client, organisation=body.organization)
    if step.account is not None:
        request.state.principal = step.account.principal  # for the audit log of their own organisation
    return _answer(step, delivery)


@router.post("/localauth/second-factor", response_model_exclude_none=True, responses=open_errors(401, 403, 413, 429))
async def second_factor(
    body: SecondFactorRequest, request: Request, services: Use, facts: Facts, delivery: DeliversToken
) -> LoginAnswer:
    """Complete a login with a second factor. A ticket allows five attempts, an account ten wrong codes in an hour."""
    ticket = Secret(body.ticket)
    account = await services.local_login.find_account(TokenPurpose.SECOND_FACTOR, ticket)
    request.state.principal = account.principal  # for the audit log: the password was right
    opened = await services.local_login.second_step(ticket, body.answer(), delivery.client(facts))
    return _answer(opened, delivery)


@router.post("/localauth/setup", response_model_exclude_none=True, responses=open_errors(401, 403, 413, 429))
async def set_up(
    body: SetupRequest, request: Request, services: Use, facts: Facts, delivery: DeliversToken
) -> LoginAnswer:
    """Set a password with a set-up link, end all logins of the account, and log in."""
    token = Secret(body.token)
    request.state.principal = (await services.local_login.find_account(TokenPurpose.SETUP, token)).principal
    step = await services.local_login.set_up(token, Secret(body.password), body.name, delivery.client(facts))
    return _answer(step, delivery)


@router.post("/users/{nameOrID}/setup-link", status_code=201, responses=errors(404, 429))
async def make_setup_link(key: Key, caller: Caller, services: Use) -> SetupLinkAnswer:
    """Create a set-up link, with which a user sets a password, once, within 24 hours. For administrators; older links
    stop working."""
    return SetupLinkAnswer.of(await services.setup_links.issue(caller, key))


def _answer(step: OpenedLogin | SecondStep, delivery: TokenDelivery) -> LoginAnswer:
    if isinstance(step, SecondStep):
        return LoginAnswer.from_second_step(step)
    return LoginAnswer(csrf_token=delivery.deliver(step))
