"""GitHub, and GitHub Enterprise: https://docs.github.com/en/rest/issues/issues.

A project's key is OWNER/REPOSITORY; a template's `request_type_id` is an issue type of the organisation, or `issue` for
none. Issues get no label of their own: labels belong to the repository, and would be as many as its issues.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from postern.domain.issues.issue import Issue, NewIssue, TrackerSettings, Uncertain
from postern.domain.secret import Secret
from postern.errors import Invalid, PosternError, Unavailable
from postern.integrations.trackers.code_hosts import CodeHost, Shape, contents_of, number, several, wanted_state
from postern.integrations.trackers.tracker_calls import (
    MAX_PAUSE,
    TrackerClient,
    TrackerResponse,
    clean_line,
    make_issue,
    pause_of,
    require_its,
    rows,
    text,
)
from postern.integrations.trackers.tracker_texts import has_marker

SITE = "https://github.com"
_NEWEST = 100  # issues of a repository that are searched directly, because the search index is delayed
_REPOSITORY = re.compile(r"(?!\.\.?/)[\w.-]+/(?!\.\.?$)[\w.-]+", re.ASCII)
_SHAPES: Mapping[str, Shape] = {"labels": several, "assignees": several, "milestone": number}
_STATES = {
    "completed": frozenset({"done", "close", "closed", "completed"}),
    "not_planned": frozenset({"not planned", "not_planned"}),
    "open": frozenset({"open", "reopen", "reopened"}),
}


class GitHub(CodeHost):
    """The tracker. `lag`: the list of the newest issues does not use the search index, but may come from a replica."""

    lag = 10.0

    def __init__(self, calls: TrackerClient, site: str) -> None:
        super().__init__(calls)
        self._site = site

    async def check(self, project_key: str = "") -> str:
        me = (await self._calls.ask("GET", "/user")).content
        words = f"GitHub accepts the credentials of {clean_line(text(me, 'login'), 200)}"
        if not project_key:
            return words
        repository = (await self._calls.ask("GET", f"/repos/{_check_repository(project_key)}")).content
        if isinstance(repository, dict) and repository.get("has_issues") is False:
            raise Invalid(f"issues are switched off in {project_key}")
        return f"{words}, which can read the repository {project_key}"

    async def create(self, new: NewIssue) -> Issue:
        title, words, fields = contents_of(new, _SHAPES)
        kind = new.request_type_id.strip()
        typed = {"type": kind} if kind and kind.lower() != "issue" else {}
        body = {**fields, **typed, "title": title, "body": words}
        answer = await self._calls.ask(
            "POST", f"/repos/{_check_repository(new.project_key)}/issues", body=body, makes=True
        )
        return self._read_issue(new.project_key, answer.content)

    async def find(self, new: NewIssue) -> Issue | None:
        repository = _check_repository(new.project_key)
        newest: dict[str, str | int] = {"sort": "created", "direction": "desc"}
        newest |= {"state": "all", "per_page": _NEWEST}
        page = (await self._calls.ask("GET", f"/repos/{repository}/issues", query=newest)).content
        matches = _filter_marked(rows(page), new.marker)
        if not matches and len(rows(page)) == _NEWEST:
            # https://docs.github.com/en/rest/search/search#search-issues-and-pull-requests
            search: dict[str, str | int] = {
                "q": f'"{new.marker}" repo:{repository} in:body is:issue',
                "per_page": _NEWEST,
            }
            content = (await self._calls.ask("GET", "/search/issues", query=search)).content
            matches = _filter_marked(rows(content, "items"), new.marker)
        oldest = min(matches, key=_number, default=None)
        return None if oldest is None else self._read_issue(repository, oldest)

    async def transition(self, issue: Issue, name: str) -> bool:
        state = wanted_state(name, _STATES)
        repository, _, at = issue.key.rpartition("#")
        path = f"/repos/{_check_repository(repository)}/issues/{number(at, 'issue')}"
        require_its(issue, issue.url == self._address(repository, at))
        is_closed = (await self._calls.ask("GET", path)).text("state") == "closed"
        if is_closed == (state != "open"):
            return False
        body = {"state": "open"} if state == "open" else {"state": "closed", "state_reason": state}
        await self._calls.ask("PATCH", path, body=body)
        return True

    def _read_issue(self, repository: str, content: Any) -> Issue:
        at = _number(content)
        if not at:
            raise Uncertain("GitHub answered without the number of the created issue")
        return make_issue(f"{repository}#{at}", self._address(repository, at))

    def _address(self, repository: str, at: object) -> str:
        return f"{self._site}/{repository}/issues/{at}"


def addresses_of(url: str) -> tuple[str, str]:
    """Return (web address, API address), given either.

    https://docs.github.com/en/enterprise-cloud@latest/admin/data-residency and
    https://docs.github.com/en/enterprise-server@latest/rest/enterprise-admin
    """
    site = url.rstrip("/")
    host = (urlsplit(site).hostname or "").lower()
    if host in ("github.com", "www.github.com", "api.github.com"):
        return SITE, "https://api.github.com"
    if host.endswith(".ghe.com"):
        name = host.removeprefix("api.")
        return f"https://{name}", f"https://api.{name}"
    site = site.removesuffix("/api/v3")
    return site, f"{site}/api/v3"


def headers_of(settings: TrackerSettings) -> dict[str, str | Secret]:
    """Return the headers; see https://docs.github.com/en/rest/authentication/authenticating-to-the-rest-api"""
    return {
        "Authorization": Secret(f"Bearer {settings.token.reveal()}"),
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }


def error_texts(content: Any) -> list[str]:
    errors = rows(content, "errors")
    whys = [text(error, "message") or f"{text(error, 'field')}: {text(error, 'code')}" for error in errors]
    return [text(content, "message"), *whys]


def verdict_of(reply: TrackerResponse, reason: str) -> PosternError | None:
    """Return the error of a response. A rate limit may be a 403:
    https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api"""
    pause = pause_of(reply)
    used_up = reply.headers.get("X-RateLimit-Remaining") == "0"
    if reply.status not in (403, 429) or not (pause is not None or used_up or "rate limit" in reason.lower()):
        return None
    reset = reply.headers.get("X-RateLimit-Reset", "")
    if pause is None and used_up and reset.isascii() and reset.isdigit():
        left = int(reset[:12]) - int(datetime.now(UTC).timestamp())
        pause = min(max(left, 1), MAX_PAUSE)
    return Unavailable(f"GitHub's rate limit is exceeded: {reason}", retry_after=60 if pause is None else pause)


def _check_repository(repository: str) -> str:
    if not _REPOSITORY.fullmatch(repository):
        raise Invalid("project_key: must be OWNER/REPOSITORY", field="project_key")
    return repository


def _filter_marked(issues: list[Mapping[str, Any]], marker: str) -> list[Mapping[str, Any]]:
    """Return the issues with the marker. Pull requests are among issues there."""
    return [issue for issue in issues if "pull_request" not in issue and has_marker(text(issue, "body"), marker)]


def _number(content: Any) -> int:
    value = content.get("number") if isinstance(content, dict) else None
    return value if type(value) is int and value > 0 else 0
