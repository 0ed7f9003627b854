"""Users of a gateway, and what they do beside the browser: by the API, as a command line would."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

import httpx
from tests.support.running import Gateway

ADMIN = "admin@localhost"
PASSWORD = "correct horse battery"


class _Login(httpx.Auth):
    """A password is checked at each login, which takes a while: those who ask for nothing do not log in."""

    requires_response_body = True

    def __init__(self, url: str, email: str) -> None:
        self._url = url
        self._body = {"email": email, "password": PASSWORD}
        self._token = ""

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        if not self._token:
            answer = yield httpx.Request("POST", self._url, json=self._body)
            assert answer.status_code == 200, answer.text
            self._token = answer.headers["token"]
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class People:
    """The first administrator, and everybody whom they create. All have the same password."""

    _used: ClassVar[set[str]] = set()  # tokens of set-up links, which work once

    def __init__(self, gateway: Gateway) -> None:
        self._url = gateway.told["api_url"] + "/api"
        token = gateway.told["setup_url"].partition("#token=")[2]
        if token not in self._used:
            self._used.add(token)
            self._set_password(token)
        self.admin = self.client(ADMIN)

    def client(self, email: str) -> httpx.Client:
        """Return the API as a program of this user has it, which logs in at its first request."""
        return httpx.Client(base_url=self._url, auth=_Login(f"{self._url}/localauth/login", email), timeout=60)

    def create(self, email: str, *groups: str) -> httpx.Client:
        for group in groups:
            self.admin.post("/users/groups", json={"name": group})
        body = {"email": email, "name": email.partition("@")[0].title(), "groups": list(groups)}
        made = self.admin.post("/users", json=body)
        assert made.is_success or made.status_code == httpx.codes.CONFLICT, made.text  # a test that is run once more
        self._set_password(self.ask("POST", f"/users/{email}/setup-link")["token"])
        return self.client(email)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer to a request of the administrator."""
        answer = self.admin.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def _set_password(self, token: str) -> None:
        answer = httpx.post(f"{self._url}/localauth/setup", json={"token": token, "password": PASSWORD})
        assert answer.status_code == 200, answer.text
