"""Server and organisation management over HTTP."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import httpx
import pytest
from tests.api.conftest import PASSWORD, Api, message

from postern.domain.identity.auth_config import AuthConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Account, PrincipalStatus
from postern.domain.secret import Secret
from postern.domain.server import NATIVE


async def as_other(api: Api, name: str = "acme", **more: object) -> httpx.AsyncClient:
    """The administrator of another organisation."""
    made = await api.as_admin.post("/orgs", json={"name": name, "admin_email": f"boss@{name}.example", **more})
    assert made.status_code == 201, made.text
    org = await api.world.stores.organisations.by_name(name)
    assert org is not None
    account = await api.world.stores.principals.by_email(org.id, f"boss@{name}.example")
    assert account is not None
    active = replace(account.principal, status=PrincipalStatus.ACTIVE)
    await api.world.stores.principals.update(Account(active), api.world.clock())
    await api.services.accounts.set_password(active, Secret(PASSWORD), "password")
    body = {"email": f"boss@{name}.example", "password": PASSWORD, "organization": name}
    token = (await api.nobody.post("/localauth/login", json=body)).headers["Token"]
    api.nobody.headers.pop("Authorization", None)
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(api.app), base_url="http://localhost/api", headers=headers)


async def test_an_organisation_is_made_and_named(api: Api) -> None:
    body = {"name": "acme", "admin_email": "boss@acme.example"}
    made = (await api.as_admin.post("/orgs", json=body)).json()
    assert made["setup_token"]
    listed = (await api.as_admin.get("/orgs")).json()
    assert [one["name"] for one in listed["data"]] == ["acme", "default"]
    assert (listed["total"], listed["has_next_page"]) == (2, False)
    assert made["setup_token"] not in str(listed)
    logged = (await api.as_admin.get("/audit/logs?resource_type=orgs")).json()["data"][0]
    assert logged["after"]["organisation"]["name"] == "acme"
    assert made["setup_token"] not in str(logged)
    message(await api.as_admin.post("/orgs", json=body), 409)
    for client in (api.as_ann, api.as_auditor):
        message(await client.post("/orgs", json=body), 403)
        assert [one["name"] for one in (await client.get("/orgs")).json()["data"]] == ["default"]
    assert (await api.as_ann.get("/serverinfo")).json()["tenancy_type"] == "multitenant"


async def test_whether_the_gateways_own_agent_runs_commands_is_told_to_each_organisation_for_itself(api: Api) -> None:
    other = await as_other(api)
    for commands in (False, True):
        api.app.state.info = replace(api.app.state.info, gateway_commands=commands)
        assert (await api.as_ann.get("/serverinfo")).json()["gateway_commands"] is commands
        assert (await other.get("/serverinfo")).json()["gateway_commands"] is False


async def test_deletion_of_an_organisation_ends_all_access_at_once(api: Api) -> None:
    other = await as_other(api)
    key = (await other.post("/api-keys", json={"name": "ci", "groups": ["admin"]})).json()["key"]
    found = {one["name"]: one for one in (await api.as_admin.get("/orgs")).json()["data"]}
    path = f"/orgs/{found['acme']['id']}"
    message(await api.as_admin.delete(path), 422)
    message(await api.as_admin.delete(f"{path}?name=Acme"), 422)
    message(await other.delete(f"{path}?name=acme"), 403)
    message(await api.as_admin.delete(f"/orgs/{found['default']['id']}?name=default"), 409)
    assert (await other.get("/userinfo")).status_code == 200
    deleted = await api.as_admin.delete(f"{path}?name=acme")
    assert deleted.status_code == 202
    assert deleted.json()["deleting_at"]
    assert (await other.get("/userinfo")).status_code == 401
    api.nobody.headers["Authorization"] = f"Bearer {key}"
    assert (await api.nobody.get("/userinfo")).status_code == 401
    del api.nobody.headers["Authorization"]
    login = {"email": "boss@acme.example", "password": PASSWORD, "organization": "acme"}
    assert (await api.nobody.post("/localauth/login", json=login)).status_code == 401
    message(await api.as_admin.delete(f"{path}?name=acme"), 409)
    message(await api.as_admin.post("/orgs", json={"name": "acme", "admin_email": "x@acme.example"}), 409)
    listed = (await api.as_admin.get("/orgs")).json()["data"]
    assert [(one["name"], one["deleting_at"] is None) for one in listed] == [("acme", False), ("default", True)]
    entries = (await api.as_admin.get("/audit/logs?resource_type=orgs&action=delete")).json()["data"]
    (done,) = [one["before"] for one in entries if one["outcome"] == "success"]
    assert (done["organisation"]["name"], done["users"]) == ("acme", 2)


async def test_roles_by_names_of_ones_own(api: Api) -> None:
    own = (await api.as_ann.get("/orgs/self")).json()
    put = await api.as_admin.put("/orgs/self", json=own | {"admin_role_name": "owners"})
    assert put.json() == own | {"admin_role_name": "owners"}
    assert (await api.as_admin.get("/userinfo")).json()["groups"] == ["owners"]
    assert (await api.as_admin.get("/serverconfig/misc")).status_code == 200
    message(await api.as_ann.put("/orgs/self", json={"admin_role_name": "dba"}), 403)
    message(await api.as_admin.put("/orgs/self", json={"name": "other"}), 422)
    message(await api.as_admin.put("/orgs/self", json={"admin_role_name": "auditor"}), 422)


async def test_attack_049_another_organisations_admin_finds_and_runs_nothing_here(api: Api) -> None:
    connection = await api.make_connection()
    guardrail = await api.make_guardrail()
    other = await as_other(api)
    for path in (
        f"/connections/{connection['id']}",
        "/connections/shop",
        f"/guardrails/{guardrail['id']}",
        "/users/ann@example.com",
        f"/agents/{api.agent.id}",
    ):
        message(await other.get(path), 404)
    entry = (await api.as_admin.get("/audit/logs")).json()["data"][0]
    message(await other.get(f"/audit/logs/{entry['id']}"), 404)
    for method, path in (
        ("GET", "/serverconfig/misc"),
        ("PUT", "/serverconfig/misc"),
        ("GET", "/server-logs"),
        ("GET", "/server-logs/stream"),
    ):
        message(await other.request(method, path, json={} if method == "PUT" else None), 403)
    body = {"name": "more", "admin_email": "x@y.example"}
    message(await other.post("/orgs", json=body), 403)
    assert "there is no agent" in message(await other.post("/connections", json=api.connection_body("mine")), 422)
    seen = {entry["actor_email"] for entry in (await other.get("/audit/logs")).json()["data"]}
    assert seen == {"boss@acme.example"}


async def test_features_over_http(api: Api) -> None:
    listed = (await api.as_ann.get("/feature-flags?limit=2")).json()
    assert ([one["name"] for one in listed["data"]], listed["total"]) == (["access-control", "api-keys"], 8)
    await api.make_connection()
    put = await api.as_admin.put("/feature-flags/script-runs", json={"enabled": False})
    assert (put.json()["name"], put.json()["enabled"]) == ("script-runs", False)
    said = message(await api.as_ann.post("/sessions", json={"connection": "shop", "script": "select 1"}), 403)
    assert "script-runs is switched off" in said
    assert (await api.as_ann.get("/serverinfo")).json()["feature_flags"]["script-runs"] is False
    on = await api.as_admin.put("/orgs/features", json={"name": "script-runs", "status": "enabled"})
    assert on.status_code == 204
    assert (await api.as_ann.get("/serverinfo")).json()["feature_flags"]["script-runs"] is True
    message(await api.as_admin.put("/feature-flags/approvals", json={"enabled": True}), 404)
    message(await api.as_admin.put("/orgs/features", json={"name": "api-keys", "status": "maybe"}), 400)
    message(await api.as_ann.put("/feature-flags/script-runs", json={"enabled": False}), 403)


async def test_session_files_can_be_switched_off(api: Api) -> None:
    api.wait_for_no_run()
    await api.make_connection()
    run = (await api.as_ann.post("/sessions", json={"connection": "shop", "script": "select 1"})).json()
    path = f"/sessions/{run['session_id']}"
    message(await api.as_ann.get(f"{path}?extension=csv"), 404)  # it has not run: there is nothing to download yet
    await api.as_admin.put("/feature-flags/session-download", json={"enabled": False})
    message(await api.as_ann.get(f"{path}?extension=csv"), 403)
    assert (await api.as_ann.get(path)).status_code == 200


async def test_server_configuration_over_http(api: Api) -> None:
    before = (await api.as_admin.get("/serverconfig/misc")).json()
    assert before == {
        "postgres_server_config": {"enabled": True, "listen_address": "127.0.0.1:7432"},
        "mysql_server_config": {"enabled": True, "listen_address": "127.0.0.1:7306"},
        "mssql_server_config": {"enabled": True, "listen_address": "127.0.0.1:7014"},
        "oracledb_server_config": {"enabled": True, "listen_address": "127.0.0.1:7521"},
        "mongodb_server_config": {"enabled": True, "listen_address": "127.0.0.1:7017"},
        "dynamodb_server_config": {"enabled": True, "listen_address": "127.0.0.1:7018"},
        "cloudwatch_server_config": {"enabled": True, "listen_address": "127.0.0.1:7019"},
        "httpproxy_server_config": {"enabled": True, "listen_address": "127.0.0.1:7080"},
        "ssh_server_config": {"enabled": True, "listen_address": "127.0.0.1:7422"},
        "tcp_server_config": {"enabled": True, "listen_address": "127.0.0.1:7460"},
        "public_host": "",
        "api_url": "http://localhost:7480",
        "ssh_host_key_fingerprint": "SHA256:kmYcvdi2GkPeWxB6XLjrZB8JHsy2Hm8luHMFp9GMvqk",
    }
    changed = before | {"postgres_server_config": {"enabled": True, "listen_address": "0.0.0.0:7000"}}
    changed |= {"public_host": "db.example"}
    assert (await api.as_admin.put("/serverconfig/misc", json=changed)).json() == changed
    info = (await api.as_ann.get("/serverinfo")).json()
    assert (info["postgres_host"], info["postgres_port"]) == ("db.example", 7000)
    await api.make_connection()
    issued = (await api.as_ann.post("/connections/shop/credentials")).json()
    assert (issued["host"], issued["port"]) == ("db.example", 7000)
    off = await api.as_admin.put("/serverconfig/misc", json={"postgres_server_config": {"enabled": False}})
    assert off.json()["postgres_server_config"] == {"enabled": False, "listen_address": "0.0.0.0:7000"}
    assert (await api.as_ann.get("/serverinfo")).json()["postgres_proxy_enabled"] is False
    entry = (await api.as_admin.get("/audit/logs?resource_type=serverconfig/misc")).json()["data"][0]
    assert (entry["before"]["postgres_server_config"]["enabled"], entry["after"]["public_host"]) == (True, "db.example")
    for client in (api.as_ann, api.as_auditor):
        message(await client.get("/serverconfig/misc"), 403)


@pytest.mark.parametrize("pair", list(permutations(NATIVE, 2)), ids="-at-".join)
async def test_two_protocols_on_one_port_are_a_conflict(api: Api, pair: tuple[str, str]) -> None:
    """At whatever addresses, whether one goes to the other's port or both meet at a third."""
    moved, there = (f"{name}_server_config" for name in pair)
    before = (await api.as_admin.get("/serverconfig/misc")).json()
    port = before[there]["listen_address"].rpartition(":")[2]
    for host in ("127.0.0.1", "0.0.0.0", "[::1]"):
        taken = {moved: {"enabled": True, "listen_address": f"{host}:{port}"}}
        said = message(await api.as_admin.put("/serverconfig/misc", json=taken), 409)
        assert f"port {port} is already used for" in said
    both = {
        moved: {"enabled": True, "listen_address": "127.0.0.1:7000"},
        there: {"enabled": False, "listen_address": "[::1]:7000"},
    }
    message(await api.as_admin.put("/serverconfig/misc", json=both), 409)
    assert (await api.as_admin.get("/serverconfig/misc")).json() == before


