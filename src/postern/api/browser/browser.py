"""The user of a browser, for the few pages that the API shows: authentication, and forms that only this user sent."""

from __future__ import annotations

import hmac
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlencode

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from postern.api.authentication_of_requests import address_of
from postern.api.browser.cookies import csrf_token_of, login_cookie, require_own_origin
from postern.api.browser.saml_cookie import set_saml_cookie
from postern.api.browser.state_cookie import set_state_cookie
from postern.api.browser.web_login_pages import LOGIN
from postern.api.info import ServerAddresses
from postern.domain.identity.login import Login
from postern.domain.identity.principal import Account
from postern.domain.secret import Secret
from postern.errors import Denied, Malformed, Unauthenticated
from postern.services.bundle import Services
from postern.services.identity.logins.oidc_login import ProviderLoginRequest
from postern.services.identity.logins.saml_login import SamlSignInRequest

MAX_FORM = 16_384  # bytes
SHOWN: dict[int | str, dict[str, Any]] = {
    200: {"description": "A page", "content": {"text/html": {"schema": {"type": "string"}}}}
}


async def browser(request: Request, services: Services, info: ServerAddresses) -> tuple[Account, Login, Secret]:
    """Authenticate by the cookie alone. Raises Unauthenticated, Denied, Unavailable."""
    secret = login_cookie(request, info)
    if secret is None:
        raise Unauthenticated("log in with this browser first")
    caller = await services.authentication.caller(secret, address=address_of(request))
    if caller.login is None or caller.federation is not None:
        raise Unauthenticated("the session's cookie must contain the token of a login")
    return await services.users.own(caller.principal), caller.login, secret


async def to_login(
    request: Request, services: Services, info: ServerAddresses, back: str, organization: str | None = None
) -> Response:
    """Return the login page; afterwards the user returns to `back`, a path of this gateway."""
    provider = await to_provider(request, services, info, back, organization)
    if provider is not None:
        return provider
    query = urlencode({"back": back} | ({"organization": organization} if organization else {}))
    return RedirectResponse(f"{info.api_url}{LOGIN}?{query}", status_code=303)


async def to_provider(
    request: Request, services: Services, info: ServerAddresses, back: str, organization: str | None = None
) -> Response | None:
    """Return the way to the identity provider, from which users return to `back`; None if they log in here.

    Raises Invalid, TooMany, Unavailable.
    """
    address = address_of(request)
    with suppress(Malformed):  # users of this organisation log in with a password
        login_request = ProviderLoginRequest(back, organization=organization)
        started = await services.oidc_login.begin(login_request, api_url=info.api_url, address=address)
        response = RedirectResponse(started.login_url, status_code=303)
        set_state_cookie(response, started, info)
        return response
    with suppress(Malformed):
        saml_wish = SamlSignInRequest(back, None, organization, False)
        begun = await services.saml_login.begin(saml_wish, api_url=info.api_url, address=address)
        response = RedirectResponse(begun.login_url, status_code=303)
        set_saml_cookie(response, begun, info)
        return response
    return None


async def form_of(request: Request) -> dict[str, str]:
    """Return the first value of each field. Raises Malformed."""
    content = await request.body()
    try:
        if len(content) > MAX_FORM:
            raise ValueError
        fields = parse_qs(content.decode("ascii"), max_num_fields=10, errors="strict")
        return {name: values[0] for name, values in fields.items()}
    except ValueError:
        raise Malformed("the body is not a valid form") from None


def require_own_submit(request: Request, info: ServerAddresses) -> None:
    """Check that one of our pages sent the form, also for a user who is not logged in yet.

    Our pages send no referrer, so a browser gives their forms the origin `null`: then Fetch Metadata must confirm that
    the origin is our own. Raises Denied.
    """
    if not (request.headers.get("Origin") == "null" and request.headers.get("Sec-Fetch-Site") == "same-origin"):
        require_own_origin(request, info)


def require_own_form(request: Request, form: dict[str, str], token: Secret, info: ServerAddresses) -> None:
    """Check the token in the form's field, since a form cannot send a header. Raises Denied."""
    require_own_submit(request, info)
    if not hmac.compare_digest(form.get("csrf_token", "").encode(), csrf_token_of(token).encode()):
        raise Denied("this form is from a different login; open the page again")
