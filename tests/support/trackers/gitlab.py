"""GitLab with one project: https://docs.gitlab.com/api/issues/"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tests.support.trackers.serving import Answer, Handler, Refused, Request, Site

TOKEN = "glpat-not-a-real-token"
PROJECT, NUMBER = "acme/platform/tickets", "42"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_CREATE: dict[str, type] = {
    "title": str,
    "description": str,
    "labels": str,
    "due_date": str,
    "issue_type": str,
    "assignee_ids": list,
    "milestone_id": int,
    "weight": int,
    "confidential": bool,
}
_FENCE = re.compile(r"^(`{3,}).*?^\1$", re.DOTALL | re.MULTILINE)


@dataclass
class GitLabServer(Site):
    issues: list[dict[str, Any]] = field(default_factory=list)
    access: str = "enabled"

    def routes(self) -> list[tuple[str, Handler]]:
        project = f"/api/v4/projects/(?:{PROJECT}|{NUMBER})"
        return [
            ("GET /api/v4/user", lambda _: Answer(200, {"id": 7, "username": "robot"})),
            (f"GET {project}", self._project),
            (f"POST {project}/issues", self._create),
            (f"GET {project}/issues", self._list),
            (f"GET {project}/issues/([0-9]+)", self._get),
            (f"PUT {project}/issues/([0-9]+)", self._update),
        ]

    def admit(self, request: Request) -> None:
        if request.headers.get("private-token") != TOKEN:
            raise Refused(401, {"message": "401 Unauthorized"})
        if PROJECT in request.target.replace(quote(PROJECT, safe=""), ""):
            # A path that is not encoded is another resource.
            raise Refused(404, {"error": "404 Not Found"})

    def unknown(self, request: Request) -> Answer:
        return Answer(404, {"message": "404 Project Not Found"})

    def _project(self, request: Request) -> Answer:
        return Answer(200, {"id": 42, "path_with_namespace": PROJECT, "issues_access_level": self.access})

    def _create(self, request: Request) -> Answer:
        given = request.body if isinstance(request.body, dict) else {}
        for name, value in given.items():
            if name not in _CREATE or type(value) is not _CREATE[name]:
                raise Refused(400, {"error": f"{name} is invalid"})
        if not given.get("title"):
            raise Refused(400, {"error": "title is missing"})
        if len(given["title"]) > 255:
            raise Refused(400, {"message": {"title": ["is too long (maximum is 255 characters)"]}})
        if given.get("issue_type", "issue") not in ("issue", "incident", "test_case", "task"):
            raise Refused(400, {"error": "issue_type does not have a valid value"})
        if "due_date" in given and not _DAY.fullmatch(given["due_date"]):
            raise Refused(400, {"error": "due_date is invalid"})
        at = len(self.issues) + 1
        # Quick actions outside of code are carried out, and are no part of the text then.
        acts = re.findall(r"^/(\w+)", _FENCE.sub("", given.get("description", "")), re.MULTILINE)
        made = {**given, "iid": at, "project_id": 42, "state": "closed" if "close" in acts else "opened"}
        made["labels"] = [one for one in given.get("labels", "").split(",") if one]
        made["web_url"] = f"{self.url}/{PROJECT}/-/issues/{at}"
        self.issues.append(made)
        return Answer(201, made)

    def _list(self, request: Request) -> Answer:
        query = request.query
        if query.get("scope") != "all" or query.get("in", "description") not in ("title", "description"):
            return Answer(200, [])
        states = ("opened", "closed") if query.get("state", "all") == "all" else (query["state"],)
        found = [one for one in self.issues if one["state"] in states]
        wanted = query.get("search", "").lower()
        found = [one for one in found if wanted in one.get("description", "").lower()]
        return Answer(200, list(reversed(found))[: min(int(query.get("per_page", 20)), 100)])

    def _get(self, request: Request, at: str) -> Answer:
        if not 0 < int(at) <= len(self.issues):
            return Answer(404, {"message": "404 Issue Not Found"})
        return Answer(200, self.issues[int(at) - 1])

    def _update(self, request: Request, at: str) -> Answer:
        found = self._get(request, at)
        event = (request.body or {}).get("state_event")
        if set(request.body or {}) != {"state_event"} or event not in ("close", "reopen"):
            raise Refused(400, {"error": "state_event does not have a valid value"})
        if found.status == 200:
            found.content["state"] = "closed" if event == "close" else "opened"
        return found