async def test_login_settings_over_http(api: Api) -> None:
    got = (await api.as_auditor.get("/serverconfig/auth")).json()
    assert got == {
        "auth_method": "local",
        "oidc_config": None,
        "saml_config": None,
        "ldap_config": None,
        "provider_name": "",
        "admin_role_name": "admin",
        "auditor_role_name": "auditor",
        "require_second_factor": False,
    }
    provider = {"issuer_url": "https://login.example", "client_id": "postern", "client_secret": "hunter2"}
    put = await api.as_admin.put("/serverconfig/auth", json={"auth_method": "local", "oidc_config": provider})
    shown = put.json()
    assert shown["oidc_config"]["has_client_secret"] is True
    assert "client_secret" not in shown["oidc_config"]
    again = await api.as_admin.put("/serverconfig/auth", json=shown | {"provider_name": "Ours"})
    assert again.json() == shown | {"provider_name": "Ours"}
    entries = await api.as_admin.get("/audit/logs?resource_type=serverconfig/auth")
    assert len(entries.json()["data"]) == 2
    for answer in (put, again, entries, await api.as_admin.get("/serverconfig/auth")):
        assert "hunter2" not in answer.text
    assert entries.json()["data"][0]["after"]["oidc_config"]["client_secret"] == "[REDACTED]"
    metadata = {"auth_method": "local", "oidc_config": provider | {"issuer_url": "http://169.254.169.254/"}}
    message(await api.as_admin.put("/serverconfig/auth", json=metadata), 422)
    message(await api.as_admin.put("/serverconfig/auth", json={"auth_method": "magic"}), 400)
    message(await api.as_ann.get("/serverconfig/auth"), 403)
    assert (await api.nobody.get("/publicserverinfo")).json()["idp_provider_name"] == "Ours"
    unknown = await api.nobody.get("/publicserverinfo?organization=nobody")
    assert unknown.json() == {
        "auth_method": "local",
        "setup_required": False,
        "idp_provider_name": "",
        "methods": [{"kind": "local", "name": "Password", "url": "/api/localauth/login"}],
    }


