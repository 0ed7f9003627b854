"""Users, groups, service accounts, API keys and machine identities over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.api.conftest import PASSWORD, TARGET, Api, message

from postern.domain.lists import Page
from postern.store.ports.server_ports import AuditFilter


async def make_key(api: Api, name: str = "ci", **fields: Any) -> dict[str, Any]:
    answer = await api.as_admin.post("/api-keys", json={"name": name} | fields)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def client(api: Api, headers: dict[str, str], address: str = "192.0.2.7") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(api.app, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost/api", headers=headers)


async def test_users_are_listed_in_pages(api: Api) -> None:
    first = (await api.as_admin.get("/users?limit=3")).json()
    assert [user["name"] for user in first["data"]] == ["Administrator", "ann", "auditor"]
    assert (first["total"], first["has_next_page"]) == (4, True)
    rest = (await api.as_admin.get("/users?limit=3&offset=3")).json()
    assert [user["name"] for user in rest["data"]] == ["bob"]
    assert rest["has_next_page"] is False
    found = (await api.as_auditor.get("/users?group=dba&search=AN&status=active")).json()
    assert [user["name"] for user in found["data"]] == ["ann"]
    assert [user["name"] for user in (await api.as_auditor.get("/users?name=ann")).json()["data"]] == ["ann"]
    message(await api.as_admin.get("/users?status=asleep"), 422)
    message(await api.as_admin.get("/users?limit=101"), 422)


async def test_a_deleted_user_is_out_at_once(api: Api) -> None:
    assert (await api.as_admin.delete("/users/ann@example.com")).status_code == 204
    message(await api.as_ann.get("/userinfo"), 401)
    message(await api.as_admin.delete("/users/ann@example.com"), 404)
    assert "yourself" in message(await api.as_admin.delete("/users/admin@localhost"), 422)
    deleted = [one for one in (await _entries(api)) if one.action == "delete" and one.status == 204]
    assert deleted[0].resource == "ann@example.com"
    assert deleted[0].before is not None
    assert deleted[0].before["principal"]["email"] == "ann@example.com"
    assert deleted[0].before["password_hash"] == "[REDACTED]"
    assert deleted[0].after is None


async def _entries(api: Api) -> Any:
    return (await api.services.audit.find(api.users["admin"], AuditFilter(), Page(100))).items


async def test_groups(api: Api) -> None:
    assert (await api.as_admin.post("/users/groups", json={"name": "on call"})).json()["members"] == 0
    found = (await api.as_auditor.get("/users/groups")).json()
    assert [(one["name"], one["members"]) for one in found["data"]] == [
        ("admin", 1),
        ("auditor", 1),
        ("dba", 1),
        ("on call", 0),
    ]
    assert {one["members"] for one in (await api.as_bob.get("/users/groups")).json()["data"]} == {None}
    assert (await api.as_bob.get("/users/groups/dba")).json()["members"] is None
    assert (await api.as_admin.put("/users/groups/dba", json={"name": "data"})).json()["members"] == 1
    assert (await api.as_admin.get("/users/ann@example.com")).json()["groups"] == ["data"]
    assert (await api.as_admin.delete("/users/groups/data")).status_code == 204
    assert "role" in message(await api.as_admin.delete("/users/groups/admin"), 422)
    assert "role" in message(await api.as_admin.delete("/users/groups/auditor"), 422)


async def test_an_api_key_is_shown_once_and_taken_in_both_headers(api: Api) -> None:
    made = await make_key(api, groups=["auditor"], allowed_networks=["192.0.2.0/24"], expires_in_seconds=3600)
    key = made.pop("key")
    assert made == {
        "id": made["id"],
        "managed_by": None,
        "org_id": str(api.world.org_id),
        "name": "ci",
        "masked_key": f"{key[:10]}…",
        "status": "active",
        "groups": ["auditor"],
        "role": "auditor",
        "service_account": None,
        "allowed_networks": ["192.0.2.0/24"],
        "expires_at": "2026-01-02T04:04:05Z",
        "last_used_at": None,
        "created_by": "admin@localhost",
        "created_at": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z",
        "deactivated_by": None,
        "deactivated_at": None,
    }
    for headers in ({"Api-Key": key}, {"Authorization": f"Bearer {key}"}):
        shown = (await client(api, headers).get("/userinfo")).json()
        assert (shown["kind"], shown["api_key"], shown["login_method"]) == ("api_key", "ci", None)
        assert "cannot be used from 198.51.100.1" in message(
            await client(api, headers, "198.51.100.1").get("/userinfo"), 401
        )
    both = {"Api-Key": key, "Authorization": api.as_ann.headers["Authorization"]}
    assert "send only one" in message(await client(api, both).get("/userinfo"), 401)
    token = {"Api-Key": api.as_ann.headers["Authorization"].removeprefix("Bearer ")}
    assert "does not contain an API key" in message(await client(api, token).get("/userinfo"), 401)
    found = (await api.as_auditor.get("/api-keys")).json()
    assert found["data"] == [made | {"last_used_at": "2026-01-02T03:04:05Z"}]
    assert key not in str([(one.body, one.before, one.after) for one in await _entries(api)])


async def test_an_api_key_is_changed_revoked_and_reactivated(api: Api) -> None:
    made = await make_key(api, groups=["dba"])
    kept = await api.as_admin.patch("/api-keys/ci", json={"name": None, "groups": None})
    assert kept.json() == {name: value for name, value in made.items() if name != "key"}
    renamed = await api.as_admin.patch(f"/api-keys/{made['id']}", json={"name": "cd"})
    assert (renamed.json()["name"], renamed.json()["groups"]) == ("cd", ["dba"])
    await make_key(api, "other")
    message(await api.as_admin.put("/api-keys/other", json={"name": "cd"}), 409)
    message(await api.as_admin.post("/api-keys", json={"name": "cd"}), 409)
    assert (await api.as_admin.delete("/api-keys/cd")).status_code == 204
    message(await api.as_admin.delete("/api-keys/cd"), 404)
    message(await api.as_admin.delete("/api-keys/nothing"), 404)
    shown = (await api.as_admin.get("/api-keys/cd")).json()
    assert (shown["status"], shown["deactivated_by"]) == ("revoked", "admin@localhost")
    message(await client(api, {"Api-Key": made["key"]}).get("/userinfo"), 401)
    assert (await api.as_admin.post("/api-keys/cd/reactivate")).json()["status"] == "active"
    message(await api.as_admin.post("/api-keys/cd/reactivate"), 422)
    assert (await client(api, {"Api-Key": made["key"]}).get("/userinfo")).status_code == 200
    actions = [(one.action, one.resource_type, one.resource) for one in await _entries(api)]
    assert ("reactivate", "api-keys", "cd") in actions


async def test_an_admin_key_cannot_mint_keys(api: Api) -> None:
    as_key = client(api, {"Api-Key": (await make_key(api, groups=["admin"]))["key"]})
    assert "an API key cannot" in message(await as_key.post("/api-keys", json={"name": "x"}), 403)
    body = {"email": "eve@example.com", "password": PASSWORD}
    assert "an API key cannot" in message(await as_key.post("/users", json=body), 403)


async def test_service_accounts(api: Api) -> None:
    body = {"subject": "deploy", "name": "Deployer", "status": "active", "groups": ["dba"]}
    made = await api.as_admin.post("/serviceaccounts", json=body)
    assert made.status_code == 201
    more = {"role": "standard", "managed_by": None, "created_at": "2026-01-02T03:04:05Z"}
    assert made.json() == body | {"id": made.json()["id"], **more}
    message(await api.as_admin.post("/serviceaccounts", json=body), 409)
    key = await make_key(api, service_account="deploy")
    assert (key["service_account"], key["groups"]) == ("deploy", ["dba"])
    as_key = client(api, {"Api-Key": key["key"]})
    assert (await as_key.get("/userinfo")).json()["kind"] == "service_account"
    put = await api.as_admin.put("/serviceaccounts/deploy", json=made.json() | {"status": "inactive"})
    assert put.json()["status"] == "inactive"
    message(await as_key.get("/userinfo"), 401)
    assert (await api.as_auditor.get("/serviceaccounts")).json()["data"] == [put.json()]
    message(await api.as_ann.get("/serviceaccounts"), 403)
    message(await api.as_admin.put("/serviceaccounts/deploy", json={"status": "invited"}), 422)
    assert (await api.as_admin.delete("/serviceaccounts/deploy")).status_code == 204
    message(await api.as_admin.get("/serviceaccounts/deploy"), 404)


async def test_machine_identities(api: Api) -> None:
    await api.make_connection(secret=TARGET | {"envvar:DB": "c2hvcA=="})
    await api.make_connection("stock")
    body = {"name": "batch", "description": "nightly", "connection_names": ["shop"], "attributes": {"team": "data"}}
    answer = await api.as_admin.post("/machineidentities", json=body)
    assert answer.status_code == 201
    made = answer.json()
    (issued,) = made.pop("credentials")
    assert (issued["connection_name"], issued["database"], len(issued["password"])) == ("shop", "shop", 32)
    changed = await api.as_admin.put("/machineidentities/batch", json=made | {"connection_names": ["shop", "stock"]})
    assert [one["connection_name"] for one in changed.json()["new_credentials"]] == ["stock"]
    path = "/machineidentities/batch/credentials/shop/rotate"
    rotated = (await api.as_admin.post(path, json={"overlap_seconds": 60})).json()
    assert rotated["password"] != issued["password"]
    shown = (await api.as_admin.get("/machineidentities/batch/credentials")).json()
    assert shown["total"] == 3
    assert "password" not in str(shown)
    ends = {one["id"]: one["expires_at"] for one in shown["data"]}
    assert ends[issued["id"]] == "2026-01-02T03:05:05Z"
    assert (await api.as_admin.post(path)).status_code == 200
    message(await api.as_admin.post("/machineidentities/batch/credentials/nothing/rotate"), 404)


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/api-keys", {}, 400, "name: is required"),
        ("/api-keys", {"name": "a@b"}, 422, "name: "),
        ("/api-keys", {"name": "a", "expires_at": "soon"}, 400, "expires_at: "),
        ("/api-keys", {"name": "a", "expires_at": "2030-01-01T00:00:00"}, 422, "expires_at: needs a time zone"),
        ("/api-keys", {"name": "a", "expires_at": "2020-01-01T00:00:00Z"}, 422, "expires_at: is in the past"),
        ("/api-keys", {"name": "a", "allowed_networks": ["x"]}, 422, "allowed_networks: "),
        ("/serviceaccounts", {"subject": "a b"}, 422, "subject: "),
        ("/serviceaccounts", {"subject": "a/b"}, 422, "subject: "),
        ("/machineidentities", {"name": "a b"}, 422, "name: "),
        ("/machineidentities", {"name": "ab", "connection_names": ["x"]}, 422, "connection_names: "),
        ("/machineidentities", {"name": "ab", "attributes": {"": "x"}}, 422, "attributes: "),
        ("/users/groups", {"name": " x"}, 422, "name: "),
    ],
)
async def test_what_is_wrong_is_named(api: Api, path: str, body: dict[str, Any], status: int, says: str) -> None:
    assert message(await api.as_admin.post(path, json=body), status).startswith(says)
