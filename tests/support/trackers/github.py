"""GitHub Enterprise Server with one repository: https://docs.github.com/en/rest/issues/issues"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tests.support.trackers.serving import Answer, Handler, Refused, Request, Site

TOKEN = "github_pat_11AAAAAAA0not_a_real_token"
REPOSITORY = "acme/ops.tickets"
_DOCS = "https://docs.github.com/rest"
_CREATE = {"title", "body", "assignee", "milestone", "labels", "assignees", "type", "parent_issue_id"}
_UPDATE = {"title", "body", "assignee", "state", "state_reason", "milestone", "labels", "assignees", "type"}
_SEARCH = re.compile(r'"([^"]+)" repo:(\S+) in:body is:issue')


@dataclass
class GitHubServer(Site):
    """`indexing`: the search finds what is made at once; else once a test puts it into `indexed`."""

    issues: list[dict[str, Any]] = field(default_factory=list)
    has_issues: bool = True
    indexing: bool = True
    indexed: set[int] = field(default_factory=set)
    types: tuple[str, ...] = ("Task",)
    milestones: tuple[int, ...] = (3,)

    def routes(self) -> list[tuple[str, Handler]]:
        repository = f"/api/v3/repos/{re.escape(REPOSITORY)}"
        return [
            ("GET /api/v3/user", lambda _: Answer(200, {"login": "robot"})),
            (f"GET {repository}", self._repository),
            (f"POST {repository}/issues", self._create),
            (f"GET {repository}/issues", self._list),
            (f"GET {repository}/issues/([0-9]+)", self._get),
            (f"PATCH {repository}/issues/([0-9]+)", self._update),
            ("GET /api/v3/search/issues", self._search),
        ]

    def admit(self, request: Request) -> None:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Refused(401, {"message": "Bad credentials", "documentation_url": _DOCS})
        if request.headers.get("accept") != "application/vnd.github+json" or "user-agent" not in request.headers:
            raise Refused(403, {"message": "Request forbidden by administrative rules."})
        if request.headers.get("x-github-api-version") != "2022-11-28":
            raise Refused(400, {"message": "The API version is not supported."})

    def unknown(self, request: Request) -> Answer:
        return Answer(404, {"message": "Not Found", "documentation_url": _DOCS, "status": "404"})

    def add(self, body: str, **more: Any) -> dict[str, Any]:
        """As somebody else would."""
        at = len(self.issues) + 1
        url = f"{self.url}/{REPOSITORY}/issues/{at}"
        made = {"number": at, "title": "x", "body": body, "state": "open", "html_url": url, **more}
        self.issues.append(made)
        if self.indexing:
            self.indexed.add(at)
        return made

    def _repository(self, request: Request) -> Answer:
        return Answer(200, {"full_name": REPOSITORY, "has_issues": self.has_issues})

    def _create(self, request: Request) -> Answer:
        if not self.has_issues:
            raise Refused(410, {"message": "Issues has been disabled in this repository."})
        given = _object(request.body, _CREATE)
        if not isinstance(given.get("title"), str) or not given["title"] or len(given["title"]) > 256:
            raise _invalid("title", "missing_field")
        for name in ("labels", "assignees"):
            if not all(isinstance(one, str) for one in given.get(name, [])):
                raise _invalid(name, "invalid")
        if "milestone" in given and given["milestone"] not in self.milestones:
            raise _invalid("milestone", "invalid")
        if "type" in given and given["type"] not in self.types:
            raise _invalid("type", "invalid")
        if len(given.get("body", "")) > 65_536:
            raise _invalid("body", "too_long")
        return Answer(201, self.add(**{"body": "", **given}))

    def _list(self, request: Request) -> Answer:
        """Pull requests are among them."""
        states = {"all": ("open", "closed"), "closed": ("closed",)}.get(request.query.get("state", ""), ("open",))
        found = [one for one in self.issues if one["state"] in states]
        if (request.query.get("sort"), request.query.get("direction")) == ("created", "desc"):
            found.reverse()
        return Answer(200, found[: min(int(request.query.get("per_page", 30)), 100)])

    def _get(self, request: Request, at: str) -> Answer:
        if not 0 < int(at) <= len(self.issues):
            return self.unknown(request)
        return Answer(200, self.issues[int(at) - 1])

    def _update(self, request: Request, at: str) -> Answer:
        given = _object(request.body, _UPDATE)
        if given.get("state", "open") not in ("open", "closed"):
            raise _invalid("state", "invalid")
        if given.get("state_reason", "completed") not in ("completed", "not_planned", "duplicate", "reopened"):
            raise _invalid("state_reason", "invalid")
        found = self._get(request, at)
        if found.status == 200:
            found.content.update(given)
        return found

    def _search(self, request: Request) -> Answer:
        wanted = _SEARCH.fullmatch(request.query.get("q", ""))
        if wanted is None or wanted[2] != REPOSITORY:
            raise Refused(422, {"message": "Validation Failed", "errors": [{"message": "cannot be searched"}]})
        phrase = wanted[1].replace("-", " ")
        found = [one for one in self.issues if phrase in one["body"].replace("-", " ")]
        known = [one for one in found if one["number"] in self.indexed]
        return Answer(200, {"total_count": len(known), "incomplete_results": False, "items": known})


def _object(given: Any, known: set[str]) -> dict[str, Any]:
    if not isinstance(given, dict) or set(given) - known:
        raise Refused(422, {"message": "Invalid request.", "documentation_url": _DOCS})
    return given


def _invalid(name: str, code: str) -> Refused:
    errors = [{"resource": "Issue", "field": name, "code": code}]
    return Refused(422, {"message": "Validation Failed", "errors": errors, "documentation_url": _DOCS})
