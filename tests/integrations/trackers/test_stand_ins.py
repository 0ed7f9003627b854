"""The mock servers reject what their vendors reject: otherwise tests against them would prove nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.receivers import LOOPBACK
from tests.support.trackers.github import REPOSITORY, GitHubServer
from tests.support.trackers.gitlab import PROJECT, GitLabServer
from tests.support.trackers.jira import DESK_ID, REQUEST_TYPE, SOFTWARE, TASK, JiraServer
from tests.support.trackers.serving import serving
from tests.support.trackers.settings import github_settings, gitlab_settings, jira_settings

from postern.domain.issues.issue import TrackerSettings
from postern.errors import Invalid, NotFound
from postern.integrations.trackers.tracker_calls import TrackerClient, TrackerResponse
from postern.integrations.trackers.tracker_texts import document
from postern.integrations.trackers.trackers import tracker_of


@pytest.fixture(params=[True, False], ids=["cloud", "data center"])
async def jira(request: pytest.FixtureRequest) -> AsyncIterator[JiraServer]:
    async with serving(JiraServer(cloud=request.param)) as server:
        yield server


async def ask(settings: TrackerSettings, method: str, path: str, body: Any = None) -> TrackerResponse:
    tracker = tracker_of(settings, LOOPBACK)
    calls: TrackerClient = tracker._calls
    try:
        return await calls.ask(method, path, body=body)
    finally:
        await tracker.close()


def fields(**more: Any) -> dict[str, Any]:
    return {"fields": {"project": {"key": SOFTWARE}, "issuetype": {"id": TASK}, "summary": "x", **more}}


async def test_mock_jira_accepts_documents_in_version_3_and_texts_in_version_2(jira: JiraServer) -> None:
    path, (fits, does_not) = f"{jira.api}/issue", (document("x"), "x") if jira.cloud else ("x", document("x"))
    assert (await ask(jira_settings(jira), "POST", path, fields(description=fits))).status == 201
    with pytest.raises(Invalid, match="description: Operation value must be"):
        await ask(jira_settings(jira), "POST", path, fields(description=does_not))
    if jira.cloud:
        broken = {"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": [{"type": "text"}]}]}
        with pytest.raises(Invalid, match="description: expected an object with text, type"):
            await ask(jira_settings(jira), "POST", path, fields(description=broken))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (fields(summary=""), "summary: You must specify a summary"),
        (fields(summary="a\nb"), "summary: .*newline"),
        (fields(customfield_1="x"), "customfield_1: .*not on the appropriate screen"),
        (fields(labels=["a b"]), "contains spaces"),
        (fields(customfield_10003="high"), "customfield_10003: expected an object with value"),
        (fields(customfield_10004="2026-01-31T09:30"), "Error parsing the date and time"),
        (fields(project={"key": "NOPE"}), "valid project is required"),
        (fields(issuetype={"id": "9"}), "issue type selected is invalid"),
        ({**fields(), "transitions": 1}, "Unrecognized field transitions"),
        ({"fields": {"project": SOFTWARE}}, "Invalid request payload"),
    ],
)
async def test_mock_jira_rejects_invalid_fields(jira: JiraServer, body: Any, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        await ask(jira_settings(jira), "POST", f"{jira.api}/issue", body)
    assert not jira.issues


async def test_mock_service_desk_rejects_undeclared_documents(jira: JiraServer) -> None:
    values = {"summary": "x", "description": document("x")}
    body = {"serviceDeskId": DESK_ID, "requestTypeId": REQUEST_TYPE, "requestFieldValues": values}
    with pytest.raises(Invalid, match="description: Operation value must be a string"):
        await ask(jira_settings(jira), "POST", "/rest/servicedeskapi/request", body)
    announced = body | {"isAdfRequest": True}
    assert (await ask(jira_settings(jira), "POST", "/rest/servicedeskapi/request", announced)).status == 201
    with pytest.raises(Invalid, match="does not exist"):
        await ask(jira_settings(jira), "POST", "/rest/servicedeskapi/request", body | {"serviceDeskId": 3})


async def test_mock_jira_rejects_unknown_transitions(jira: JiraServer) -> None:
    await ask(jira_settings(jira), "POST", f"{jira.api}/issue", fields())
    with pytest.raises(Invalid, match="workflow operation"):
        await ask(jira_settings(jira), "POST", f"{jira.api}/issue/DEV-1/transitions", {"transition": {"id": "41"}})


async def test_mock_jira_cloud_has_no_old_search(jira: JiraServer) -> None:
    if jira.cloud:
        with pytest.raises(NotFound, match="has been removed"):
            await ask(jira_settings(jira), "POST", "/rest/api/3/search", {"jql": "project = DEV"})
    with pytest.raises(NotFound):
        await ask(jira_settings(jira), "GET", "/rest/api/2/myself" if jira.cloud else "/rest/api/3/myself")


async def test_mock_github_and_gitlab_reject_invalid_issues() -> None:
    async with serving(GitHubServer()) as hub, serving(GitLabServer()) as lab:
        with pytest.raises(Invalid, match="title: missing_field"):
            await ask(github_settings(hub), "POST", f"/repos/{REPOSITORY}/issues", {"title": ""})
        with pytest.raises(Invalid, match="Invalid request"):
            await ask(github_settings(hub), "POST", f"/repos/{REPOSITORY}/issues", {"title": "x", "priority": 1})
        with pytest.raises(NotFound):
            await ask(gitlab_settings(lab), "GET", f"/projects/{PROJECT}")
        path = f"/projects/{PROJECT.replace('/', '%2F')}/issues"
        with pytest.raises(Invalid, match="assignee_ids is invalid"):
            await ask(gitlab_settings(lab), "POST", path, {"title": "x", "assignee_ids": "7"})
        # The stand-in runs quick actions, as GitLab does.
        await ask(gitlab_settings(lab), "POST", path, {"title": "x", "description": "a\n/close"})
        await ask(gitlab_settings(lab), "POST", path, {"title": "x", "description": "```\n/close\n```"})
        assert [one["state"] for one in lab.issues] == ["closed", "opened"]