@pytest.mark.parametrize(
    ("config", "method"),
    [
        (AuthConfig(LoginMethod.OIDC, provider_name="Ours"), {"kind": "oidc", "name": "Ours", "url": "/api/login"}),
        (AuthConfig(LoginMethod.OIDC), {"kind": "oidc", "name": "Single sign-on", "url": "/api/login"}),
        (AuthConfig(LoginMethod.SAML), {"kind": "saml", "name": "SAML", "url": "/api/saml/login"}),
    ],
)
async def test_public_information_lists_the_ways_to_log_in(
    api: Api, config: AuthConfig, method: dict[str, str]
) -> None:
    await api.services.auth_configs.put(api.world.org_id, config)
    shown = (await api.nobody.get("/publicserverinfo")).json()
    assert (shown["methods"], shown["auth_method"]) == ([method], method["kind"])
    path = method["url"].removeprefix("/api")
    assert (await api.nobody.get(path)).status_code != 404, "a login begins there"


async def test_readiness_over_http(api: Api) -> None:
    assert (await api.nobody.get("/readyz")).json() == {"readiness": "OK"}
    api.world.clock.forward(seconds=20)
    assert message(await api.nobody.get("/readyz"), 503) == "not ready: workers: no relay worker is alive"
    assert (await api.nobody.get("/healthz")).json() == {"liveness": "OK"}


@pytest.mark.parametrize("path", ["/publicserverinfo", "/healthz", "/readyz"])
async def test_attack_053_nothing_that_a_stranger_could_use(api: Api, path: str) -> None:
    """Neither versions nor addresses, names, or counts."""
    shown = (await api.nobody.get(path)).json()
    assert set(shown) <= {"liveness", "readiness", "auth_method", "setup_required", "idp_provider_name", "methods"}
