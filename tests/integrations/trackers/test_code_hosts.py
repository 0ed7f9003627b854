"""GitHub and GitLab, against servers that accept what the vendors document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.support.receivers import LOOPBACK
from tests.support.trackers.github import REPOSITORY, GitHubServer
from tests.support.trackers.gitlab import NUMBER, PROJECT, GitLabServer
from tests.support.trackers.serving import Fault, serving
from tests.support.trackers.settings import MARKER, github_settings, gitlab_settings, new_issue

from postern.domain.issues.issue import Issue, Uncertain
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, NotFound, Unavailable
from postern.integrations.trackers.github import addresses_of
from postern.integrations.trackers.trackers import AnyTracker, tracker_of

HOSTILE = "@everyone closes #1\n/close\n```\n/close\n````\n/assign @me\n![x](https://evil.example/x.png)"


@pytest.fixture
async def github() -> AsyncIterator[GitHubServer]:
    async with serving(GitHubServer()) as server:
        yield server


@pytest.fixture
async def gitlab() -> AsyncIterator[GitLabServer]:
    async with serving(GitLabServer()) as server:
        yield server


@pytest.fixture
async def hub(github: GitHubServer) -> AsyncIterator[AnyTracker]:
    made = tracker_of(github_settings(github), LOOPBACK)
    yield made
    await made.close()


@pytest.fixture
async def lab(gitlab: GitLabServer) -> AsyncIterator[AnyTracker]:
    made = tracker_of(gitlab_settings(gitlab), LOOPBACK)
    yield made
    await made.close()


async def test_github_check_reports_the_user_the_repository_and_errors(github: GitHubServer, hub: AnyTracker) -> None:
    assert await hub.check() == "GitHub accepts the credentials of robot"
    assert REPOSITORY in await hub.check(REPOSITORY)
    with pytest.raises(NotFound, match="Not Found"):
        await hub.check("acme/other")
    for odd in ("acme", "acme/a/b", "../user", "acme/..", "acme/x?y", ""):
        with pytest.raises(Invalid, match="OWNER/REPOSITORY"):
            await hub.create(new_issue(odd, "issue"))
    github.has_issues = False
    with pytest.raises(Invalid, match="issues are switched off"):
        await hub.check(REPOSITORY)
    with pytest.raises(NotFound, match="410: Issues has been disabled"):
        await hub.create(new_issue(REPOSITORY, "issue"))
    wrong = tracker_of(github_settings(github, token=Secret("nope")), LOOPBACK)
    with pytest.raises(Denied, match="Bad credentials"):
        await wrong.check()
    await wrong.close()


async def test_github_issue_is_created_with_escaped_text(github: GitHubServer, hub: AnyTracker) -> None:
    fields = {"labels": "audit, prod", "assignees": "ann", "milestone": "3", "Why": {"value": "high\n/close"}}
    new = new_issue(REPOSITORY, "Task", fields, summary="@ann opens shop\nnow", text=f"{HOSTILE}\n\n{MARKER}")
    made = await hub.create(new)
    assert made == Issue(f"{REPOSITORY}#1", f"{github.url}/{REPOSITORY}/issues/1")
    kept = github.issues[0]
    assert (kept["labels"], kept["assignees"], kept["milestone"]) == (["audit", "prod"], ["ann"], 3)
    assert kept["type"] == "Task"
    assert kept["title"] == "@\u200bann opens shop now"
    assert kept["body"] == f"`````text\n{HOSTILE}\n\nWhy: high\n/close\n`````\n\n{MARKER}"


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("Story", {}, "type: invalid"),
        ("issue", {"milestone": "4"}, "milestone: invalid"),
        ("issue", {"milestone": "next"}, "milestone: must be a number"),
    ],
)
async def test_invalid_github_issue_is_rejected_with_the_vendors_reason(
    hub: AnyTracker, kind: str, fields: dict[str, str], said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        await hub.create(new_issue(REPOSITORY, kind, fields))


async def test_github_issue_is_found_before_it_is_indexed(github: GitHubServer, hub: AnyTracker) -> None:
    github.indexing = False
    new = new_issue(REPOSITORY, "issue")
    assert await hub.find(new) is None
    made = await hub.create(new)
    github.add(MARKER, pull_request={})
    github.add(f"{MARKER}-and-more")
    assert await hub.find(new) == made
    assert not any("search" in call for call in github.calls)
    # Beyond the newest hundred it is searched.
    for _ in range(100):
        github.add("other")
    assert await hub.find(new) is None
    github.indexed.add(1)
    assert await hub.find(new) == made


async def test_github_issue_is_closed_and_reopened(github: GitHubServer, hub: AnyTracker) -> None:
    made = await hub.create(new_issue(REPOSITORY, "issue"))
    assert await hub.transition(made, "Done")
    assert (github.issues[0]["state"], github.issues[0]["state_reason"]) == ("closed", "completed")
    assert not await hub.transition(made, "not planned")
    assert await hub.transition(made, "open")
    assert github.issues[0]["state"] == "open"
    with pytest.raises(Invalid, match="there is no transition 'solved'; use one of: close, closed, completed, done"):
        await hub.transition(made, "solved")
    with pytest.raises(NotFound):
        await hub.transition(Issue(f"{REPOSITORY}#9", f"{github.url}/{REPOSITORY}/issues/9"), "done")


async def test_github_rate_limits_are_read_from_three_headers(github: GitHubServer, hub: AnyTracker) -> None:
    said = {"message": "You have exceeded a secondary rate limit"}
    for headers, pause in (
        ({"Retry-After": "41"}, 41),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}, 1),
        ({}, 60),
    ):
        github.faults.append(Fault("POST", status=403, headers=headers, content=said))
        with pytest.raises(Unavailable, match="rate limit is exceeded") as caught:
            await hub.create(new_issue(REPOSITORY, "issue"))
        assert caught.value.retry_after == pause
        assert not isinstance(caught.value, Uncertain)
    github.faults.append(Fault("POST", status=403, content={"message": "Resource not accessible by this token"}))
    with pytest.raises(Denied, match="not accessible"):
        await hub.create(new_issue(REPOSITORY, "issue"))


async def test_renamed_github_repository_is_a_permanent_error(github: GitHubServer, hub: AnyTracker) -> None:
    github.faults.append(Fault("POST", status=301, headers={"Location": f"{github.url}/repositories/1/issues"}))
    with pytest.raises(Invalid, match="redirects are not followed"):
        await hub.create(new_issue(REPOSITORY, "issue"))


@pytest.mark.parametrize(
    ("given", "site", "api"),
    [
        ("https://github.com/", "https://github.com", "https://api.github.com"),
        ("https://api.github.com", "https://github.com", "https://api.github.com"),
        ("https://acme.ghe.com", "https://acme.ghe.com", "https://api.acme.ghe.com"),
        ("https://git.acme.example", "https://git.acme.example", "https://git.acme.example/api/v3"),
        ("https://git.acme.example/api/v3/", "https://git.acme.example", "https://git.acme.example/api/v3"),
    ],
)
def test_github_addresses_of_site_and_api_are_derived(given: str, site: str, api: str) -> None:
    assert addresses_of(given) == (site, api)


async def test_gitlab_check_reports_the_user_the_project_and_errors(gitlab: GitLabServer, lab: AnyTracker) -> None:
    assert await lab.check() == "GitLab accepts the credentials of robot"
    assert PROJECT in await lab.check(PROJECT)
    assert PROJECT in await lab.check(NUMBER)
    with pytest.raises(NotFound, match="404 Project Not Found"):
        await lab.check("acme/other")
    with pytest.raises(NotFound):
        await lab.check("../user")
    with pytest.raises(Invalid, match="is not a valid value"):
        await lab.find(new_issue("..", "issue"))
    gitlab.access = "disabled"
    with pytest.raises(Invalid, match="issues are switched off"):
        await lab.check(PROJECT)
    wrong = tracker_of(gitlab_settings(gitlab, token=Secret("nope")), LOOPBACK)
    with pytest.raises(Denied, match="401 Unauthorized"):
        await wrong.check()
    await wrong.close()


async def test_gitlab_issue_is_created_without_running_quick_actions(gitlab: GitLabServer, lab: AnyTracker) -> None:
    fields = {
        "labels": "audit, prod",
        "assignee_ids": "7, 8",
        "due_date": {"moment": "2026-01-31T09:30"},
        "confidential": "true",
        "weight": "2",
        "Why": "because",
    }
    new = new_issue(PROJECT, "incident", fields, text=HOSTILE)
    made = await lab.create(new)
    assert made == Issue(f"{PROJECT}#1", f"{gitlab.url}/{PROJECT}/-/issues/1")
    kept = gitlab.issues[0]
    assert (kept["labels"], kept["assignee_ids"], kept["due_date"]) == (["audit", "prod"], [7, 8], "2026-01-31")
    assert (kept["confidential"], kept["weight"], kept["issue_type"]) == (True, 2, "incident")
    assert "\nWhy: because\n" in kept["description"]
    # No quick action was run.
    assert kept["state"] == "opened"
    # By its number it leads to the same place.
    assert (await lab.create(replace(new, project_key=NUMBER))).url == f"{gitlab.url}/{PROJECT}/-/issues/2"


async def test_invalid_gitlab_issue_is_rejected_with_the_reason(gitlab: GitLabServer, lab: AnyTracker) -> None:
    with pytest.raises(Invalid, match="request_type_id: must be one of issue"):
        await lab.create(new_issue(PROJECT, "story"))
    with pytest.raises(Invalid, match="confidential: must be true or false"):
        await lab.create(new_issue(PROJECT, "issue", {"confidential": "yes"}))
    with pytest.raises(Invalid, match="400: title is missing"):
        await lab.create(new_issue(PROJECT, "issue", summary=""))
    gitlab.faults.append(Fault("POST", status=400, content={"message": {"title": ["is too long"], "x": "y"}}))
    with pytest.raises(Invalid, match="title: is too long; x: y"):
        await lab.create(new_issue(PROJECT, "issue"))
    assert not gitlab.issues


async def test_gitlab_issue_is_found_closed_and_reopened(gitlab: GitLabServer, lab: AnyTracker) -> None:
    new = new_issue(PROJECT, "issue")
    assert await lab.find(new) is None
    gitlab.faults.append(Fault("POST", done=True))
    with pytest.raises(Uncertain):
        await lab.create(new)
    await lab.create(new)
    await lab.create(replace(new, marker=f"{MARKER}-2"))
    made = await lab.find(new)
    assert made == Issue(f"{PROJECT}#1", f"{gitlab.url}/{PROJECT}/-/issues/1")
    assert await lab.transition(made, "DONE")
    assert gitlab.issues[0]["state"] == "closed"
    assert not await lab.transition(made, "closed")
    # One that is closed is found too.
    assert await lab.find(new) == made
    assert await lab.transition(made, "reopen")
    with pytest.raises(Invalid, match="there is no transition 'solved'"):
        await lab.transition(made, "solved")


async def test_code_hosts_have_no_asset_objects(hub: AnyTracker, lab: AnyTracker) -> None:
    for tracker, project in ((hub, REPOSITORY), (lab, PROJECT)):
        with pytest.raises(Invalid, match="no asset management"):
            await tracker.objects("Server", "", Page())
        with pytest.raises(Invalid, match="no asset management"):
            await tracker.create(new_issue(project, "issue", objects={"x": ("Server", "web-1")}))


async def test_attack_issue_address_with_control_characters_is_uncertain(gitlab: GitLabServer, lab: AnyTracker) -> None:
    for odd in ("\x1b]0;owned\x07", "\n", "x" * 3_000):
        content = {"iid": 7, "web_url": f"{gitlab.url}/{odd}"}
        gitlab.faults.append(Fault("POST", status=201, content=content))
        with pytest.raises(Uncertain, match="too long or has control"):
            await lab.create(new_issue(PROJECT, "issue"))


@pytest.mark.parametrize("number", [True, -1, 0, 10**300, "1", None, 1.0])
async def test_attack_invalid_issue_number_is_uncertain(
    github: GitHubServer, hub: AnyTracker, gitlab: GitLabServer, lab: AnyTracker, number: object
) -> None:
    github.faults.append(Fault("POST", status=201, content={"number": number}))
    with pytest.raises(Uncertain):
        await hub.create(new_issue(REPOSITORY, "issue"))
    gitlab.faults.append(Fault("POST", status=201, content={"iid": number}))
    with pytest.raises(Uncertain):
        await lab.create(new_issue(PROJECT, "issue"))


async def test_attack_issue_of_a_previous_tracker_is_not_changed(
    github: GitHubServer, hub: AnyTracker, gitlab: GitLabServer, lab: AnyTracker
) -> None:
    """The same key can exist here as a different issue."""
    ours = await hub.create(new_issue(REPOSITORY, "issue"))
    theirs = await lab.create(new_issue(PROJECT, "issue"))
    for tracker, one in ((hub, ours), (lab, theirs)):
        with pytest.raises(Invalid, match=r"in a different tracker, at https://before\.example/x"):
            await tracker.transition(replace(one, url="https://before.example/x"), "done")
    assert (github.issues[0]["state"], gitlab.issues[0]["state"]) == ("open", "opened")
    assert await hub.transition(ours, "done")
    assert await lab.transition(theirs, "done")
