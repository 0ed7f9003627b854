"""Issue templates over HTTP (spec 2.4, 4.5), and the connections that have one, from both sides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.api.conftest import Api, message
from tests.support.issues import opened

from postern.store.ports.common_ports import Topic

PATH = "/integrations/tracker/issuetemplates"
BODY: dict[str, Any] = {"name": "changes", "project_key": "OPS", "request_type_id": "10"}
FULL: dict[str, Any] = BODY | {
    "description": "For all that changes",
    "issue_transition_name_on_close": "Closed",
    "mapping_types": {
        "items": [
            {"description": "who", "tracker_field": "f1", "type": "preset", "value": "session.user_email"},
            {"description": "", "tracker_field": "f2", "type": "custom", "value": "High"},
        ]
    },
    "prompt_types": {
        "items": [
            {"description": "", "tracker_field": "f3", "field_type": "select", "label": "Risk", "required": True},
            {
                "description": "",
                "tracker_field": "f4",
                "field_type": "datetime-local",
                "label": "At",
                "required": False,
            },
        ]
    },
    "cmdb_types": {
        "items": [
            {
                "description": "what",
                "tracker_field": "f5",
                "tracker_object_type": "Server",
                "required": True,
                "value": "db1",
            }
        ]
    },
}
AT = "2026-01-02T03:04:05Z"


async def make(api: Api, **changes: Any) -> dict[str, Any]:
    answer = await api.as_admin.post(PATH, json=BODY | changes)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def connection(api: Api, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await api.as_admin.get(f"/connections/{name}")).json()
    return found


async def test_a_template_reads_back_in_full(api: Api) -> None:
    shop = await api.make_connection()
    shown = await make(api, **FULL, connection_ids=[shop["id"]])
    times = {"created_at": AT, "updated_at": AT}
    assert shown == FULL | {"connection_ids": [shop["id"]], "id": shown["id"], "managed_by": None, **times}
    assert (await api.as_admin.get(PATH)).json() == {"data": [shown], "total": 1, "has_next_page": False}
    assert (await api.as_bob.get(f"{PATH}/{shown['id']}")).json() == shown
    api.world.clock.forward(seconds=1)
    put = await api.as_admin.put(f"{PATH}/{shown['id']}", json=shown | {"name": "renamed"})
    assert (put.status_code, put.json()) == (200, shown | {"name": "renamed", "updated_at": "2026-01-02T03:04:06Z"})
    assert (await api.as_admin.delete(f"{PATH}/{shown['id']}")).status_code == 204


async def test_put_and_patch_leave_connections_that_they_do_not_give(api: Api) -> None:
    shop = await api.make_connection()
    path = f"{PATH}/{(await make(api, connection_ids=[shop['id']]))['id']}"
    for answer in (await api.as_admin.put(path, json=BODY), await api.as_admin.patch(path, json={"name": "other"})):
        assert answer.json()["connection_ids"] == [shop["id"]]
    none = await api.as_admin.patch(path, json={"connection_ids": []})
    assert none.json()["connection_ids"] == []
    assert (await connection(api, "shop"))["tracker_issue_template_id"] is None


async def test_a_connection_has_one_template_seen_from_both_sides(api: Api) -> None:
    one, two = await make(api), await make(api, name="other")
    shop = await api.make_connection("shop", tracker_issue_template_id=one["id"].upper())
    desk = await api.make_connection("desk")
    assert shop["tracker_issue_template_id"] == one["id"]
    assert (await api.as_admin.get(f"{PATH}/{one['id']}")).json()["connection_ids"] == [shop["id"]]
    api.world.signals.heard.clear()
    api.world.clock.forward(seconds=1)
    both = [shop["id"], desk["id"]]
    put = await api.as_admin.put(f"{PATH}/{two['id']}", json=BODY | {"name": "other", "connection_ids": both})
    assert sorted(put.json()["connection_ids"]) == sorted(both)
    told = {payload["connection_id"] for payload in api.world.signals.of(Topic.POLICY_CHANGED)}
    assert told == set(both)
    assert (await api.as_admin.get(f"{PATH}/{one['id']}")).json()["connection_ids"] == []
    assert (await connection(api, "desk"))["tracker_issue_template_id"] == two["id"]
    await api.as_admin.patch("/connections/desk", json={"tracker_issue_template_id": None})
    await api.as_admin.patch("/connections/shop", json={"reviewers": ["dba"]})
    assert (await api.as_admin.get(f"{PATH}/{two['id']}")).json()["connection_ids"] == [shop["id"]]
    patched = await api.as_admin.patch("/connections/shop", json={"tracker_issue_template_id": ""})
    assert patched.json()["tracker_issue_template_id"] is None
    before = (await api.as_admin.get(f"{PATH}/{two['id']}")).headers["ETag"]
    await api.as_admin.patch("/connections/shop", json={"tracker_issue_template_id": two["id"]})
    stale = await api.as_admin.patch(f"{PATH}/other", json={"connection_ids": []}, headers={"If-Match": before})
    assert "read it again" in message(stale, 412)
    api.world.signals.heard.clear()
    await api.as_admin.delete(f"{PATH}/{two['id']}")
    assert (await connection(api, "shop"))["tracker_issue_template_id"] is None
    assert [one["connection_id"] for one in api.world.signals.of(Topic.POLICY_CHANGED)] == [shop["id"]]


async def test_what_is_wrong_from_the_connections_side_changes_nothing(api: Api) -> None:
    template = await make(api)
    shop = await api.make_connection(tracker_issue_template_id=template["id"])
    for wrong in (str(uuid4()), "changes", "x" * 300):
        for answer in (
            await api.as_admin.patch("/connections/shop", json={"tracker_issue_template_id": wrong}),
            await api.as_admin.put(
                "/connections/shop", json=api.connection_body(tracker_issue_template_id=wrong, tags=["x"])
            ),
        ):
            assert message(answer, 422) == f"tracker_issue_template_id: there is no issue template '{wrong}'"
    assert await connection(api, "shop") == shop


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"name": None}, 400, "name: "),
        ({"project_key": 1}, 400, "project_key: "),
        ({"mapping_types": []}, 400, "mapping_types: "),
        ({"mapping_types": {}}, 400, "mapping_types.items: is required"),
        ({"mapping_types": {"items": [{"tracker_field": "f", "value": "x"}]}}, 400, "mapping_types.items.0.type: is "),
        (
            {"mapping_types": {"items": [{"tracker_field": "f", "type": "fixed", "value": "x"}]}},
            400,
            "mapping_types.items.0.type: input should be 'preset' or 'custom'",
        ),
        (
            {"prompt_types": {"items": [{"tracker_field": "f", "label": "F", "field_type": "date"}]}},
            400,
            "prompt_types.items.0.field_type: input should be 'text', 'select' or 'datetime-local'",
        ),
        (
            {"prompt_types": {"items": [{"tracker_field": "f", "label": "F", "type": "x"}]}},
            400,
            "prompt_types.items.0.t",
        ),
        ({"cmdb_types": {"items": [{"tracker_field": "f"}]}}, 400, "cmdb_types.items.0.tracker_object_type: is req"),
        ({"cmdb": {}}, 400, "cmdb: unknown field"),
        ({"name": ""}, 422, "name: must have 1 to 128"),
        (
            {"mapping_types": {"items": [{"tracker_field": "f", "type": "preset", "value": "session.foo"}]}},
            422,
            "mapping_types.items[0].value: unknown preset 'session.foo'; use one of session.id, ",
        ),
        (
            {
                "mapping_types": {"items": [{"tracker_field": "f", "type": "custom", "value": "x"}]},
                "prompt_types": {"items": [{"tracker_field": "f", "label": "F"}]},
            },
            422,
            "prompt_types.items[0].tracker_field: 'f' is already set by mapping_types.items[0]",
        ),
        ({"connection_ids": ["shop"]}, 422, "connection_ids: there is no connection with id 'shop'"),
        ({"connection_ids": [str(uuid4())]}, 422, "connection_ids: there is no connection with id"),
        ({"connection_ids": [str(uuid4())] * 501}, 422, "connection_ids: at most 500"),
    ],
)
async def test_what_is_wrong_is_named(api: Api, changes: dict[str, Any], status: int, says: str) -> None:
    kept = await make(api, name="kept")
    assert message(await api.as_admin.post(PATH, json=BODY | changes), status).startswith(says)
    assert message(await api.as_admin.put(f"{PATH}/{kept['id']}", json=BODY | changes), status).startswith(says)
    assert (await api.as_admin.get(PATH)).json()["data"] == [kept]


async def test_a_managed_connection_is_refused(api: Api) -> None:
    managed = await api.world.add_connection("apps", managed_by="agent:apps")
    answer = await api.as_admin.post(PATH, json=BODY | {"connection_ids": [str(managed.id)]})
    assert message(answer, 400) == "connection_ids: connection 'apps' is managed by agent:apps; change it there"
    assert (await api.as_admin.get(PATH)).json()["data"] == []


async def test_users_see_templates_of_connections_that_they_see(api: Api) -> None:
    """Since they are asked what is in them; once access rules are enforced, no others."""
    shop, desk = await api.make_connection("shop"), await api.make_connection("desk")
    both = await make(api, name="both", connection_ids=[shop["id"], desk["id"]])
    free = await make(api, name="free")
    assert [one["name"] for one in (await api.as_bob.get(PATH)).json()["data"]] == ["both", "free"]
    await api.as_admin.put("/feature-flags/access-control", json={"enabled": True})
    rule = {"name": "for dba", "groups": ["dba"], "connection_names": ["shop"]}
    assert (await api.as_admin.post("/access-rules", json=rule)).status_code == 201
    assert (await api.as_bob.get(PATH)).json() == {"data": [], "total": 0, "has_next_page": False}
    seen = both | {"connection_ids": [shop["id"]]}
    assert (await api.as_ann.get(PATH)).json() == {"data": [seen], "total": 1, "has_next_page": False}
    assert (await api.as_ann.get(f"{PATH}/{both['id']}")).json() == seen
    message(await api.as_ann.get(f"{PATH}/{free['id']}"), 404)
    assert (await api.as_auditor.get(PATH)).json()["total"] == 2


async def test_what_was_changed_is_in_the_audit_log(api: Api) -> None:
    api.world.clock.tick = timedelta(milliseconds=1)
    made = await make(api)
    await api.as_admin.put(f"{PATH}/{made['id']}", json=BODY | {"name": "renamed"})
    await api.as_admin.delete(f"{PATH}/{made['id']}")
    log = (await api.as_auditor.get("/audit/logs?resource_type=integrations/tracker/issuetemplates")).json()["data"]
    names = [tuple(side and side["name"] for side in (entry["before"], entry["after"])) for entry in reversed(log)]
    assert names == [(None, "changes"), ("changes", "renamed"), ("renamed", None)]
    changed = log[1]
    shown = [changed["body"], changed["before"], changed["after"]]
    assert [one["project_key"] for one in shown] == ["OPS"] * 3


async def test_preview_of_a_draft_and_of_a_saved_template_sends_nothing(api: Api) -> None:
    shop = await api.make_connection("shop", connection_tags={"team": "blue"})
    mappings = {
        "items": [
            {"tracker_field": "summary", "type": "preset", "value": "session.connection"},
            {"tracker_field": "f1", "type": "preset", "value": "session.connection_tags.team"},
            {"tracker_field": "f2", "type": "preset", "value": "session.colour"},
        ]
    }
    draft = FULL | {"mapping_types": mappings, "connection_ids": [shop["id"]]}
    body = {"template": draft, "tracker_fields": {"f3": "High"}}
    answer = await api.as_admin.post(f"{PATH}/preview", json=body)
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert (shown["summary"], shown["project_key"], shown["request_type_id"]) == ("shop", "OPS", "10")
    assert shown["fields"] == [
        {"tracker_field": "f1", "value": "blue", "object_type": None},
        {"tracker_field": "f3", "value": "High", "object_type": None},
        {"tracker_field": "f5", "value": "db1", "object_type": "Server"},
    ]
    assert [(field["tracker_field"], field["state"], field["required"]) for field in shown["unfilled"]] == [
        ("f2", "unknown", False),
        ("f4", "prompted", False),
    ]
    assert (await api.as_admin.get(PATH)).json()["total"] == 0
    saved = await make(api, **FULL)
    answer = await api.as_admin.post(f"{PATH}/preview", json={"template_id": "changes"})
    assert [field["tracker_field"] for field in answer.json()["unfilled"]] == ["f3", "f4"]
    assert "alice@example.com" in answer.json()["text"]
    assert (await api.as_admin.get(f"{PATH}/{saved['id']}")).json() == saved


async def test_preview_for_a_recorded_session_has_its_values(api: Api) -> None:
    await api.make_connection("shop")
    session = await opened(api.world, uuid4())
    template = BODY | {"mapping_types": {"items": [{"tracker_field": "f", "type": "preset", "value": "session.id"}]}}
    answer = await api.as_admin.post(f"{PATH}/preview", json={"template": template, "session_id": str(session.id)})
    assert [field["value"] for field in answer.json()["fields"]] == [str(session.id)]
    missing = {"template": template, "session_id": str(uuid4())}
    assert "there is no session" in message(await api.as_admin.post(f"{PATH}/preview", json=missing), 404)


async def test_preview_says_what_is_wrong_and_is_for_administrators(api: Api) -> None:
    path = f"{PATH}/preview"
    assert "project_key" in message(await api.as_admin.post(path, json={"template": BODY | {"project_key": ""}}), 422)
    for body in ({}, {"template": BODY, "template_id": "changes"}):
        assert "give either" in message(await api.as_admin.post(path, json=body), 422)
    message(await api.as_admin.post(path, json={"template_id": "changes"}), 404)
    for caller in (api.as_bob, api.as_auditor):
        assert "only administrators" in message(await caller.post(path, json={"template": BODY}), 403)
