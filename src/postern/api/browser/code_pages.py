"""The pages on which a logged-in user approves a program that waits behind a code: the code is looked up, then decided
with the page's own form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response

from postern.api.browser.browser import browser, form_of, require_own_form, to_login
from postern.api.browser.cookies import csrf_token_of
from postern.api.info import ServerAddresses
from postern.domain.identity.login import Login
from postern.domain.identity.principal import Account
from postern.errors import Denied, Malformed, NotFound, TooMany, Unauthenticated
from postern.services.bundle import Services
from postern.services.identity.logins.authentication import Caller


@dataclass(frozen=True, slots=True)
class CodeForm:
    """The form's fields, and its user. `form` has the other fields of the page."""

    account: Account
    login: Login
    code: str
    allow: bool
    form: dict[str, str]


def form_schema(*more: str) -> dict[str, Any]:
    """Describe such a form for the route; `more` are a page's own fields."""
    text = {"type": "string"}
    fields = dict.fromkeys(("user_code", "csrf_token", *more), text)
    schema = {
        "type": "object",
        "required": ["user_code", "csrf_token", "answer"],
        "properties": {**fields, "answer": {"type": "string", "enum": ["allow", "deny"]}},
    }
    return {"requestBody": {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": schema}}}}


async def code_page(
    request: Request,
    services: Services,
    info: ServerAddresses,
    page: str,
    code: str,
    organization: str | None,
    enter: Callable[[str], Response],
    show: Callable[[Account, str], Awaitable[Response]],
) -> Response:
    """Return the page at the path `page`. `show` returns the program behind the code, with a token for the form, and
    raises NotFound, TooMany; `enter` asks for a code again, with the problem of this one. Users who are not logged in
    are sent to the login."""
    try:
        account, _, secret = await browser(request, services, info)
    except Unauthenticated:
        query = {"user_code": code} if code else {}
        parameters = urlencode(query | ({"organization": organization} if organization else {}))
        return await to_login(request, services, info, f"{page}?{parameters}".rstrip("?"), organization)
    if not code:
        return enter("")
    try:
        return await show(account, csrf_token_of(secret))
    except (NotFound, TooMany) as problem:
        return enter(problem.message)


async def read_code_form(request: Request, services: Services, info: ServerAddresses) -> CodeForm:
    """Return the answer. Raises Unauthenticated, Denied for another page's form, Malformed."""
    account, login, secret = await browser(request, services, info)
    request.state.principal = account.principal
    form = await form_of(request)
    require_own_form(request, form, secret, info)
    if form.get("answer") not in ("allow", "deny"):
        raise Malformed("answer: must be allow or deny")
    return CodeForm(account, login, form.get("user_code", ""), form["answer"] == "allow", form)


def login_of(caller: Caller, what: str) -> Login:
    """Return the login that approves `what`. Raises Denied."""
    if caller.login is None or caller.federation is not None:
        raise Denied(f"only logged-in users can approve {what}; programs cannot")
    return caller.login
