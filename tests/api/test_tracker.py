"""The tracker's settings over HTTP: who sees what of them, and where the token goes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.api.conftest import INFO, Api, message
from tests.support.asked_tracker import AskedTracker

from postern.api.application import serve
from postern.domain.secret import Secret
from postern.errors import NotFound
from postern.store.ports.common_ports import Topic

PATH = "/integrations/tracker"
BODY: dict[str, Any] = {
    "kind": "jira_cloud",
    "url": "https://acme.example.com",
    "user": "ann@example.com",
    "token": "good",
}
SHOWN = {
    "kind": "jira_cloud",
    "url": "https://acme.example.com",
    "user": "ann@example.com",
    "authority": "",
    "enabled": True,
    "when_down": "refuse",
    "updated_at": "2026-01-02T03:04:05Z",
}


@pytest.fixture
def tracker(api: Api) -> AskedTracker:
    api.world.trackers = tracker = AskedTracker()
    api.services = api.world.services()
    serve(api.app, api.services, INFO)
    return tracker


async def test_a_tracker_is_set_up_once_changed_and_removed(api: Api, tracker: AskedTracker) -> None:
    assert message(await api.as_admin.get(PATH), 404).startswith("no tracker is configured; ask an administrator")
    assert message(await api.as_admin.put(PATH, json=BODY), 404).startswith("no tracker is configured")
    assert message(await api.as_admin.delete(PATH), 404).startswith("no tracker is configured")
    made = await api.as_admin.post(PATH, json=BODY)
    assert (made.status_code, made.json()) == (201, SHOWN)
    assert message(await api.as_admin.post(PATH, json=BODY), 409).startswith("a tracker is already configured")
    api.world.clock.forward(seconds=1)
    changes = {key: value for key, value in SHOWN.items() if key != "user"} | {"when_down": "go_on", "enabled": False}
    put = await api.as_admin.put(PATH, json=changes)
    assert (put.status_code, put.json()) == (200, changes | {"user": "", "updated_at": "2026-01-02T03:04:06Z"})
    kept = await api.services.tracker.of(api.world.org_id)
    assert kept is not None
    assert kept.token == Secret("good")
    assert (await api.as_admin.delete(PATH)).status_code == 204
    assert await api.services.tracker.of(api.world.org_id) is None
    assert (await api.as_admin.post(PATH, json=BODY)).status_code == 201
    assert api.world.signals.of(Topic.SETTINGS_CHANGED) == [{"name": "tracker", "org_id": str(api.world.org_id)}] * 4
    assert tracker.closed == len(tracker.made)


async def test_everybody_sees_that_there_is_one_and_nobody_its_token(api: Api, tracker: AskedTracker) -> None:
    await api.as_admin.post(PATH, json=BODY | {"token": "tok-secret"})
    assert (await api.as_auditor.get(PATH)).json() == SHOWN
    assert (await api.as_bob.get(PATH)).json() == SHOWN | {"user": ""}
    assert "tok-secret" not in (await api.as_auditor.get("/audit/logs")).text
    assert (await api.services.tracker.get(api.users["admin"])).token == Secret("")


@pytest.mark.parametrize(
    "changes",
    [{"url": "https://evil.example.com"}, {"kind": "jira_data_center"}, {"authority": "another"}],
)
async def test_attack_a_token_is_not_sent_to_another_place(
    api: Api, tracker: AskedTracker, changes: dict[str, Any]
) -> None:
    await api.as_admin.post(PATH, json=BODY)
    tracker.made.clear()
    body = {key: value for key, value in BODY.items() if key != "token"} | changes
    for empty in ({}, {"token": None}, {"token": ""}):
        assert "give the token again" in message(await api.as_admin.put(PATH, json=body | empty), 422)
    assert tracker.made == []
    assert (await api.as_admin.get(PATH)).json() == SHOWN
    assert (await api.as_admin.put(PATH, json=body | {"token": "new"})).status_code == 200
    assert [one.token for one in tracker.made] == [Secret("new")]


@pytest.mark.parametrize("other", ["rotates the token", "removes the tracker"])
async def test_attack_a_token_that_was_changed_meanwhile_does_not_come_back(
    api: Api, tracker: AskedTracker, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    await api.as_admin.post(PATH, json=BODY | {"token": "leaked"})
    store, get = api.services.tracker._store, api.services.tracker._store.get

    async def overtaken(org_id: UUID, name: str) -> Any:
        found = await get(org_id, name)
        monkeypatch.setattr(store, "get", get)
        if other == "rotates the token":
            assert (await api.as_admin.put(PATH, json=BODY)).status_code == 200
        else:
            assert (await api.as_admin.delete(PATH)).status_code == 204
        return found

    monkeypatch.setattr(store, "get", overtaken)
    kept = {key: value for key, value in BODY.items() if key != "token"} | {"when_down": "go_on"}
    refused = message(await api.as_admin.put(PATH, json=kept), 409)
    assert refused == "the tracker was changed or removed meanwhile; read it again, and retry"
    left = await api.services.tracker.of(api.world.org_id)
    assert (left and left.token) == (Secret("good") if other == "rotates the token" else None)


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"kind": "trello"}, 400, "kind: input should be 'jira_cloud'"),
        ({"url": None}, 400, "url: "),
        ({"enabled": "yes"}, 400, "enabled: "),
        ({"when_down": "wait"}, 400, "when_down: "),
        ({"api_token": "x"}, 400, "api_token: unknown field"),
        ({"token": None}, 422, "token: is required"),
        ({"token": ""}, 422, "token: is required"),
        ({"token": "x" * 4_097}, 422, "token: at most 4096"),
        ({"token": "a\nb"}, 422, "token: at most"),
        ({"user": "x" * 256}, 422, "user: at most 255"),
        ({"url": "http://acme.example.com"}, 422, "url: must begin with https://"),
        (
            {"url": "https://169.254.169.254"},
            422,
            "url: '169.254.169.254' is a link-local or metadata address, which is not allowed for the tracker",
        ),
        ({"url": "https://ann:pw@acme.example.com"}, 422, "url: must have neither"),
        ({"url": "https://refused.example.com"}, 422, "url: refused.example.com is never asked"),
    ],
)
async def test_what_is_wrong_is_named(
    api: Api, tracker: AskedTracker, changes: dict[str, Any], status: int, says: str
) -> None:
    assert message(await api.as_admin.post(PATH, json=BODY | changes), status).startswith(says)
    assert (await api.as_admin.get(PATH)).status_code == 404


async def test_a_test_says_whom_the_tracker_knows_or_what_it_has_against_us(api: Api, tracker: AskedTracker) -> None:
    await api.as_admin.post(PATH, json=BODY)
    for body in ({}, {"project_key": "OPS"}):
        assert (await api.as_admin.post(f"{PATH}/test", json=body)).json() == {"answer": "it knows us"}
    # Not 404 and 403, which would be about the caller and this API.
    refused = await api.as_admin.post(f"{PATH}/test", json={"project_key": "NO"})
    assert message(refused, 422) == "there is no project NO, or it is not shown to us"
    await api.as_admin.put(PATH, json=BODY | {"token": "bad"})
    refused = await api.as_admin.post(f"{PATH}/test", json={})
    assert message(refused, 422) == "the tracker does not let us in: check user and token"
    assert tracker.closed == len(tracker.made)
    logged = (await api.as_auditor.get("/audit/logs?action=test")).json()["data"]
    assert sorted(entry["http_status"] for entry in logged) == [200, 200, 422, 422]


async def test_without_a_client_nothing_is_asked(api: Api) -> None:
    await api.as_admin.post(PATH, json=BODY)
    assert (
        message(await api.as_admin.post(f"{PATH}/test", json={}), 422)
        == "this process cannot use trackers; ask the operator of the gateway"
    )


async def test_assets_are_shown_to_who_is_asked_for_them(api: Api, tracker: AskedTracker) -> None:
    path = f"{PATH}/assets/objects?object_type=Server"
    assert message(await api.as_admin.get(path), 404).startswith("no tracker is configured")
    await api.as_admin.post(PATH, json=BODY)
    found = (await api.as_auditor.get(f"{path}&query=db&limit=1&offset=1")).json()
    assert found == {"data": [{"id": "db2", "name": "db2"}], "total": 2, "has_next_page": False}
    assert tracker.asked == ["objects Server db 1 1"]
    refused = "no connection that you can see asks for an object of type 'Server'"
    assert message(await api.as_bob.get(path), 403) == refused
    asset = {"tracker_field": "asset", "tracker_object_type": "Server"}
    template = {"name": "changes", "project_key": "OPS", "request_type_id": "10"}
    fixed = template | {"cmdb_types": {"items": [asset | {"value": "db1"}]}}
    made = (await api.as_admin.post(f"{PATH}/issuetemplates", json=fixed)).json()
    assert message(await api.as_bob.get(path), 403) == refused
    asking = template | {"cmdb_types": {"items": [asset]}}
    assert (await api.as_admin.put(f"{PATH}/issuetemplates/{made['id']}", json=asking)).status_code == 200
    assert len((await api.as_bob.get(path)).json()["data"]) == 3
    # Once access rules are enforced, a template of no connection that they see is none to them.
    await api.as_admin.put("/feature-flags/access-control", json={"enabled": True})
    assert message(await api.as_bob.get(path), 403) == refused
    for query in ("", "?object_type=", f"?object_type={'x' * 256}"):
        assert message(await api.as_admin.get(f"{PATH}/assets/objects{query}"), 422).startswith("object_type: ")


async def test_nothing_is_seen_from_another_organisation(api: Api, tracker: AskedTracker) -> None:
    await api.as_admin.post(PATH, json=BODY)
    made = await api.as_admin.post("/orgs", json={"name": "acme", "admin_email": "chief@example.org"})
    assert made.status_code == 201
    other = await api.world.stores.organisations.by_name("acme")
    assert other is not None
    account = await api.world.stores.principals.by_email(other.id, "chief@example.org")
    assert account is not None
    with pytest.raises(NotFound):
        await api.services.tracker.get(account.principal)
    assert await api.services.tracker.of(other.id) is None
