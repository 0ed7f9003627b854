"""Authentication: a bearer token or a browser's session cookie, on every request except to the open routes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

from fastapi import Depends, Request, params
from fastapi.encoders import jsonable_encoder
from fastapi.security import APIKeyCookie, APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection

from postern.api import request_traces
from postern.api.browser import cookies
from postern.api.client_address import client_address
from postern.api.depends import Use, services_of
from postern.api.info import info_of
from postern.domain.identity.api_key import PREFIX
from postern.domain.identity.login import ClientKind
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.errors import Malformed, Unauthenticated
from postern.services.identity.logins.authentication import Caller as WholeCaller
from postern.services.identity.logins.authentication import require_enrolled
from postern.services.identity.logins.logins import ClientFacts

__all__ = ["Address", "Caller", "CallerInFull", "EnrollingCaller", "Facts", "Use", "services_of"]

_bearer = HTTPBearer(auto_error=False, description="Token of a login, or another bearer token")
_cookie = APIKeyCookie(
    name=cookies.SECURE_NAME,
    auto_error=False,
    description=f"Session of a browser. Over plain HTTP on loopback the cookie's name is `{cookies.PLAIN_NAME}`. "
    f"Writes also need the header `{cookies.CSRF_HEADER}`.",
)

_api_key = APIKeyHeader(name="Api-Key", auto_error=False, description="An API key; `Authorization` accepts it, too")
_SCHEMES = (_bearer, _api_key, _cookie)

# As OpenAPI describes them: each one suffices.
SECURITY: list[dict[str, list[str]]] = [{scheme.scheme_name: []} for scheme in _SCHEMES]
SECURITY_SCHEMES = {scheme.scheme_name: jsonable_encoder(scheme.model, exclude_none=True) for scheme in _SCHEMES}


def address_of(request: HTTPConnection) -> str:
    """Return the client's address; X-Forwarded-For counts only from a proxy that the settings name."""
    peer = request.client.host if request.client else "unknown"
    return client_address(peer, request.headers.getlist("X-Forwarded-For"), request.app.state.trusted_proxies)


async def authenticate(request: Request) -> WholeCaller:
    """Return the caller, even a user who must enrol a second factor first: for the few routes that serve this.

    Authenticate the request. Raises Unauthenticated, Malformed, Denied, Unavailable. The result is stored in
    `request.state`: for other parameters of the request, the log and the audit.
    """
    cached_caller: WholeCaller | None = getattr(request.state, "caller", None)
    if cached_caller is not None:
        return cached_caller
    credentials, api_key = await _bearer(request), await _api_key(request)
    info = await info_of(request) if request.cookies else None
    cookie = None if info is None else cookies.login_cookie(request, info)
    token = cookie or _read_token(credentials, api_key)
    if cookie is not None and (api_key is not None or "Authorization" in request.headers):
        raise Malformed("the request has both the session's cookie and a header with a token; send only one")
    if token is None:
        raise Unauthenticated("authentication is required: log in, and send `Authorization: Bearer <token>`")
    caller = await services_of(request).authentication.enrolling_caller(token, address=address_of(request))
    if info is not None and cookie is not None:
        if caller.login is None:
            raise Unauthenticated(
                "the session's cookie must contain the token of a login; send other tokens as `Authorization: "
                "Bearer <token>`"
            )
        if request.method not in cookies.READS:
            cookies.require_own_page(request, cookie, info)
    request.state.caller, request.state.principal, request.state.session_token = caller, caller.principal, cookie
    request.state.token = token
    request_traces.continue_trace(request.scope, caller.principal)
    return caller


async def caller_by_cookie(socket: HTTPConnection) -> WholeCaller:
    """Return the caller of a WebSocket, which only the browser's session authenticates. The result is stored in
    `socket.state`, as that of `authenticate`. Raises Unauthenticated, Malformed, Denied, Unavailable."""
    if "Authorization" in socket.headers or "Api-Key" in socket.headers:
        raise Malformed("a WebSocket is authenticated by the session's cookie alone; send no header with a token")
    cookie = cookies.login_cookie(socket, await info_of(socket))
    if cookie is None:
        raise Unauthenticated("authentication is required: log in to the web application")
    caller = await services_of(socket).authentication.caller(cookie, address=address_of(socket))
    if caller.login is None:
        raise Unauthenticated("the session's cookie must contain the token of a login")
    socket.state.caller, socket.state.principal, socket.state.session_token = caller, caller.principal, cookie
    return caller


def _read_token(credentials: HTTPAuthorizationCredentials | None, api_key: str | None) -> Secret | None:
    """Return the token of a header: `Authorization`, or `Api-Key` for keys alone. Raises Unauthenticated."""
    if credentials is not None and api_key is not None:
        raise Unauthenticated("the request has both `Authorization` and `Api-Key`; send only one")
    if api_key is not None and not api_key.startswith(PREFIX):
        raise Unauthenticated(
            "the header Api-Key does not contain an API key; send tokens as `Authorization: Bearer <token>`"
        )
    token = api_key if credentials is None else credentials.credentials
    return None if token is None else Secret(token)


async def caller_of(request: Request) -> WholeCaller:
    """Return the caller and the login. Raises Denied for a caller who must enrol a second factor first, and as
    `authenticate`."""
    caller = await authenticate(request)
    require_enrolled(caller)
    return caller


async def principal_of(request: Request) -> Principal:
    return (await caller_of(request)).principal


def session_token_of(request: Request) -> Secret | None:
    """Return the token of the request's cookie; None for a bearer token. Call it after `principal_of`."""
    secret: Secret | None = request.state.session_token
    return secret


Caller = Annotated[Principal, Depends(principal_of)]
CallerInFull = Annotated[WholeCaller, Depends(caller_of)]
EnrollingCaller = Annotated[WholeCaller, Depends(authenticate)]


async def _address(request: Request) -> str:
    return address_of(request)


async def _client(request: Request) -> ClientFacts:
    """Return what a login stores about the client."""
    return ClientFacts(ClientKind.API, address_of(request), request.headers.get("User-Agent", ""))


Address = Annotated[str, Depends(_address)]
Facts = Annotated[ClientFacts, Depends(_client)]


def needs_caller(call: Callable[..., Any]) -> bool:
    """Return whether this endpoint, or a dependency of it, needs the caller."""
    if call in (authenticate, caller_of, principal_of):
        return True
    if not inspect.isroutine(call):
        return False
    marks = [mark for hint in get_type_hints(call, include_extras=True).values() for mark in _marks(hint)]
    return any(mark.dependency is not None and needs_caller(mark.dependency) for mark in marks)


def _marks(hint: Any) -> list[params.Depends]:
    return [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, params.Depends)]
