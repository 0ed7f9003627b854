"""Who asks: a bearer token on every request but the open ones."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from postern.domain.api_key import PREFIX
from postern.domain.login import ClientKind
from postern.domain.principal import Principal
from postern.domain.secret import Secret
from postern.errors import Unauthenticated
from postern.services.bundle import Services
from postern.services.identity import authentication
from postern.services.identity.logins import ClientFacts

_bearer = HTTPBearer(auto_error=False, description="The token that login answered with.")

_api_key = APIKeyHeader(name="Api-Key", auto_error=False, description="An API key; `Authorization` takes it, too.")


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def address_of(request: Request) -> str:
    """The client's address; proxies are not believed."""
    return request.client.host if request.client else "unknown"


async def principal_of(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    api_key: Annotated[str | None, Depends(_api_key)],
) -> Principal:
    """Raises Unauthenticated. The principal is also left in `request.state` for the log and the audit."""
    if credentials is not None and api_key is not None:
        raise Unauthenticated("send `Authorization` or `Api-Key`, not both: they may be of two callers")
    if api_key is not None and not api_key.startswith(PREFIX):
        raise Unauthenticated("the header Api-Key holds no API key; send tokens as `Authorization: Bearer <token>`")
    given = api_key if credentials is None else credentials.credentials
    if given is None:
        raise Unauthenticated("this needs a token: log in, and send `Authorization: Bearer <token>`")
    token = Secret(given)
    caller = await services_of(request).authentication.caller(token, address=address_of(request))
    request.state.caller, request.state.principal, request.state.token = caller, caller.principal, token
    return caller.principal


def caller_of(request: Request, _principal: Annotated[Principal, Depends(principal_of)]) -> authentication.Caller:
    """Also by what they ask: a login, or an API key."""
    caller: authentication.Caller = request.state.caller
    return caller


Caller = Annotated[Principal, Depends(principal_of)]
By = Annotated[authentication.Caller, Depends(caller_of)]


def client_of(request: Request) -> ClientFacts:
    """What a login remembers of the client."""
    return ClientFacts(ClientKind.API, address_of(request), request.headers.get("User-Agent", ""))


Use = Annotated[Services, Depends(services_of)]
Address = Annotated[str, Depends(address_of)]
Facts = Annotated[ClientFacts, Depends(client_of)]
