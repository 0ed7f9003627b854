"""The client: one object with a part for each resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from postern.client.client_authentication import ClientAuthentication, SecondFactorTicket
from postern.client.client_http import Http
from postern.client.client_resources import (
    Collection,
    CredentialsClient,
    ReportsClient,
    ReviewsClient,
    Runbooks,
    SecondFactorsClient,
    SessionsClient,
    SshLoginsClient,
)
from postern.client.client_shapes import ServerInfo, UserShape
from postern.client.runbook_runs import RunbookRuns
from postern.domain.secret import Secret
from postern.domain.targets.agent import AgentMode
from postern.errors import Conflict, Denied, NotFound


class Client:
    """A client of one gateway, created with an `Http` that carries a token."""

    def __init__(self, http: Http) -> None:
        self.http = http
        self.authentication = ClientAuthentication(http)
        self.connections = self.collection("connections")
        self.credentials = CredentialsClient(http)
        self.reports = ReportsClient(http)
        self.reviews = ReviewsClient(http)
        self.runbooks = Runbooks(http)
        self.runbook_runs = RunbookRuns(http)
        self.second_factors = SecondFactorsClient(http)
        self.sessions = SessionsClient(http)
        self.ssh_logins = SshLoginsClient(http)

    def login(self, email: str, password: Secret, ask_code: Callable[[], Secret] | None = None) -> Secret:
        """Log in and return the access token. `ask_code` returns a code of an authenticator app, or a recovery code, if
        the account has a second factor. Raises Unauthenticated for a wrong e-mail address, password or code."""
        step = self.authentication.password(email, password)
        if not isinstance(step, SecondFactorTicket):
            return step
        if ask_code is None:
            raise Denied("this account has a second factor, and this command cannot ask for its code")
        return self.authentication.second_factor(step, ask_code())

    def set_up(self, token: Secret, password: Secret, name: str | None = None) -> Secret | None:
        """Set the password with the token of a set-up link. Return the access token; None if the account has a second
        factor, which needs a login. Raises Unauthenticated, Invalid."""
        body = {"token": token.reveal(), "password": password.reveal(), "name": name}
        token_header = self.http.send("POST", "/localauth/setup", body=body).headers.get("Token")
        return Secret(token_header) if token_header else None

    def collection(self, *parts: str) -> Collection:
        """Return the collection below a path, such as `("users", "groups")`."""
        return Collection(self.http, *parts)

    def default_agent_id(self) -> str:
        """Return the agent of a connection that names none: the gateway's own, or the only one. Raises NotFound,
        Conflict."""
        agents = self.collection("agents").everything()["data"]
        candidates = [agent for agent in agents if agent["mode"] == AgentMode.GATEWAY] or agents
        if not candidates:
            raise NotFound(
                "this gateway has no agent yet, so it cannot reach any target; create one with `postern admin "
                "agents create NAME`"
            )
        if len(candidates) > 1:
            names = ", ".join(agent["name"] for agent in candidates)
            raise Conflict(f"several agents could serve the connection: {names}; choose one with --agent")
        return str(candidates[0]["id"])

    def userinfo(self) -> UserShape:
        return cast(UserShape, self.http.call("GET", "/userinfo"))

    def serverinfo(self) -> ServerInfo:
        return cast(ServerInfo, self.http.call("GET", "/serverinfo"))
