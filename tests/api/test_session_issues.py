"""Scripts that open issues, over HTTP, and what admins see of these."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.api.conftest import Api, message
from tests.support.shelf import shelve

from postern.domain.issues.issue import IssueState
from postern.store.ports.common_ports import Topic

pytestmark = pytest.mark.ci

PATH = "/integrations/tracker"
TRACKER = {
    "kind": "jira_cloud",
    "url": "https://acme.example.com",
    "user": "ann@example.com",
    "token": "good",
    "when_down": "go_on",
}
ASKS = [
    {"tracker_field": "summary", "label": "Summary", "required": True},
    {"tracker_field": "customfield_1", "label": "Why", "required": True},
]
SCRIPT: dict[str, Any] = {"connection": "shop", "script": "select 1"}
GIVEN = {"summary": "Look", "customfield_1": "asked"}


@pytest.fixture
async def opens(api: Api) -> None:
    """Sessions of the connection `shop` open issues, and go on."""
    connection = await api.make_connection()
    assert (await api.as_admin.post(PATH, json=TRACKER)).status_code == 201
    template = {"name": "changes", "project_key": "OPS", "request_type_id": "10", "prompt_types": {"items": ASKS}}
    made = await api.as_admin.post(f"{PATH}/issuetemplates", json={**template, "connection_ids": [connection["id"]]})
    assert made.status_code == 201, made.text


async def test_all_that_is_missing_is_listed_and_nothing_runs(api: Api, opens: None) -> None:
    told = message(await api.as_ann.post("/sessions", json=SCRIPT), 422)
    assert "needs Summary (summary), Why (customfield_1)" in told
    told = message(await api.as_ann.post("/sessions", json={**SCRIPT, "tracker_fields": {**GIVEN, "other": "x"}}), 422)
    assert "has no prompts for other" in told
    assert (await api.as_ann.post("/sessions", json={**SCRIPT, "tracker_fields": {"summary": 1}})).status_code == 400
    assert (await api.as_admin.get("/sessions")).json()["data"] == []
    assert (await api.as_admin.get(f"{PATH}/issues")).json()["data"] == []


async def test_a_runbook_opens_an_issue_as_any_script_does(api: Api, opens: None) -> None:
    await shelve(api.world.stores, api.world.org_id, {"look.runbook.sql": "select 1"}, at=api.world.clock())
    runs = {"connection_name": "shop", "file_name": "look.runbook.sql"}
    assert "needs Summary" in message(await api.as_ann.post("/runbooks/exec", json=runs), 422)
    ran = await api.as_ann.post("/runbooks/exec", json={**runs, "tracker_fields": GIVEN})
    assert ran.status_code == 202, ran.text
    (shown,) = (await api.as_admin.get(f"{PATH}/issues")).json()["data"]
    assert shown["session_id"] == ran.json()["session_id"]


async def test_a_script_opens_an_issue_that_admins_see(api: Api, opens: None) -> None:
    ran = await api.as_ann.post("/sessions", json={**SCRIPT, "tracker_fields": GIVEN})
    assert ran.status_code == 202, ran.text
    listed = (await api.as_admin.get(f"{PATH}/issues")).json()
    (shown,) = listed["data"]
    assert shown == {
        "session_id": ran.json()["session_id"],
        "state": "wanted",
        "key": None,
        "url": None,
        "attempts": 0,
        "last_error": "",
        "next_at": "2026-01-02T03:04:05Z",
        "created_at": "2026-01-02T03:04:05Z",
    }
    assert (await api.as_admin.get(f"{PATH}/issues?state=given_up")).json()["total"] == 0
    assert (await api.as_admin.get(f"{PATH}/issues?state=wanted")).json()["total"] == 1
    assert "Look" not in (await api.as_admin.get(f"{PATH}/issues")).text


async def test_what_was_given_up_is_tried_again(api: Api, opens: None) -> None:
    ran = await api.as_ann.post("/sessions", json={**SCRIPT, "tracker_fields": GIVEN})
    key, store = UUID(ran.json()["session_id"]), api.world.stores.session_issues
    retry = f"{PATH}/issues/{key}/retry"
    assert "was not given up" in message(await api.as_admin.post(retry), 404)
    await store.mark_failed(key, "no such project", None, api.world.clock())
    shown = (await api.as_admin.get(f"{PATH}/issues?state=given_up")).json()["data"][0]
    assert (shown["last_error"], shown["next_at"]) == ("no such project", None)
    told = len(api.world.signals.of(Topic.ISSUE_CHANGED))
    again = await api.as_admin.post(retry)
    assert (again.status_code, again.json()) == (202, {"waiting": 1})
    assert len(api.world.signals.of(Topic.ISSUE_CHANGED)) == told + 1
    kept = await store.get(key)
    assert kept is not None
    assert kept.state is IssueState.WANTED
    await store.mark_failed(key, "no such project", None, api.world.clock())
    assert (await api.as_admin.post(f"{PATH}/issues/retry")).json() == {"waiting": 1}
    assert (await api.as_admin.post(f"{PATH}/issues/retry")).json() == {"waiting": 0}
    assert "has no issue, or its issue was not given up" in message(
        await api.as_admin.post(f"{PATH}/issues/{uuid4()}/retry"), 404
    )
