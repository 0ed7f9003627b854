"""GitLab: https://docs.gitlab.com/api/issues/.

A project's key is its path, GROUP/PROJECT with any number of groups, or its number; a template's `request_type_id` is
an issue type: issue, incident, task or test_case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postern.domain.issues.issue import Issue, NewIssue, TrackerSettings, Uncertain
from postern.domain.secret import Secret
from postern.errors import Invalid
from postern.integrations.trackers.code_hosts import CodeHost, Shape, contents_of, number, several, wanted_state
from postern.integrations.trackers.tracker_calls import (
    TrackerClient,
    clean_line,
    make_issue,
    require_its,
    rows,
    segment,
    text,
)
from postern.integrations.trackers.tracker_texts import has_marker, moment

_TYPES = ("issue", "incident", "task", "test_case")
_PAGE = 100
_STATES = {
    "close": frozenset({"done", "close", "closed"}),
    "reopen": frozenset({"open", "opened", "reopen", "reopened"}),
}


class GitLab(CodeHost):
    """The tracker. `lag`: issues are searched in the database, or in a replica of it that follows at once."""

    lag = 10.0

    def __init__(self, calls: TrackerClient, site: str) -> None:
        super().__init__(calls)
        self._site = site

    async def check(self, project_key: str = "") -> str:
        me = (await self._calls.ask("GET", "/user")).content
        words = f"GitLab accepts the credentials of {clean_line(text(me, 'username'), 200)}"
        if not project_key:
            return words
        project = (await self._calls.ask("GET", f"/projects/{segment(project_key, 'project_key')}")).content
        if text(project, "issues_access_level") == "disabled":
            raise Invalid(f"issues are switched off in {project_key}")
        return f"{words}, which can read the project {clean_line(text(project, 'path_with_namespace'), 200)}"

    async def create(self, new: NewIssue) -> Issue:
        kind = new.request_type_id.strip().lower()
        if kind not in _TYPES:
            raise Invalid(f"request_type_id: must be one of {', '.join(_TYPES)}", field="request_type_id")
        title, words, fields = contents_of(new, _SHAPES)
        body = {**fields, "issue_type": kind, "title": title, "description": words}
        answer = await self._calls.ask("POST", _issues(new.project_key), body=body, makes=True)
        return self._read_issue(new.project_key, answer.content)

    async def find(self, new: NewIssue) -> Issue | None:
        query: dict[str, str | int] = {"search": new.marker, "in": "description", "per_page": _PAGE}
        query |= {"scope": "all", "state": "all"}
        content = (await self._calls.ask("GET", _issues(new.project_key), query=query)).content
        matches = [issue for issue in rows(content) if has_marker(text(issue, "description"), new.marker)]
        oldest = min(matches, key=_number, default=None)
        return None if oldest is None else self._read_issue(new.project_key, oldest)

    async def transition(self, issue: Issue, name: str) -> bool:
        event = wanted_state(name, _STATES)
        require_its(issue, issue.url.startswith(f"{self._site}/"))
        project, _, at = issue.key.rpartition("#")
        path = f"{_issues(project)}/{number(at, 'issue')}"
        is_closed = (await self._calls.ask("GET", path)).text("state") == "closed"
        if is_closed == (event == "close"):
            return False
        await self._calls.ask("PUT", path, body={"state_event": event})
        return True

    def _read_issue(self, project: str, content: Any) -> Issue:
        at = _number(content)
        if not at:
            raise Uncertain("GitLab answered without the number of the created issue")
        # A number instead of a path is no usable link.
        web_url = text(content, "web_url")
        url = web_url if web_url.startswith(f"{self._site}/") else f"{self._site}/{project}/-/issues/{at}"
        return make_issue(f"{project}#{at}", url)


def headers_of(settings: TrackerSettings) -> dict[str, str | Secret]:
    """Return the headers; see https://docs.gitlab.com/api/rest/authentication/"""
    return {"PRIVATE-TOKEN": settings.token}


def error_texts(content: Any) -> list[str]:
    """Return the error texts. `message` is a text, or has texts by field
    (https://docs.gitlab.com/api/rest/troubleshooting/)."""
    texts = [text(content, name) for name in ("message", "error", "error_description")]
    message = content.get("message") if isinstance(content, dict) else None
    if isinstance(message, dict):
        for name, why in message.items():
            texts.append(f"{name}: {', '.join(str(item) for item in why) if isinstance(why, list) else why}")
    return texts


def _issues(project: str) -> str:
    return f"/projects/{segment(project, 'project_key')}/issues"


def _number(content: Any) -> int:
    value = content.get("iid") if isinstance(content, dict) else None
    return value if type(value) is int and value > 0 else 0


def _labels(value: str, name: str) -> str:
    return ",".join(several(value, name))


def _people(value: str, name: str) -> list[int]:
    return [number(part, name) for part in several(value, name)]


def _day(value: str, name: str) -> str:
    return moment(value, name).date().isoformat()


def _truth(value: str, name: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise Invalid(f"{name}: must be true or false", field=name)
    return value.lower() == "true"


_SHAPES: Mapping[str, Shape] = {
    "labels": _labels,
    "assignee_ids": _people,
    "milestone_id": number,
    "weight": number,
    "due_date": _day,
    "confidential": _truth,
}
