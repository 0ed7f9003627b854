"""Settings and issues for tests against the stand-ins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.receivers import issued
from tests.support.trackers import github, gitlab, jira

from postern.domain.issues.issue import NewIssue, TrackerKind, TrackerSettings
from postern.domain.secret import Secret

MARKER = "postern-3f1c9d2e-5b7a-4c10-9e3d-0a1b2c3d4e5f"


def jira_settings(site: jira.JiraServer, **changes: Any) -> TrackerSettings:
    kind = TrackerKind.JIRA_CLOUD if site.cloud else TrackerKind.JIRA_DATA_CENTER
    user = jira.USER if site.cloud else ""
    given: dict[str, Any] = {"user": user, "token": Secret(jira.TOKEN), "authority": issued().authority}
    return TrackerSettings(kind, site.url, **{**given, **changes})


def github_settings(site: github.GitHubServer, **changes: Any) -> TrackerSettings:
    given: dict[str, Any] = {"token": Secret(github.TOKEN), "authority": issued().authority}
    return TrackerSettings(TrackerKind.GITHUB, site.url, **{**given, **changes})


def gitlab_settings(site: gitlab.GitLabServer, **changes: Any) -> TrackerSettings:
    given: dict[str, Any] = {"token": Secret(gitlab.TOKEN), "authority": issued().authority}
    return TrackerSettings(TrackerKind.GITLAB, f"{site.url}/", **{**given, **changes})


def new_issue(
    project: str,
    kind: str,
    fields: Mapping[str, Any] | None = None,
    objects: Mapping[str, tuple[str, str]] | None = None,
    **changes: Any,
) -> NewIssue:
    given: dict[str, Any] = {"marker": MARKER, "summary": "ann@example.com opens shop", "text": "Session 1\n\nselect 1"}
    return NewIssue(project, kind, fields=fields or {}, objects=objects or {}, **{**given, **changes})
