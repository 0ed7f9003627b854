"""Login, users, agents and credentials over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.conftest import INFO, PASSWORD, TARGET, Api, message
from tests.support.world import API_URL

from postern import __version__
from postern.store.ports.common_ports import Topic


async def login(api: Api, email: str = "ann@example.com", password: str = PASSWORD) -> Any:
    return await api.nobody.post("/localauth/login", json={"email": email, "password": password})


async def test_login_answers_a_token(api: Api) -> None:
    answer = await login(api, "ANN@example.com")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    headers = {"Authorization": f"Bearer {answer.headers['Token']}"}
    shown = (await api.nobody.get("/userinfo", headers=headers)).json()
    assert shown.pop("changes_position")
    assert shown == {
        "id": api.users["ann"].subject,
        "email": "ann@example.com",
        "name": "ann",
        "status": "active",
        "groups": ["dba"],
        "role": "standard",
        "verified": True,
        "picture": "",
        "managed_by": None,
        "created_at": "2026-01-02T03:04:05Z",
        "last_login_at": "2026-01-02T03:04:05Z",
        "org_id": str(api.world.org_id),
        "org_name": "default",
        "tenancy_type": "selfhosted",
        "is_multitenant": False,
        "is_admin": False,
        "kind": "user",
        "login_method": "local",
        "login_expires_at": "2026-01-02T15:04:05Z",
        "api_key": None,
    }
    api.world.clock.forward(hours=12, seconds=1)
    message(await api.nobody.get("/userinfo", headers=headers), 401)


async def test_unknown_user_and_wrong_password_look_the_same(api: Api) -> None:
    unknown, wrong = await login(api, "nobody@example.com"), await login(api, password="x")
    assert message(unknown, 401) == message(wrong, 401)
    assert "Token" not in unknown.headers


async def test_guessing_is_slowed_down(api: Api) -> None:
    for _ in range(10):
        message(await login(api, password="x"), 401)
    assert "try again in" in message(await login(api), 429)
    assert (await login(api, "bob@example.com")).status_code == 200
    api.world.clock.forward(minutes=15)
    assert (await login(api)).status_code == 200


async def test_server_info(api: Api) -> None:
    shown = (await api.as_bob.get("/serverinfo")).json()
    assert shown == {
        "version": __version__,
        "auth_method": "local",
        "idp_provider_name": "",
        "api_url": API_URL,
        "tenancy_type": "selfhosted",
        "postgres_host": "localhost",
        "postgres_port": 7432,
        "postgres_proxy_enabled": True,
        "mysql_host": "localhost",
        "mysql_port": 7306,
        "mysql_proxy_enabled": True,
        "mssql_host": "localhost",
        "mssql_port": 7014,
        "mssql_proxy_enabled": True,
        "oracledb_host": "localhost",
        "oracledb_port": 7521,
        "oracledb_proxy_enabled": True,
        "mongodb_host": "localhost",
        "mongodb_port": 7017,
        "mongodb_proxy_enabled": True,
        "dynamodb_host": "localhost",
        "dynamodb_port": 7018,
        "dynamodb_proxy_enabled": True,
        "cloudwatch_host": "localhost",
        "cloudwatch_port": 7019,
        "cloudwatch_proxy_enabled": True,
        "httpproxy_host": "localhost",
        "httpproxy_port": 7080,
        "httpproxy_proxy_enabled": True,
        "ssh_host": "localhost",
        "ssh_port": 7422,
        "ssh_proxy_enabled": True,
        "tcp_host": "localhost",
        "tcp_port": 7460,
        "tcp_proxy_enabled": True,
        "ssh_host_key": INFO.ssh_host_key,
        "ssh_host_key_fingerprint": "SHA256:kmYcvdi2GkPeWxB6XLjrZB8JHsy2Hm8luHMFp9GMvqk",
        "tunnel_url": "wss://localhost:7443",
        "grpc_url": "grpcs://localhost:7444",
        "ca_certificate": INFO.ca_certificate,
        "gateway_commands": False,
        "feature_flags": {
            "access-control": False,
            "api-keys": True,
            "native-credentials": True,
            "reviews": True,
            "script-runs": True,
            "self-review": False,
            "session-download": True,
            "ssh-keys": True,
        },
    }


async def test_admins_manage_users(api: Api) -> None:
    body = {"email": "Eve@example.com", "name": "Eve", "groups": ["dba"], "password": PASSWORD}
    made = await api.as_admin.post("/users", json=body)
    assert made.status_code == 201
    assert "password" not in made.json()
    eve = made.json()
    assert (await api.as_admin.get("/users/eve@example.com")).json() == eve
    assert eve in (await api.as_auditor.get("/users")).json()["data"]
    put = await api.as_admin.put(f"/users/{eve['id']}", json=eve | {"name": "Eva", "groups": []})
    assert put.json() == eve | {"name": "Eva", "groups": []}
    message(await api.as_admin.post("/users", json=body), 409)
    message(await api.as_admin.get("/users/nobody"), 404)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 400, "email: is required"),
        ({"email": "x@y", "status": "asleep"}, 400, "status: "),
        ({"email": "x@y", "admin": True}, 400, "admin: unknown field"),
        ({"email": "x"}, 422, "email: "),
        ({"email": "x@y", "password": "short"}, 422, "password: must have 12"),
        ({"email": "x@y", "groups": [" a"]}, 422, "groups: "),
        ({"email": "x@y", "groups": ["a\u001fadmin"]}, 422, "groups: "),
        ({"email": "x@y", "name": "a\nb"}, 422, "name: "),
    ],
)
async def test_what_is_wrong_is_named(api: Api, body: dict[str, Any], status: int, says: str) -> None:
    assert message(await api.as_admin.post("/users", json=body), status).startswith(says)


async def test_a_deactivated_user_is_out_at_once(api: Api) -> None:
    put = await api.as_admin.put("/users/ann@example.com", json={"status": "inactive"})
    assert put.json()["status"] == "inactive"
    message(await api.as_ann.get("/userinfo"), 401)
    message(await login(api), 401)
    assert api.world.signals.of(Topic.PRINCIPAL_CHANGED) == [{"principal_id": str(api.users["ann"].id)}]


async def test_admins_cannot_lock_themselves_out(api: Api) -> None:
    path = "/users/admin@localhost"
    assert message(await api.as_admin.put(path, json={"status": "inactive"}), 422).startswith("status: ")
    assert message(await api.as_admin.put(path, json={"groups": []}), 422).startswith("groups: ")
    assert message(await api.as_admin.put(path, json={"email": "x@y"}), 422).startswith("email: ")


async def test_others_see_and_change_only_themselves(api: Api) -> None:
    seen = (await api.as_ann.get("/users")).json()
    assert [user["email"] for user in seen["data"]] == ["ann@example.com"]
    assert (seen["total"], seen["has_next_page"]) == (1, False)
    assert (await api.as_ann.get("/users/ann@example.com")).status_code == 200
    message(await api.as_ann.get("/users/bob@example.com"), 404)
    for client in (api.as_ann, api.as_auditor):
        message(await client.post("/users", json={"email": "x@y"}), 403)
        message(await client.put("/users/ann@example.com", json={"groups": ["admin"]}), 403)
        message(await client.delete("/users/bob@example.com"), 403)


async def test_changing_the_own_password_ends_all_tokens(api: Api) -> None:
    body = {"current_password": "wrong", "new_password": "another long password"}
    assert message(await api.as_ann.put("/users/self/password", json=body), 403).startswith("current_password")
    body["current_password"] = PASSWORD
    assert "12" in message(await api.as_ann.put("/users/self/password", json=body | {"new_password": "x"}), 422)
    changed = await api.as_ann.put("/users/self/password", json=body)
    assert changed.status_code == 200
    message(await api.as_ann.get("/userinfo"), 401)
    headers = {"Authorization": f"Bearer {changed.headers['Token']}"}
    assert (await api.nobody.get("/userinfo", headers=headers)).status_code == 200
    message(await login(api), 401)
    assert (await login(api, password="another long password")).status_code == 200


async def test_agents(api: Api) -> None:
    shown = (await api.as_ann.get("/agents/embedded")).json()
    wanted = {"id": str(api.agent.id), "name": "embedded", "mode": "gateway", "status": "CONNECTED"}
    assert wanted.items() <= shown.items()
    assert (await api.as_ann.get("/agents")).json()["data"] == [shown]
    api.world.clock.forward(seconds=15)
    disconnected = shown | {"status": "DISCONNECTED"}
    assert (await api.as_ann.get(f"/agents/{api.agent.id}")).json() == disconnected
    message(await api.as_ann.get("/agents/other"), 404)


async def test_credentials(api: Api) -> None:
    await api.make_connection(secret=TARGET | {"envvar:DB": "c2hvcA=="})
    made = await api.as_ann.post("/connections/shop/credentials", json={"access_duration_seconds": 60})
    assert made.status_code == 201
    issued = made.json()
    assert {"psql", "uri", "jdbc"} <= {line["name"] for line in issued.pop("lines")}
    assert issued.pop("gateway_identity")["ca_certificate"].startswith("-----BEGIN CERTIFICATE-----")
    assert issued == {
        "id": issued["id"],
        "connection_name": "shop",
        "connection_type": "database",
        "connection_subtype": "postgres",
        "username": issued["username"],
        "password": issued["password"],
        "host": "localhost",
        "port": 7432,
        "client_certificate": None,
        "database": "shop",
        "created_at": "2026-01-02T03:04:05Z",
        "expires_at": "2026-01-02T03:05:05Z",
        "revoked_at": None,
        "status": "active",
        "has_review": False,
        "in_browser": False,
    }
    assert len(issued["password"]) == 32
    listed = (await api.as_ann.get("/connections/shop/credentials")).json()["data"]
    names = ("id", "connection_name", "username", "created_at", "expires_at", "revoked_at", "status", "in_browser")
    assert listed == [{name: issued[name] for name in names}]
    assert (await api.as_bob.get("/connections/shop/credentials")).json()["data"] == []
    path = f"/connections/shop/credentials/{issued['id']}"
    message(await api.as_bob.post(f"{path}/revoke"), 404)
    message(await api.as_ann.post("/connections/shop/credentials/x/revoke"), 404)
    for answer in (await api.as_ann.post(f"{path}/revoke"), await api.as_admin.delete(path)):
        assert answer.status_code == 204
    assert api.world.signals.of(Topic.CREDENTIAL_REVOKED) == [{"credential_id": issued["id"]}] * 2
    listed = (await api.as_admin.get("/connections/shop/credentials")).json()["data"]
    assert listed[0]["revoked_at"] == "2026-01-02T03:04:05Z"


async def test_credentials_that_cannot_be_had(api: Api) -> None:
    await api.make_connection(access_max_duration=60)
    await api.make_connection("legacy", subtype="mysql")
    await api.make_connection("closed", access_mode_connect="disabled")
    too_long = {"access_duration_seconds": 61}
    assert "between 1 and 60" in message(await api.as_ann.post("/connections/shop/credentials", json=too_long), 422)
    assert "mysql" in message(await api.as_ann.post("/connections/legacy/credentials"), 422)
    assert "disabled" in message(await api.as_ann.post("/connections/closed/credentials"), 403)
    assert "auditors" in message(await api.as_auditor.post("/connections/shop/credentials"), 403)
    message(await api.as_ann.post("/connections/nothing/credentials"), 404)
    body = {"access_duration_seconds": "60"}
    message(await api.as_ann.post("/connections/shop/credentials", json=body), 400)
