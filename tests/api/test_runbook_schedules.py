"""Schedules of runbooks over HTTP: bodies, lists, the audit log, and running one now."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from tests.api.conftest import Api, message
from tests.support.shelf import NAME, shelve

SCHEDULES = "/runbooks/schedules"
PIN = 'select {{ .pin | type "password" | pattern "^[0-9]{4}$" | squote }}'
WHOLE: dict[str, Any] = {
    "name": "nightly",
    "connection_name": "shop",
    "repository": NAME,
    "file_name": "/pin.runbook.sql",
    "cron": "30 2 * * MON-FRI",
    "timezone": "Europe/Berlin",
    "enabled": True,
}
TRACKER = {"kind": "jira_cloud", "url": "https://acme.example.com", "user": "a@example.com", "token": "good"}
TRACKER["when_down"] = "go_on"
LEAST: dict[str, Any] = {"connection_name": "shop", "file_name": "pin.runbook.sql", "cron": "0 3 * * *"}
SECRET = {"parameters": {"pin": "4711"}}


def shows(text: str, pin: str) -> bool:
    """Return True if the text has that number, other than as a part of an identifier."""
    return re.search(rf"(?<![0-9a-f-]){pin}(?![0-9a-f-])", text) is not None


@pytest.fixture
async def api(api: Api) -> Api:
    api.wait_for_no_run()
    await api.make_connection()
    await shelve(api.world.stores, api.world.org_id, {"pin.runbook.sql": PIN}, at=api.world.clock())
    return api


async def make(api: Api, name: str = "nightly", **fields: Any) -> dict[str, Any]:
    answer = await api.as_ann.post(SCHEDULES, json={**LEAST, **SECRET, "name": name, **fields})
    assert answer.status_code == 201, answer.text
    assert not shows(answer.text, "4711")
    made: dict[str, Any] = answer.json()
    return made


async def test_a_schedule_from_its_making_to_its_end(api: Api) -> None:
    made = await make(api, **WHOLE)
    assert {name: made[name] for name in WHOLE} == WHOLE
    assert (made["owner"], made["parameter_names"]) == ("ann@example.com", ["pin"])
    assert (made["next_at"], made["last_at"], made["last_error"]) == ("2026-01-05T01:30:00Z", None, "")
    for key in ("nightly", made["id"]):
        for reader in (api.as_ann, api.as_admin, api.as_auditor):
            assert (await reader.get(f"{SCHEDULES}/{key}")).json() == made
    message(await api.as_bob.get(f"{SCHEDULES}/nightly"), 404)
    sent_back = (await api.as_ann.put(f"{SCHEDULES}/nightly", json=made)).json()
    assert sent_back | {"updated_at": ""} == made | {"updated_at": ""}
    changed = (await api.as_ann.patch(f"{SCHEDULES}/nightly", json={"name": "weekly", "enabled": False})).json()
    assert (changed["name"], changed["enabled"], changed["next_at"]) == ("weekly", False, None)
    assert (await api.as_ann.delete(f"{SCHEDULES}/weekly")).status_code == 204
    message(await api.as_ann.get(f"{SCHEDULES}/weekly"), 404)


async def test_it_runs_now(api: Api) -> None:
    made = await make(api)
    answer = await api.as_ann.post(f"{SCHEDULES}/nightly/run")
    assert answer.status_code == 202, answer.text
    session = (await api.as_ann.get(f"/sessions/{answer.json()['session_id']}")).json()
    assert (session["status"], session["labels"]["runbookSchedule"]) == ("ready", "nightly")
    shown = (await api.as_ann.get(f"{SCHEDULES}/{made['id']}")).json()
    assert shown["last_session_id"] == session["id"]
    message(await api.as_admin.post(f"{SCHEDULES}/nightly/run"), 403)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"parameters": {"pin": "planted"}}, 400, "pin"),
        ({"parameters": {"pin": 4711}}, 400, "parameters"),
        ({"file_name": "none.runbook.sql"}, 404, "none.runbook.sql"),
        ({"repository": "git.example.com/none"}, 404, "git.example.com/none"),
        ({"connection_name": "shpo"}, 404, "there is no connection 'shpo'"),
        ({"cron": "* * * * * *"}, 422, "cron: must be five fields"),
        ({"timezone": "Mars"}, 422, "zone: 'Mars' is not an IANA time zone"),
        ({"name": "a/b"}, 422, "name"),
        ({"zone": "UTC"}, 400, "zone"),
    ],
)
async def test_what_is_wrong_is_named_and_changes_nothing(api: Api, body: Any, status: int, says: str) -> None:
    refused = message(await api.as_ann.post(SCHEDULES, json={"name": "nightly", **LEAST, **SECRET, **body}), status)
    assert says in refused
    assert "planted" not in refused
    before = await make(api, "other")
    assert says in message(await api.as_ann.patch(f"{SCHEDULES}/other", json=body), status)
    assert (await api.as_ann.get(SCHEDULES)).json()["data"] == [before]


async def test_times_of_an_expression_are_told_before_it_is_saved(api: Api) -> None:
    times = "/runbooks/schedule-times"
    query = {"cron": "30 2 * * MON-FRI", "timezone": "Europe/Berlin", "count": "2"}
    answer = (await api.as_bob.get(times, params=query)).json()
    assert answer == {
        "description": "At 02:30 on Monday through Friday",
        "times": ["2026-01-05T01:30:00Z", "2026-01-06T01:30:00Z"],
    }
    assert len((await api.as_bob.get(times, params={"cron": "0 3 * * *"})).json()["times"]) == 5
    assert "Bad minute" in message(await api.as_bob.get(times, params={"cron": "61 * * * *"}), 422)
    assert "'Mars'" in message(await api.as_bob.get(times, params={**query, "timezone": "Mars"}), 422)
    message(await api.nobody.get(times, params=query), 401)


async def test_lists_are_of_ones_own_and_pages_by_name(api: Api) -> None:
    for name in ("bbb", "aaa", "ccc"):
        await make(api, name)
    message(await api.as_ann.post(SCHEDULES, json={**LEAST, **SECRET, "name": "aaa"}), 409)
    page = (await api.as_auditor.get(f"{SCHEDULES}?limit=2")).json()
    assert [one["name"] for one in page["data"]] == ["aaa", "bbb"]
    assert (page["total"], page["has_next_page"]) == (3, True)
    assert (await api.as_bob.get(SCHEDULES)).json()["data"] == []


async def test_what_its_issue_says_is_checked_and_shown_by_name_alone(api: Api) -> None:
    asks = [{"tracker_field": "summary", "label": "Summary", "required": True}]
    assert (await api.as_admin.post("/integrations/tracker", json=TRACKER)).status_code == 201
    connections = [(await api.as_admin.get("/connections/shop")).json()["id"]]
    template = {"name": "changes", "project_key": "OPS", "request_type_id": "10", "prompt_types": {"items": asks}}
    whole = {**template, "connection_ids": connections}
    assert (await api.as_admin.post("/integrations/tracker/issuetemplates", json=whole)).status_code == 201
    body = {"name": "nightly", **LEAST, **SECRET}
    assert "needs Summary (summary)" in message(await api.as_ann.post(SCHEDULES, json=body), 422)
    wrong = {"summary": "planted", "other": "planted"}
    refused = message(await api.as_ann.post(SCHEDULES, json={**body, "tracker_fields": wrong}), 422)
    assert ("has no prompts for other" in refused, "planted" in refused) == (True, False)
    made = await api.as_ann.post(SCHEDULES, json={**body, "tracker_fields": {"summary": "planted"}})
    assert (made.status_code, made.json()["tracker_field_names"]) == (201, ["summary"])
    changed = await api.as_ann.put(f"{SCHEDULES}/nightly", json={**made.json(), "cron": "1 1 * * *"})
    assert changed.json()["tracker_field_names"] == ["summary"]
    ran = await api.as_ann.post(f"{SCHEDULES}/nightly/run")
    assert ran.status_code == 202, ran.text
    (issue,) = (await api.as_admin.get("/integrations/tracker/issues")).json()["data"]
    assert issue["session_id"] == ran.json()["session_id"]
    log = await api.as_auditor.get("/audit/logs")
    for answer in (made, changed, ran, log, await api.as_admin.get(SCHEDULES)):
        assert "planted" not in answer.text


async def test_writes_are_audited_without_values(api: Api) -> None:
    api.world.clock.tick = timedelta(milliseconds=1)
    await make(api)
    await api.as_ann.patch(f"{SCHEDULES}/nightly", json={"parameters": {"pin": "0815"}, "cron": "1 1 * * *"})
    await api.as_ann.post(f"{SCHEDULES}/nightly/run")
    await api.as_admin.patch(f"{SCHEDULES}/nightly", json={"enabled": False})
    await api.as_admin.delete(f"{SCHEDULES}/nightly")
    answer = await api.as_auditor.get("/audit/logs?resource_type=runbooks/schedules")
    assert not shows(answer.text, "4711")
    assert not shows(answer.text, "0815")
    entries = answer.json()["data"]
    assert [(one["action"], one["outcome"]) for one in entries] == [
        ("delete", "success"),
        ("update", "success"),
        ("run", "success"),
        ("update", "success"),
        ("create", "success"),
    ]
    deleted, switched, _, changed, created = entries
    assert (created["before"], created["after"]["parameter_names"]) == (None, ["pin"])
    assert (changed["before"]["cron"], changed["after"]["cron"]) == ("0 3 * * *", "1 1 * * *")
    assert (switched["before"]["enabled"], switched["after"]["enabled"]) == (True, False)
    assert (deleted["before"]["name"], deleted["after"]) == ("nightly", None)
