"""Access rules over HTTP: bodies, lists, the audit log, and the explanation of a decision."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.api.conftest import Api, message

LONG = "x" * 128


async def make(api: Api, name: str = "for dba", **fields: Any) -> dict[str, Any]:
    body = {"name": name, "groups": ["dba"], "connection_names": ["shop"]} | fields
    answer = await api.as_admin.post("/access-rules", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def switch_on(api: Api) -> None:
    assert (await api.as_admin.put("/feature-flags/access-control", json={"enabled": True})).status_code == 200


async def asked(client: httpx.AsyncClient, connection: str = "shop", user: str | None = None) -> dict[str, Any]:
    answer = await client.get(f"/connections/{connection}/access", params={"user": user} if user else {})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_rule_from_its_making_to_its_end(api: Api) -> None:
    shop, other = await api.make_connection(), await api.make_connection("other")
    made = await make(api, connection_names=["shop", other["id"]], connection_tags={"stage": "test"}, description="why")
    assert made["groups"] == ["dba"]
    assert made["connection_names"] == ["other", "shop"]
    assert (made["connection_tags"], made["description"]) == ({"stage": "test"}, "why")
    for key in ("for dba", made["id"]):
        for reader in (api.as_admin, api.as_auditor):
            assert (await reader.get(f"/access-rules/{key}")).json() == made
    kept = await api.as_admin.patch("/access-rules/for dba", json={"groups": ["sre", "dba"]})
    assert kept.json() | {"updated_at": ""} == made | {"groups": ["dba", "sre"], "updated_at": ""}
    cleared = {"name": "none", "description": "", "connection_names": [], "connection_tags": {}}
    changed = (await api.as_admin.patch(f"/access-rules/{made['id']}", json=cleared)).json()
    assert {name: changed[name] for name in cleared} == cleared
    again = await api.as_admin.patch("/access-rules/none", json={**changed, "connection_names": [shop["id"]]})
    assert again.json()["connection_names"] == ["shop"]  # an answer, edited, is a valid request
    assert (await api.as_admin.delete("/access-rules/none")).status_code == 204
    message(await api.as_admin.get("/access-rules/none"), 404)
    assert {"sre", "dba"} <= {one["name"] for one in (await api.as_ann.get("/users/groups")).json()["data"]}


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"connection_names": ["shop", "shpo"]}, 422, "connection_names: there is no connection 'shpo'"),
        ({"connection_names": [str(uuid4())]}, 422, "connection_names: there is no connection '"),
        ({"connection_names": ["shop"] * 501}, 422, "connection_names: at most 500"),
        ({"groups": []}, 422, "groups: must be 1 to 100"),
        ({"groups": [f"g{number}" for number in range(101)]}, 422, "groups: must be 1 to 100"),
        ({"groups": [" dba"]}, 422, "groups: ' dba'"),
        ({"groups": "dba"}, 400, "groups"),
        ({"groups": None}, 400, "groups"),
        ({"name": ""}, 422, "name"),
        ({"name": "a/b"}, 422, "name"),
        ({"name": LONG + "x"}, 422, "name"),
        ({"name": str(uuid4())}, 422, "name"),
        ({"connection_tags": {"a b": "c"}}, 422, "connection_tags: key 'a b'"),
        ({"connection_tags": {"a": 1}}, 400, "connection_tags"),
        ({"connection_tags": {f"k{number}": "v" for number in range(11)}}, 422, "connection_tags: 11 tags"),
        ({"description": "x" * 10_001}, 422, "description: at most"),
        ({"connections": ["shop"]}, 400, "connections"),
    ],
)
async def test_what_is_wrong_is_named_and_changes_nothing(api: Api, body: Any, status: int, says: str) -> None:
    await api.make_connection()
    given = {"name": "for dba", "groups": ["dba"]} | body
    assert says in message(await api.as_admin.post("/access-rules", json=given), status)
    before = await make(api, "other")
    if body.get("groups", 0) is not None:  # in a change null keeps what is there
        assert says in message(await api.as_admin.patch("/access-rules/other", json=body), status)
    assert (await api.as_admin.get("/access-rules")).json()["data"] == [before]


async def test_the_feature_hides_what_no_rule_names(api: Api) -> None:
    await api.make_connection()
    await api.make_connection("other", connection_tags={"stage": "test"})
    await make(api)
    await switch_on(api)
    seen = (await api.as_ann.get("/connections")).json()
    assert ([one["name"] for one in seen["data"]], seen["total"]) == (["shop"], 1)
    assert (await api.as_bob.get("/connections")).json()["total"] == 0
    assert (await api.as_auditor.get("/connections")).json()["total"] == 2
    hidden = message(await api.as_bob.get("/connections/shop"), 404)
    assert hidden.replace("shop", "none") == message(await api.as_bob.get("/connections/none"), 404)
    ran = await api.as_bob.post("/sessions", json={"connection": "shop", "script": "select 1"})
    assert "no connection 'shop'" in message(ran, 404)
    message(await api.as_bob.post("/connections/shop/credentials"), 404)
    assert (await api.as_ann.post("/connections/shop/credentials")).status_code == 201
    await api.as_admin.patch("/access-rules/for dba", json={"connection_tags": {"stage": "test"}})
    assert (await api.as_ann.get("/connections")).json()["total"] == 2


async def test_why_is_explained_to_who_may_know(api: Api) -> None:
    await api.make_connection()
    await make(api, description="nobody else's business")
    off = await asked(api.as_bob)
    assert (off["allowed"], off["ground"], off["once_enforced"]) == (True, "not_enforced", None)
    preview = (await asked(api.as_auditor, user="bob@example.com"))["once_enforced"]
    assert (preview["allowed"], preview["would_allow"]) == (False, [{"rule": "for dba", "groups": ["dba"]}])
    allowed = (await asked(api.as_admin, user="ann@example.com"))["once_enforced"]
    assert (allowed["allowed"], allowed["rule"], allowed["group"]) == (True, "for dba", "dba")
    await switch_on(api)
    own = await asked(api.as_ann)
    assert (own["allowed"], own["rule"], own["group"], own["user"]) == (True, "for dba", "dba", "ann@example.com")
    assert own["reason"] == "the access rule 'for dba' is for the group 'dba'"
    ann, bob = api.users["ann"], api.users["bob"]
    for key in ("ann@example.com", "Ann@Example.com", ann.subject, str(ann.id)):
        assert await asked(api.as_ann, user=key) == own
        assert await asked(api.as_auditor, user=key) == own
    refused = await asked(api.as_admin, user="bob@example.com")
    assert (refused["allowed"], refused["visible"], refused["ground"]) == (False, False, "other_groups")
    assert refused["once_enforced"] is None
    assert refused["would_allow"] == [{"rule": "for dba", "groups": ["dba"]}]
    assert "'for dba' for 'dba'" in refused["reason"]
    await api.make_connection("lonely")
    assert (await asked(api.as_auditor, "lonely", str(bob.id)))["ground"] == "no_rule"
    assert (await asked(api.as_admin))["ground"] == "admin"
    auditor = await asked(api.as_auditor)
    assert (auditor["allowed"], auditor["visible"], auditor["ground"]) == (False, True, "auditor")
    message(await api.as_admin.get("/connections/shop/access?user=nobody@example.com"), 404)
    message(await api.as_admin.get("/connections/none/access?user=bob@example.com"), 404)


async def test_asking_why_tells_nobody_what_is_hidden_or_what_others_may(api: Api) -> None:
    """The same words as for a connection that is not there, and the same for users that are not there."""
    await api.make_connection()
    await make(api)
    await switch_on(api)
    hidden = message(await api.as_bob.get("/connections/shop/access"), 404)
    assert hidden.replace("shop", "none") == message(await api.as_bob.get("/connections/none/access"), 404)
    known = message(await api.as_bob.get("/connections/shop/access?user=ann@example.com"), 403)
    assert known == message(await api.as_bob.get("/connections/none/access?user=nobody@example.com"), 403)
    for key in ("/access-rules", "/access-rules/for dba"):
        message(await api.as_bob.get(key), 403)


async def test_who_is_inactive_may_use_nothing(api: Api) -> None:
    await api.make_connection()
    await make(api)
    await switch_on(api)
    await api.as_admin.put("/users/ann@example.com", json={"status": "inactive"})
    found = await asked(api.as_admin, user="ann@example.com")
    assert (found["allowed"], found["visible"]) == (False, False)
    assert "inactive" in found["reason"]


async def test_programs_are_in_groups_too(api: Api) -> None:
    await api.make_connection()
    await make(api, groups=["robots"])
    await switch_on(api)
    robot = {"subject": "robot", "status": "active", "groups": ["robots"]}
    assert (await api.as_admin.post("/serviceaccounts", json=robot)).status_code == 201
    found = await asked(api.as_admin, user="robot")
    assert (found["allowed"], found["group"]) == (True, "robots")
    for groups, total in ((["robots"], 1), (["others"], 0)):
        made = await api.as_admin.post("/api-keys", json={"name": groups[0], "groups": groups})
        headers = {"Authorization": f"Bearer {made.json()['key']}"}
        assert (await api.nobody.get("/connections", headers=headers)).json()["total"] == total
