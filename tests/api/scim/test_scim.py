"""What provisioning services of identity providers really send, and how it is answered."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.api.conftest import PASSWORD, Api, message

from postern.domain.lists import Page
from postern.store.ports.common_ports import Topic
from postern.store.ports.server_ports import AuditFilter

CORE = "urn:ietf:params:scim:schemas:core:2.0"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"


@pytest.fixture
async def scim(api: Api) -> httpx.AsyncClient:
    made = await api.as_admin.post("/api-keys", json={"name": "scim", "groups": ["admin"]})
    headers = {"Api-Key": made.json()["key"], "Content-Type": "application/scim+json"}
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(api.app), base_url="http://localhost/api/scim/v2", headers=headers
    )


def user(name: str = "eve", **fields: Any) -> dict[str, Any]:
    """As a large provider sends it: with much that means nothing here."""
    emails = [{"value": f"old.{name}@example.com"}, {"value": f"{name}@example.com", "type": "work", "primary": True}]
    body = {
        "schemas": [f"{CORE}:User", "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"],
        "userName": name,
        "name": {"givenName": name.title(), "familyName": "Example"},
        "emails": emails,
        "locale": "en-US",
        "password": "not taken here",
        "externalId": f"00u-{name}",
    }
    return body | fields


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"schemas": [PATCH], "Operations": list(operations)}


def problem(answer: httpx.Response, status: int, scim_type: str | None = None) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/scim+json"
    shown = answer.json()
    assert (shown["schemas"], shown["status"], shown.get("scimType")) == ([ERROR], str(status), scim_type)
    return str(shown["detail"])


async def made(scim: httpx.AsyncClient, body: dict[str, Any], path: str = "/Users") -> dict[str, Any]:
    answer = await scim.post(path, json=body)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == answer.json()["meta"]["location"]
    shown: dict[str, Any] = answer.json()
    return shown


async def test_a_user_is_made_found_and_deleted(api: Api, scim: httpx.AsyncClient) -> None:
    eve = await made(scim, user())
    base = (await api.as_bob.get("/serverinfo")).json()["api_url"]
    assert eve == {
        "schemas": [f"{CORE}:User"],
        "id": eve["id"],
        "externalId": "00u-eve",
        "userName": "eve",
        "displayName": "Eve Example",
        "active": True,
        "emails": [{"value": "eve@example.com"}],
        "meta": {
            "resourceType": "User",
            "created": "2026-01-02T03:04:05Z",
            "location": f"{base}/api/scim/v2/Users/{eve['id']}",
        },
    }
    assert (await api.as_admin.get("/users/eve@example.com")).json()["status"] == "invited"
    wanted_by_somebody = (
        'userName eq "EVE"',
        f'{CORE}:User:userName eq "eve"',
        'externalId eq "00u-eve"',
        'emails.value eq "Eve@example.com"',
        'displayName eq "Eve Example"',
        f'id eq "{eve["id"]}"',
    )
    for wanted in wanted_by_somebody:
        found = (await scim.get("/Users", params={"filter": wanted})).json()
        assert (found["totalResults"], found["Resources"]) == (1, [eve]), wanted
    for wanted in ('userName eq "ev"', 'externalId eq "00U-EVE"', 'id eq "x"'):
        assert (await scim.get("/Users", params={"filter": wanted})).json()["totalResults"] == 0, wanted
    assert (await scim.delete(f"/Users/{eve['id']}")).status_code == 204
    problem(await scim.get(f"/Users/{eve['id']}"), 404)
    problem(await scim.delete(f"/Users/{eve['id']}"), 404)


async def test_no_filter_is_ignored(scim: httpx.AsyncClient) -> None:
    """A filter that is not understood must not answer with everybody."""
    for wanted in ('userName co "e"', 'title eq "x"', 'userName eq "a" or userName eq "b"', "userName pr", "x", ""):
        answer = await scim.get("/Users", params={"filter": wanted})
        assert "Resources" not in answer.json(), wanted
        problem(answer, 400, "invalidFilter")


async def test_pages_count_from_one(scim: httpx.AsyncClient) -> None:
    for name in ("u1", "u2", "u3"):
        await made(scim, user(name))
    first = (await scim.get("/Users?startIndex=-3&count=2")).json()
    assert (first["startIndex"], first["itemsPerPage"], first["totalResults"]) == (1, 2, 7)
    rest = (await scim.get("/Users?startIndex=3&count=500")).json()
    assert len(rest["Resources"]) == 5
    none = (await scim.get("/Users?count=0")).json()
    assert (none["totalResults"], none.get("Resources", [])) == (7, [])
    names = (await scim.get("/Users?attributes=userName")).json()["Resources"]
    assert {frozenset(one) for one in names} == {frozenset({"schemas", "id", "userName"})}


async def test_active_false_is_out_at_once(api: Api, scim: httpx.AsyncClient) -> None:
    """In the spellings that providers use."""
    ann = (await scim.get("/Users", params={"filter": 'userName eq "ann@example.com"'})).json()["Resources"][0]
    path = f"/Users/{ann['id']}"
    for operation in (
        {"op": "Replace", "path": "active", "value": False},
        {"op": "replace", "value": {"active": False}},
        {"op": "Replace", "path": "active", "value": "False"},
    ):
        login = {"email": "ann@example.com", "password": PASSWORD}
        token = (await api.nobody.post("/localauth/login", json=login)).headers["Token"]
        headers = {"Authorization": f"Bearer {token}"}
        assert (await api.nobody.get("/userinfo", headers=headers)).status_code == 200
        answer = await scim.patch(path, json=patch(operation))
        assert answer.status_code == 200, answer.text
        assert answer.json()["active"] is False
        message(await api.nobody.get("/userinfo", headers=headers), 401)
        on = await scim.patch(path, json=patch({"op": "add", "path": "active", "value": True}))
        assert on.json()["active"] is True
    assert {"principal_id": ann["id"]} in api.world.signals.of(Topic.PRINCIPAL_CHANGED)


async def test_a_user_is_replaced_and_patched(scim: httpx.AsyncClient) -> None:
    eve = await made(scim, user())
    put = await scim.put(f"/Users/{eve['id']}", json=user(displayName="Eva", active=False))
    assert put.json() == eve | {"displayName": "Eva", "active": False}
    operations = (
        {"op": "replace", "path": 'emails[type eq "work"].value', "value": "eva@example.com"},
        {"op": "replace", "path": "displayName", "value": "Eva E."},
        {"op": "replace", "path": "name.familyName", "value": "Nobody"},
    )
    changed = await scim.patch(f"/Users/{eve['id']}", json=patch(*operations))
    assert changed.json() == put.json() | {"displayName": "Eva E.", "emails": [{"value": "eva@example.com"}]}
    await made(scim, user("bea"))
    problem(await scim.post("/Users", json=user("BEA")), 409, "uniqueness")
    problem(await scim.put(f"/Users/{eve['id']}", json=user("bea")), 409, "uniqueness")
    problem(
        await scim.patch(f"/Users/{eve['id']}", json=patch({"op": "remove", "path": "userName"})), 400, "mutability"
    )


async def test_members_are_added_and_removed(api: Api, scim: httpx.AsyncClient) -> None:
    eve, bea = (await made(scim, user("eve")))["id"], (await made(scim, user("bea")))["id"]
    body = {"schemas": [f"{CORE}:Group"], "displayName": "sre", "members": [{"value": eve, "display": "Eve"}]}
    group = await made(scim, body, "/Groups")
    path = f"/Groups/{group['id']}"

    async def members(*operations: dict[str, Any]) -> set[str]:
        answer = await scim.patch(path, json=patch(*operations))
        assert answer.status_code == 200, answer.text
        return {one["value"] for one in answer.json().get("members", [])}

    assert await members({"op": "Add", "path": "members", "value": [{"value": bea}]}) == {eve, bea}
    assert (await api.as_admin.get("/users/bea@example.com")).json()["groups"] == ["sre"]
    assert await members({"op": "remove", "path": f'members[value eq "{eve}"]'}) == {bea}
    assert await members({"op": "add", "value": {"members": [{"value": eve}]}}) == {eve, bea}
    assert await members({"op": "Remove", "path": "members", "value": [{"value": bea}]}) == {eve}
    assert await members({"op": "replace", "path": "members", "value": [{"value": bea}]}) == {bea}
    assert await members({"op": "remove", "path": "members"}) == set()
    assert (await api.as_admin.get("/users/bea@example.com")).json()["groups"] == []
    renamed = await scim.put(path, json=body | {"displayName": "ops", "externalId": "g1"})
    assert (renamed.json()["displayName"], renamed.json()["externalId"]) == ("ops", "g1")
    assert (await api.as_admin.get("/users/eve@example.com")).json()["groups"] == ["ops"]
    for wanted in ('displayName eq "ops"', 'externalId eq "g1"', f'id eq "{group["id"]}"'):
        found = (await scim.get("/Groups", params={"filter": wanted, "excludedAttributes": "members"})).json()
        assert found["totalResults"] == 1
        assert "members" not in found["Resources"][0]
    assert (await scim.get("/Groups", params={"filter": 'displayName eq "OPS"'})).json()["totalResults"] == 0
    bad = {"op": "add", "path": "members", "value": [{"value": str(api.world.org_id)}]}
    problem(await scim.patch(path, json=patch(bad)), 400, "invalidValue")
    problem(await scim.post("/Groups", json=body | {"displayName": "ops"}), 409, "uniqueness")
    assert (await scim.delete(path)).status_code == 204
    problem(await scim.get(path), 404)


async def test_what_cannot_be_read_is_said_in_the_same_shape(scim: httpx.AsyncClient) -> None:
    for body in (b"{", b"[]", b"", b'{"userName": "\\u0000"}', b'{"userName": 1}'):
        answer = await scim.post("/Users", content=body)
        assert answer.status_code == 400, body
        assert answer.json()["schemas"] == [ERROR]
    problem(await scim.post("/Users", json={"schemas": [f"{CORE}:User"]}), 400, "invalidValue")
    problem(await scim.get("/Nothing"), 404)
    problem(await scim.post("/Users/.search", json={}), 501)
    problem(await scim.post("/Bulk", json={}), 501)
    assert (await scim.put("/Users", json={})).headers["allow"]


async def test_only_administrators_provision(api: Api, scim: httpx.AsyncClient) -> None:
    await made(scim, user())
    for client, status in ((api.as_ann, 403), (api.nobody, 401)):
        for answer in (await client.get("/scim/v2/Users"), await client.post("/scim/v2/Users", json=user("x"))):
            problem(answer, status)
    assert (await api.as_auditor.get("/scim/v2/Users")).status_code == 200
    problem(await api.as_auditor.post("/scim/v2/Users", json=user("x")), 403)


async def test_provisioning_is_audited(api: Api, scim: httpx.AsyncClient) -> None:
    eve = await made(scim, user())
    await scim.put(f"/Users/{eve['id']}", json=user(displayName="Eva"))
    await scim.post("/Users", json=user())
    entries = (await api.services.audit.find(api.users["admin"], AuditFilter(actor_email="scim"), Page())).items
    assert sorted((one.action, one.resource_type, one.status) for one in entries) == [
        ("create", "scim/v2/Users", 201),
        ("create", "scim/v2/Users", 409),
        ("update", "scim/v2/Users", 200),
    ]
    changed = next(one for one in entries if one.action == "update")
    assert changed.before is not None
    assert changed.after is not None
    assert (changed.before["principal"]["name"], changed.after["principal"]["name"]) == ("Eve Example", "Eva")
    assert changed.body["password"] == "[REDACTED]"
