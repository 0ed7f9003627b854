"""Login of a command line without browser (RFC 8628), and the page where somebody confirms it."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from postern.api import pages
from postern.api.audited import AuditedRoute
from postern.api.auth import Facts, Use
from postern.api.browser import SHOWN, browser, form_of, require_own_form, to_login
from postern.api.cookies import csrf_token_of
from postern.api.info import Info
from postern.api.responses import open_errors
from postern.api.schemas.login import DeviceAnswer, DeviceRequest, DeviceTokenRequest, PendingAnswer
from postern.domain.secret import Secret
from postern.errors import Malformed, NotFound, TooMany, Unauthenticated
from postern.services.identity.device_login import INTERVAL

router = APIRouter(prefix="/login/device", tags=["Authentication"], route_class=AuditedRoute)

_PAGE = "/api/login/device"
_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {
                    "type": "object",
                    "required": ["user_code", "csrf_token", "answer"],
                    "properties": {
                        "user_code": {"type": "string"},
                        "csrf_token": {"type": "string"},
                        "answer": {"type": "string", "enum": ["allow", "deny"]},
                    },
                }
            }
        },
    }
}


@router.post("", status_code=201, responses=open_errors(413, 429))
async def begin_device_login(body: DeviceRequest, services: Use, info: Info, facts: Facts) -> DeviceAnswer:
    """Two codes: one for the person to confirm in a browser, one for the device to fetch its token with."""
    device = await services.device_login.begin(facts)
    query = {"organization": body.organization} if body.organization else {}
    url = f"{info.api_url}{_PAGE}"
    return DeviceAnswer(
        device_code=device.device_code.reveal(),
        user_code=device.user_code,
        verification_url=f"{url}?{urlencode(query)}" if query else url,
        verification_url_complete=f"{url}?{urlencode({'user_code': device.user_code, **query})}",
        expires_in=int(device.expires_in.total_seconds()),
        interval=INTERVAL,
    )


@router.post(
    "/token", responses=open_errors(401, 403, 413, 429) | {202: {"model": PendingAnswer, "description": "Not yet"}}
)
async def device_token(
    body: DeviceTokenRequest, request: Request, services: Use, facts: Facts, response: Response
) -> PendingAnswer:
    """200 with the token in the header `Token`, once. 202 `authorization_pending`; 429 `slow_down`; 403
    `access_denied`; 401 when the code has expired, was used, or never was."""
    found = await services.device_login.poll(Secret(body.device_code), facts)
    if found is None:
        response.status_code = 202
        return PendingAnswer(status="authorization_pending")
    account, opened = found
    request.state.principal = account.principal
    response.headers["Token"] = opened.token.reveal()
    return PendingAnswer(status="ok")


@router.get(
    "",
    response_class=Response,
    responses=open_errors(401, 403, 429) | SHOWN | {303: {"description": "To log in first"}},
)
async def device_page(
    request: Request,
    services: Use,
    info: Info,
    user_code: Annotated[str, Query(max_length=64)] = "",
    organization: Annotated[str | None, Query(max_length=255)] = None,
) -> Response:
    """For people: who asks to be logged in behind a code. Needs the browser's session; leads to login without."""
    try:
        account, _, held = await browser(request, services, info)
    except Unauthenticated:
        query = {"user_code": user_code} if user_code else {}
        wanted = urlencode(query | ({"organization": organization} if organization else {}))
        return await to_login(request, services, info, f"{_PAGE}?{wanted}".rstrip("?"), organization)
    if not user_code:
        return pages.enter_code()
    try:
        asking = await services.device_login.look(account.principal, user_code)
    except (NotFound, TooMany) as problem:
        return pages.enter_code(problem.message)
    return pages.confirm(asking, account.principal.email, csrf_token_of(held))


@router.post(
    "/confirm",
    response_class=Response,
    responses=open_errors(401, 403, 404, 413, 429) | SHOWN,
    openapi_extra=_FORM,
)
async def confirm_device(request: Request, services: Use, info: Info) -> HTMLResponse:
    """What the page's form sends: the answer of somebody who is logged in."""
    account, login, held = await browser(request, services, info)
    request.state.principal = account.principal
    form = await form_of(request)
    require_own_form(request, form, held, info)
    if form.get("answer") not in ("allow", "deny"):
        raise Malformed("answer: must be allow or deny")
    allow = form["answer"] == "allow"
    await services.device_login.answer(account, login, form.get("user_code", ""), allow=allow)
    if allow:
        return pages.told("Done", "The command line is logged in. You may close this page.")
    return pages.told("Refused", "The command line is not logged in. Tell an administrator if you did not begin this.")
