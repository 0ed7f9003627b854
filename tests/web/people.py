"""Users of a gateway, and what they do beside the browser: by the API, as a command line would."""

from __future__ import annotations

from typing import Any

import httpx
from tests.support.running import Gateway

ADMIN = "admin@localhost"
PASSWORD = "correct horse battery"


class People:
    """The first administrator, and everybody whom they create. All have the same password."""

    def __init__(self, gateway: Gateway) -> None:
        self._url = gateway.told["api_url"] + "/api"
        self._set_password(gateway.told["setup_url"].partition("#token=")[2])
        self.admin = self.client(ADMIN)

    def client(self, email: str) -> httpx.Client:
        """Return the API as a program of this user has it."""
        answer = httpx.post(f"{self._url}/localauth/login", json={"email": email, "password": PASSWORD})
        assert answer.status_code == 200, answer.text
        headers = {"Authorization": f"Bearer {answer.headers['token']}"}
        return httpx.Client(base_url=self._url, headers=headers, timeout=60)

    def create(self, email: str, *groups: str) -> httpx.Client:
        for group in groups:
            self.admin.post("/users/groups", json={"name": group})
        self.ask("POST", "/users", {"email": email, "name": email.partition("@")[0].title(), "groups": list(groups)})
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
