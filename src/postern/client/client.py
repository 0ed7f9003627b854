"""The client: one object with a part for each resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from postern.client.authentication import Authentication, Ticket
from postern.client.http import Http
from postern.client.resources import (
    Agents,
    Collection,
    Connections,
    Credentials,
    GuardRails,
    MaskingRules,
    Reports,
    Reviews,
    Runbooks,
    SecondFactors,
    Sessions,
    SshLogins,
)
from postern.client.runbook_runs import RunbookRuns
from postern.client.shapes import ServerInfo, User
from postern.domain.secret import Secret
from postern.errors import Denied


class Client:
    """Use with an `Http` that carries a token."""

    def __init__(self, http: Http) -> None:
        self.http = http
        self.authentication = Authentication(http)
        self.agents = Agents(http)
        self.connections = Connections(http)
        self.credentials = Credentials(http)
        self.guardrails = GuardRails(http)
        self.masking_rules = MaskingRules(http)
        self.reports = Reports(http)
        self.reviews = Reviews(http)
        self.runbooks = Runbooks(http)
        self.runbook_runs = RunbookRuns(http)
        self.second_factors = SecondFactors(http)
        self.sessions = Sessions(http)
        self.ssh_logins = SshLogins(http)

    def login(self, email: str, password: Secret, ask_code: Callable[[], Secret] | None = None) -> Secret:
        """The access token. `ask_code` is asked for a code of an authenticator app, or a recovery code, where the
        account has a second factor. Raises Unauthenticated when they do not belong together."""
        step = self.authentication.password(email, password)
        if not isinstance(step, Ticket):
            return step
        if ask_code is None:
            raise Denied("this account has a second factor, and nobody was asked for it")
        return self.authentication.second_factor(step, ask_code())

    def set_up(self, token: Secret, password: Secret, name: str | None = None) -> Secret | None:
        """Sets the password by the token of a set-up link. The access token; None where the account has a second
        factor, which has to be given at a login. Raises Unauthenticated, Invalid."""
        body = {"token": token.reveal(), "password": password.reveal(), "name": name}
        given = self.http.send("POST", "/localauth/setup", body=body).headers.get("Token")
        return Secret(given) if given else None

    def collection(self, *parts: str) -> Collection:
        """What is listed below a path, such as `("users", "groups")`."""
        return Collection(self.http, *parts)

    def userinfo(self) -> User:
        return cast(User, self.http.call("GET", "/userinfo"))

    def serverinfo(self) -> ServerInfo:
        return cast(ServerInfo, self.http.call("GET", "/serverinfo"))
