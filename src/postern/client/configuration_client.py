"""The resources of the API as a configuration in files needs them: kinds, lists, versions, and who changed one last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from postern.client.client_http import Http
from postern.client.client_shapes import Row
from postern.errors import Denied, NotFound

_CHANGES = ("create", "update", "delete")


@dataclass(frozen=True, slots=True)
class Versioned:
    """A resource with its version, which is empty for one without versions."""

    row: Row
    etag: str


@dataclass(frozen=True, slots=True)
class LastChange:
    by: str
    at: str


def item_path(path: str, key: str) -> str:
    return f"{path}/{quote(key, safe='')}"


class ConfigurationClient:
    def __init__(self, http: Http) -> None:
        self._http = http

    @property
    def address(self) -> str:
        return self._http.api_url

    def kinds(self) -> list[Row]:
        return cast("list[Row]", self._http.call("GET", "/configuration/kinds"))

    def rows(self, path: str, *, is_single: bool) -> list[Row]:
        """Return all resources of a kind. Raises Denied."""
        if not is_single:
            return self._http.all(path)
        try:
            return [self._http.call("GET", path)]
        except NotFound:
            return []

    def read(self, path: str) -> Versioned:
        """Raises NotFound."""
        answer = self._http.send("GET", path)
        return Versioned(answer.json(), answer.headers.get("ETag", ""))

    def write(self, method: str, path: str, body: Row, etag: str = "") -> Versioned:
        """Return what was written. Raises PreconditionFailed where it has a different version."""
        headers = {"If-Match": etag} if etag else None
        answer = self._http.send(method, path, body=body, headers=headers)
        return Versioned(answer.json(), answer.headers.get("ETag", ""))

    def delete(self, path: str, etag: str = "") -> None:
        """Delete it, also where it applies to connections."""
        headers = {"If-Match": etag} if etag else None
        self._http.call("DELETE", path, query={"force": "true"}, headers=headers)

    def last_change(self, *paths: str) -> LastChange | None:
        """Return the newest successful write to one of these paths, as far as the audit log has it."""
        entries: list[Row] = []
        for path in paths:
            query = {"http_path": f"/api{path}", "outcome": "success", "limit": 5}
            try:
                page: Any = self._http.call("GET", "/audit/logs", query=query)
            except (Denied, NotFound):
                return None
            entries += [entry for entry in page["data"] if entry["action"] in _CHANGES]
        if not entries:
            return None
        newest = max(entries, key=lambda entry: str(entry["created_at"]))
        return LastChange(newest["actor_email"] or newest["actor_subject"], newest["created_at"])

    def simulate(self, body: Row) -> AbstractContextManager[Iterator[str]]:
        """Simulate a guardrail that is not saved; yield the lines of the answer."""
        return self._http.lines("/guardrails/simulate", body=body)
