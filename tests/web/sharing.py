"""A gateway that files of tests share, since starting one takes longer than most files: each finds it as it was."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.web.people import People

# What administrators create, those first that others are needed by, and by which field it is deleted.
_CREATED = {
    "/access-requests/rules": "name",
    "/access-rules": "name",
    "/network-rules": "name",
    "/federation-rules": "name",
    "/serviceaccounts": "subject",
    "/guardrails": "name",
    "/datamasking-rules": "name",
    "/connections": "name",
    "/agents": "name",
    "/users": "email",
    "/users/groups": "name",
}
_DEMO = "/connections/shop-demo"
_CHANGED = ("connection_tags", "description", "guardrail_rules", "reviewers")  # of the demo's connection, by tests
_PREFERENCES = "/users/self/preferences"


class AsFound:
    """What a gateway has before a file of tests. Sessions, the audit log and decided reviews only grow: a file that
    counts them, or that changes the server's settings, has a gateway of its own."""

    def __init__(self, people: People) -> None:
        self._people = people
        self._names = {path: self._names_of(path) for path in _CREATED}
        demo = people.ask("GET", _DEMO)
        self._demo = {field: demo[field] for field in _CHANGED}
        self._preferences = people.ask("GET", _PREFERENCES)

    def restore(self) -> None:
        self._reject_what_waits()
        self._people.ask("PATCH", _DEMO, self._demo)
        self._people.ask("PUT", _PREFERENCES, self._preferences)
        for path in _CREATED:
            for name in self._names_of(path) - self._names[path]:
                answer = self._people.admin.delete(f"{path}/{quote(name, safe='')}")
                assert answer.is_success, answer.text

    def _reject_what_waits(self) -> None:
        waiting: list[dict[str, Any]] = self._people.ask("GET", "/reviews?status=PENDING&limit=100")["data"]
        for review in waiting:
            self._people.ask("PUT", f"/reviews/{review['id']}", {"status": "REJECTED"})

    def _names_of(self, path: str) -> set[str]:
        answer = self._people.ask("GET", f"{path}?limit=100")
        assert not answer["has_next_page"]
        return {one[_CREATED[path]] for one in answer["data"]}
