"""The client: one object with a part for each resource."""

from __future__ import annotations

from typing import cast

from postern.client.http import Http
from postern.client.resources import Agents, Connections, Credentials, GuardRails, Sessions
from postern.client.shapes import ServerInfo, User
from postern.domain.secret import Secret
from postern.errors import Unavailable


class Client:
    """Use with an `Http` that carries a token, except for `login`."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self.agents = Agents(http)
        self.connections = Connections(http)
        self.credentials = Credentials(http)
        self.guardrails = GuardRails(http)
        self.sessions = Sessions(http)

    def login(self, email: str, password: Secret) -> Secret:
        """The access token. Raises Unauthenticated when the two do not belong together."""
        body = {"email": email, "password": password.reveal()}
        answer = self._http.send("POST", "/localauth/login", body=body)
        token = answer.headers.get("Token")
        if not token:
            raise Unavailable(f"{self._http.api_url} did not answer with a token; check the address")
        return Secret(token)

    def userinfo(self) -> User:
        return cast(User, self._http.call("GET", "/userinfo"))

    def serverinfo(self) -> ServerInfo:
        return cast(ServerInfo, self._http.call("GET", "/serverinfo"))
