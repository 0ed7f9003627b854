"""Login of a command line without browser (RFC 8628), and the page where somebody confirms it."""

from __future__ import annotations

import hmac
from typing import Annotated, Any
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from postern.api import pages
from postern.api.audited import AuditedRoute
from postern.api.auth import Facts, Use, address_of
from postern.api.cookies import csrf_token_of, login_cookie, require_own_origin
from postern.api.info import Info, Told
from postern.api.responses import open_errors
from postern.api.schemas.login import DeviceAnswer, DeviceRequest, DeviceTokenRequest, PendingAnswer
from postern.api.state_cookie import set_state_cookie
from postern.domain.login import Login
from postern.domain.principal import Account
from postern.domain.secret import Secret
from postern.errors import Denied, Malformed, NotFound, TooMany, Unauthenticated
from postern.services.bundle import Services
from postern.services.identity.device_login import INTERVAL
from postern.services.identity.oidc_login import Wish

router = APIRouter(prefix="/login/device", tags=["Authentication"], route_class=AuditedRoute)

_PAGE = "/api/login/device"
_MAX_FORM = 4_096  # bytes
_SHOWN: dict[int | str, dict[str, Any]] = {
    200: {"description": "A page", "content": {"text/html": {"schema": {"type": "string"}}}}
}
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
    responses=open_errors(401, 403, 429) | _SHOWN | {303: {"description": "To log in first"}},
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
        account, _, held = await _browser(request, services, info)
    except Unauthenticated:
        return await _to_login(request, services, info, user_code, organization)
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
    responses=open_errors(401, 403, 404, 413, 429) | _SHOWN,
    openapi_extra=_FORM,
)
async def confirm_device(request: Request, services: Use, info: Info) -> HTMLResponse:
    """What the page's form sends: the answer of somebody who is logged in."""
    account, login, held = await _browser(request, services, info)
    request.state.principal = account.principal
    form = await _form(request)
    _require_own_form(request, form, held, info)
    if form.get("answer") not in ("allow", "deny"):
        raise Malformed("answer: must be allow or deny")
    allow = form["answer"] == "allow"
    await services.device_login.answer(account, login, form.get("user_code", ""), allow=allow)
    if allow:
        return pages.told("Done", "The command line is logged in. You may close this page.")
    return pages.told("Refused", "The command line is not logged in. Tell an administrator if you did not begin this.")


async def _browser(request: Request, services: Services, info: Told) -> tuple[Account, Login, Secret]:
    """Whose browser this is, by its cookie alone. Raises Unauthenticated, Unavailable."""
    held = login_cookie(request, info)
    if held is None:
        raise Unauthenticated("log in in this browser first")
    caller = await services.authentication.caller(held, address=address_of(request))
    if caller.login is None:
        raise Unauthenticated("only the token of a login may be in the session's cookie")
    return await services.users.own(caller.principal), caller.login, held


async def _to_login(
    request: Request, services: Services, info: Told, user_code: str, organization: str | None
) -> Response:
    query = {"user_code": user_code} if user_code else {}
    back = f"{_PAGE}?{urlencode(query | ({'organization': organization} if organization else {}))}".rstrip("?")
    try:
        started = await services.oidc_login.begin(
            Wish(back, organization=organization), api_url=info.api_url, address=address_of(request)
        )
    except Malformed:
        return pages.told("Log in first", f"Log in at {info.api_url}/ in this browser, then open this page again.")
    response = RedirectResponse(started.login_url, status_code=303)
    set_state_cookie(response, started, info)
    return response


async def _form(request: Request) -> dict[str, str]:
    """The first value of each field. Raises Malformed."""
    content = await request.body()
    try:
        if len(content) > _MAX_FORM:
            raise ValueError
        return {name: values[0] for name, values in parse_qs(content.decode("ascii"), max_num_fields=10).items()}
    except ValueError:
        raise Malformed("the body cannot be read as a form") from None


def _require_own_form(request: Request, form: dict[str, str], held: Secret, info: Told) -> None:
    """Our pages send no referrer, so a browser gives their forms the origin `null`: then Fetch Metadata must say that
    it is our own. A form cannot send a header, so the token comes in a field. Raises Denied."""
    if not (request.headers.get("Origin") == "null" and request.headers.get("Sec-Fetch-Site") == "same-origin"):
        require_own_origin(request, info)
    if not hmac.compare_digest(form.get("csrf_token", "").encode(), csrf_token_of(held).encode()):
        raise Denied("this page is from another login; open it again")
