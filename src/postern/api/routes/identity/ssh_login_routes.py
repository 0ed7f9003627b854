"""SSH clients that wait for a login in a browser: the page where they are approved, and the same for programs of
logged-in users."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Address, CallerInFull, Use, address_of
from postern.api.browser import pages, ssh_pages
from postern.api.browser.browser import SHOWN
from postern.api.browser.code_pages import code_page, form_schema, login_of, read_code_form
from postern.api.browser.plain_pages import SSH_LOGIN_PAGE
from postern.api.info import Info
from postern.api.responses import errors, open_errors
from postern.api.schemas.identity.ssh_schemas import SshLoginAnswer, SshLoginDecision
from postern.domain.identity.principal import Account

router = APIRouter(tags=["Authentication"], route_class=AuditedRoute)


@router.get(
    "/login/ssh",
    response_class=Response,
    responses=open_errors(401, 403, 429) | SHOWN | {303: {"description": "Redirect to the login"}},
)
async def ssh_login_page(
    request: Request,
    services: Use,
    info: Info,
    user_code: Annotated[str, Query(max_length=64)] = "",
    organization: Annotated[str | None, Query(max_length=255)] = None,
) -> Response:
    """Show the page to users: the SSH client that waits behind a code. Needs the browser's session; redirects to the
    login without it."""

    async def show(account: Account, csrf_token: str) -> Response:
        asking = await services.ssh_logins.look(account.principal, user_code)
        return ssh_pages.confirm(asking, account.principal.email, address_of(request), csrf_token)

    return await code_page(request, services, info, SSH_LOGIN_PAGE, user_code, organization, ssh_pages.enter_code, show)


@router.post(
    "/login/ssh/confirm",
    response_class=Response,
    responses=open_errors(401, 403, 404, 413, 429) | SHOWN,
    openapi_extra=form_schema("number"),
)
async def confirm_ssh_login_on_page(request: Request, services: Use, info: Info) -> HTMLResponse:
    """Receive the page's form: the answer of a logged-in user."""
    form = await read_code_form(request, services, info)
    number = form.form.get("number", "")
    await services.ssh_logins.decide(form.account, form.login, form.code, allow=form.allow, number=number)
    if form.allow:
        return pages.render_message("Done", "The SSH client is logged in. You can close this page.")
    return pages.render_message(
        "Rejected", "The SSH client is not logged in. If you did not start this, tell an administrator."
    )


@router.get("/sshlogins", responses=errors(403, 404, 429))
async def look_at_ssh_login(
    caller: CallerInFull,
    services: Use,
    address: Address,
    code: Annotated[str, Query(max_length=64, description="Code in the address that the client shows")],
) -> SshLoginAnswer:
    """Return the SSH client that waits behind a code."""
    login_of(caller, "SSH clients")
    return SshLoginAnswer.of(await services.ssh_logins.look(caller.principal, code), address)


@router.post("/sshlogins/confirm", responses=errors(403, 404, 413, 429))
async def confirm_ssh_login(
    body: SshLoginDecision, caller: CallerInFull, services: Use, address: Address
) -> SshLoginAnswer:
    """Approve or reject an SSH client, once; an approved one logs in as the caller. 403 with a wrong number, which
    rejects it."""
    login, account = login_of(caller, "SSH clients"), await services.users.own(caller.principal)
    allow = body.answer == "allow"
    asking = await services.ssh_logins.decide(account, login, body.code, allow=allow, number=body.number)
    return SshLoginAnswer.of(asking, address)
