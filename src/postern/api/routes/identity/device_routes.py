"""Login of a command line without a browser (RFC 8628), and the page where a user confirms it; the same for programs of
logged-in users."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Address, CallerInFull, Facts, Use
from postern.api.browser import pages
from postern.api.browser.browser import SHOWN
from postern.api.browser.code_pages import code_page, form_schema, login_of, read_code_form
from postern.api.browser.plain_pages import DEVICE_PAGE
from postern.api.info import Info
from postern.api.responses import errors, open_errors
from postern.api.schemas.identity.login_schemas import (
    DeviceAnswer,
    DeviceLoginAnswer,
    DeviceLoginDecision,
    DeviceRequest,
    DeviceTokenRequest,
    PendingAnswer,
)
from postern.domain.identity.principal import Account
from postern.domain.page_addresses import device_address
from postern.domain.secret import Secret
from postern.services.identity.logins.device_login import INTERVAL

router = APIRouter(tags=["Authentication"], route_class=AuditedRoute)


@router.post("/login/device", status_code=201, responses=open_errors(413, 429))
async def begin_device_login(body: DeviceRequest, services: Use, info: Info, facts: Facts) -> DeviceAnswer:
    """Begin a device login. Returns two codes: one for the user to confirm in a browser, one with which the device
    fetches its token."""
    device = await services.device_login.begin(facts)
    return DeviceAnswer(
        device_code=device.device_code.reveal(),
        user_code=device.user_code,
        verification_url=device_address(info.api_url, "", body.organization),
        verification_url_complete=device_address(info.api_url, device.user_code, body.organization),
        expires_in=int(device.expires_in.total_seconds()),
        interval=INTERVAL,
    )


@router.post(
    "/login/device/token",
    responses=open_errors(401, 403, 413, 429)
    | {202: {"model": PendingAnswer, "description": "The user has not confirmed it yet"}},
)
async def device_token(
    body: DeviceTokenRequest, request: Request, services: Use, facts: Facts, response: Response
) -> PendingAnswer:
    """Fetch the token. 200 with the token in the header `Token`, once. 202 `authorization_pending`; 429 `slow_down`;
    403 `access_denied`; 401 if the code has expired, was used, or never existed."""
    login = await services.device_login.poll(Secret(body.device_code), facts)
    if login is None:
        response.status_code = 202
        return PendingAnswer(status="authorization_pending")
    account, opened = login
    request.state.principal = account.principal
    response.headers["Token"] = opened.token.reveal()
    return PendingAnswer(status="ok")


@router.get(
    "/login/device",
    response_class=Response,
    responses=open_errors(401, 403, 429) | SHOWN | {303: {"description": "Redirect to the login"}},
)
async def device_page(
    request: Request,
    services: Use,
    info: Info,
    user_code: Annotated[str, Query(max_length=64)] = "",
    organization: Annotated[str | None, Query(max_length=255)] = None,
) -> Response:
    """Show the page to users: the program that waits behind a code. Needs the browser's session; redirects to the
    login without it."""

    async def show(account: Account, csrf_token: str) -> Response:
        asking = await services.device_login.look(account.principal, user_code)
        return pages.confirm(asking, account.principal.email, csrf_token)

    return await code_page(request, services, info, DEVICE_PAGE, user_code, organization, pages.enter_code, show)


@router.post(
    "/login/device/confirm",
    response_class=Response,
    responses=open_errors(401, 403, 404, 413, 429) | SHOWN,
    openapi_extra=form_schema(),
)
async def confirm_device(request: Request, services: Use, info: Info) -> HTMLResponse:
    """Receive the page's form: the answer of a logged-in user."""
    form = await read_code_form(request, services, info)
    await services.device_login.answer(form.account, form.login, form.code, allow=form.allow)
    if form.allow:
        return pages.render_message("Done", "The command line is logged in. You can close this page.")
    return pages.render_message(
        "Rejected", "The command line is not logged in. If you did not start this, tell an administrator."
    )


@router.get("/devicelogins", responses=errors(403, 404, 429))
async def look_at_device_login(
    caller: CallerInFull,
    services: Use,
    address: Address,
    code: Annotated[str, Query(max_length=64, description="Code that the program shows")],
) -> DeviceLoginAnswer:
    """Return the program that waits behind a code."""
    login_of(caller, "programs")
    return DeviceLoginAnswer.of(await services.device_login.look(caller.principal, code), address)


@router.post("/devicelogins/confirm", responses=errors(403, 404, 413, 429))
async def confirm_device_login(
    body: DeviceLoginDecision, caller: CallerInFull, services: Use, address: Address
) -> DeviceLoginAnswer:
    """Approve or reject a program, once; an approved one logs in as the caller."""
    login, account = login_of(caller, "programs"), await services.users.own(caller.principal)
    allow = body.answer == "allow"
    asking = await services.device_login.answer(account, login, body.code, allow=allow)
    return DeviceLoginAnswer.of(asking, address)
