"""The client: one object with a part for each resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import httpx

from postern.client.http import Http
from postern.client.resources import Agents, Connections, Credentials, GuardRails, Sessions
from postern.client.shapes import ServerInfo, User
from postern.domain.secret import Secret
from postern.errors import Denied, Unavailable


class Client:
    """Use with an `Http` that carries a token, except for `login`."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self.agents = Agents(http)
        self.connections = Connections(http)
        self.credentials = Credentials(http)
        self.guardrails = GuardRails(http)
        self.sessions = Sessions(http)

    def login(self, email: str, password: Secret, ask_code: Callable[[], Secret] | None = None) -> Secret:
        """The access token. `ask_code` is asked for a code of an authenticator app, or a recovery code, where the
        account has a second factor. Raises Unauthenticated when they do not belong together."""
        answer = self._http.send("POST", "/localauth/login", body={"email": email, "password": password.reveal()})
        token = answer.headers.get("Token")
        ticket = None if token else self._ticket(answer)
        if ticket is not None:
            if ask_code is None:
                raise Denied("this account has a second factor, and nobody was asked for it")
            code = "".join(ask_code().reveal().split())
            kind = "totp" if code.isdigit() else "recovery"
            body = {"ticket": ticket, "kind": kind, "code": code}
            token = self._http.send("POST", "/localauth/second-factor", body=body).headers.get("Token")
        if not token:
            raise Unavailable(f"{self._http.api_url} did not answer with a token; check the address")
        return Secret(token)

    def set_up(self, token: Secret, password: Secret, name: str | None = None) -> Secret | None:
        """Sets the password by the token of a set-up link. The access token; None where the account has a second
        factor, which has to be given at a login. Raises Unauthenticated, Invalid."""
        body = {"token": token.reveal(), "password": password.reveal(), "name": name}
        answer = self._http.send("POST", "/localauth/setup", body=body)
        given = answer.headers.get("Token")
        return Secret(given) if given else None

    def _ticket(self, answer: httpx.Response) -> str | None:
        try:
            ticket = answer.json().get("ticket")
        except (ValueError, AttributeError):
            return None
        return ticket if isinstance(ticket, str) else None

    def userinfo(self) -> User:
        return cast(User, self._http.call("GET", "/userinfo"))

    def serverinfo(self) -> ServerInfo:
        return cast(ServerInfo, self._http.call("GET", "/serverinfo"))
