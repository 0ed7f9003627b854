"""Delivery of a login's token to its user: in the header `Token`, or for browsers in a cookie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from fastapi import Depends, Query, Request, Response

from postern.api.authentication_of_requests import EnrollingCaller, session_token_of
from postern.api.browser.cookies import csrf_token_of, require_own_origin, set_login_cookie
from postern.api.info import ServerAddresses, info_of
from postern.domain.identity.login import ClientKind
from postern.services.identity.logins.logins import ClientFacts, OpenedLogin


class SessionKind(StrEnum):
    TOKEN = "token"  # noqa: S105 - no secret
    COOKIE = "cookie"


@dataclass(frozen=True, slots=True)
class TokenDelivery:
    kind: SessionKind
    info: ServerAddresses
    response: Response

    def client(self, facts: ClientFacts) -> ClientFacts:
        """Return what the login stores about the client."""
        return replace(facts, kind=ClientKind.WEB) if self.kind is SessionKind.COOKIE else facts

    def deliver(self, opened: OpenedLogin) -> str | None:
        """Return the CSRF token of a browser's session."""
        if self.kind is SessionKind.COOKIE:
            set_login_cookie(self.response, opened, self.info)
            return csrf_token_of(opened.token)
        self.response.headers["Token"] = opened.token.reveal()
        return None


async def delivery_of_query(
    request: Request,
    response: Response,
    session: Annotated[SessionKind, Query(description="How to return the token; browsers use `cookie`")] = (
        SessionKind.TOKEN
    ),
) -> TokenDelivery:
    """Raises Denied if another site's page requests a cookie: it would log users in with a different account."""
    info = await info_of(request)
    if session is SessionKind.COOKIE:
        require_own_origin(request, info)
    return TokenDelivery(session, info, response)


async def delivery_of_request(request: Request, response: Response, _known: EnrollingCaller) -> TokenDelivery:
    """Return the token in the way of the request: in a cookie or a header."""
    kind = SessionKind.TOKEN if session_token_of(request) is None else SessionKind.COOKIE
    return TokenDelivery(kind, await info_of(request), response)


DeliversToken = Annotated[TokenDelivery, Depends(delivery_of_query)]
RenewsToken = Annotated[TokenDelivery, Depends(delivery_of_request)]
