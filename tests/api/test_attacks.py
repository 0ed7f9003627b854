"""Attacks on the API as a whole, named after what they try. Those that concern one route are beside its other tests."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.api.conftest import PASSWORD, Api, message

SCIM_PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
LOOPBACK = {"issuer_url": "http://127.0.0.1:1/", "client_id": "x"}


async def organisation(api: Api, name: str = "acme") -> httpx.AsyncClient:
    """Another one's administrator."""
    made = (await api.as_admin.post("/orgs", json={"name": name, "admin_email": "boss@acme.example"})).json()
    answer = await api.nobody.post("/localauth/setup", json={"token": made["setup_token"], "password": PASSWORD})
    headers = {"Authorization": f"Bearer {answer.headers['token']}"}
    transport = httpx.ASGITransport(api.app)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost/api", headers=headers)


async def entries(client: httpx.AsyncClient, **wanted: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get("/audit/logs", params=wanted)).json()["data"]
    return found


@pytest.mark.parametrize("password", [PASSWORD, "a wrong long password"])
async def test_a_login_elsewhere_is_not_shown_to_another_organisation_and_not_hidden_from_its_own(
    api: Api, password: str
) -> None:
    boss = await organisation(api)
    body = {"email": "boss@acme.example", "password": password, "organization": "acme"}
    await api.nobody.post("/localauth/login", json=body)
    assert [one["actor_email"] for one in await entries(boss, action="login")] == ["boss@acme.example"]
    assert await entries(api.as_admin, action="login", actor_email="boss@acme.example") == []


async def test_a_login_says_whose_it_was(api: Api) -> None:
    await api.nobody.post("/localauth/login", json={"email": "ANN@example.com", "password": PASSWORD})
    entry = (await entries(api.as_admin, action="login"))[0]
    assert entry["actor_subject"] == api.users["ann"].subject


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "password", "value": "s3cret in clear"},
        {"op": "replace", "Path": "urn:ietf:params:scim:schemas:core:2.0:User:passWord", "Value": "s3cret in clear"},
        {"op": "replace", "value": {"password": "s3cret in clear"}},
    ],
)
async def test_a_secret_beside_its_name_does_not_reach_the_audit_log(api: Api, operation: dict[str, Any]) -> None:
    body = {"schemas": [SCIM_PATCH], "Operations": [operation]}
    await api.as_admin.patch(f"/scim/v2/Users/{api.users['ann'].id}", json=body)
    found = await api.as_admin.get("/audit/logs?resource_type=scim/v2/Users")
    assert found.json()["total"] == 1
    assert "s3cret" not in found.text


@pytest.mark.parametrize("value", ["\\ud800", "\\u0000"])
async def test_a_filter_with_half_a_character_or_nul_is_refused(api: Api, value: str) -> None:
    answer = await api.as_admin.get("/scim/v2/Users", params={"filter": f'userName eq "{value}"'})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        {"auth_method": "oidc", "confirm": True, "oidc_config": LOOPBACK},
        {"auth_method": "local", "oidc_config": LOOPBACK},
        {"auth_method": "saml", "confirm": True, "saml_config": {"idp_metadata_url": "http://localhost:1/x"}},
        {"auth_method": "saml", "confirm": True, "saml_config": {"idp_metadata_url": "https://[::1]:1/x"}},
    ],
)
async def test_only_operators_may_have_this_machine_asked_for_a_provider(api: Api, body: dict[str, Any]) -> None:
    """Else an administrator of any organisation could try the ports of the gateway's loopback (SSRF)."""
    boss = await organisation(api)
    assert "of this machine" in message(await boss.put("/serverconfig/auth", json=body), 422)
    assert (await api.as_admin.put("/serverconfig/auth", json=body)).status_code != 403


async def test_a_request_with_two_lengths_is_refused(api: Api) -> None:
    """Content-Length and Transfer-Encoding: a proxy in front may go by the other one (request smuggling, RFC 9112
    section 6.1)."""

    async def body() -> Any:
        yield b"{}"

    headers = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    answer = await api.nobody.post("/localauth/login", headers=headers, content=body())
    assert "Transfer-Encoding" in message(answer, 400)
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("header", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"])
async def test_no_header_overrides_the_method(api: Api, header: str) -> None:
    answer = await api.as_admin.get("/users/ann@example.com", headers={header: "DELETE"})
    assert answer.status_code == 200
    assert (await api.as_admin.get("/users/ann@example.com?_method=DELETE")).status_code == 200
    assert (await api.as_ann.get("/userinfo")).status_code == 200


@pytest.mark.parametrize(
    "header", [{"X-Forwarded-For": "127.0.0.1"}, {"X-Real-IP": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}]
)
async def test_a_made_up_address_does_not_reset_the_brake(api: Api, header: dict[str, str]) -> None:
    for number in range(10):
        given = {name: value.replace("127.0.0.1", f"192.0.2.{number}") for name, value in header.items()}
        body = {"email": "ann@example.com", "password": "a wrong long password"}
        message(await api.nobody.post("/localauth/login", json=body, headers=given), 401)
    body = {"email": "ANN@EXAMPLE.com", "password": PASSWORD}
    message(await api.nobody.post("/localauth/login", json=body, headers=header), 429)


async def test_many_tries_at_the_same_instant_are_not_all_let_through(api: Api) -> None:
    body = {"email": "ann@example.com", "password": "a wrong long password"}
    tries = await asyncio.gather(*(api.nobody.post("/localauth/login", json=body) for _ in range(30)))
    assert sum(answer.status_code == 401 for answer in tries) <= 10


@pytest.mark.parametrize("field", ["is_admin", "role", "org_id", "id", "kind", "password_hash", "role_groups"])
async def test_nobody_promotes_themselves_by_a_field_that_is_not_theirs(api: Api, field: str) -> None:
    """Mass assignment: unknown fields are refused, read-only ones change nothing."""
    value = api.users["admin"].subject if field == "id" else "admin"
    for client in (api.as_ann, api.as_auditor):
        assert (await client.put("/users/ann@example.com", json={field: value})).status_code in (400, 403)
    await api.as_admin.patch("/users/ann@example.com", json={field: value})
    shown = (await api.as_ann.get("/userinfo")).json()
    assert (shown["is_admin"], shown["groups"]) == (False, ["dba"])


async def test_the_same_idempotency_key_of_another_user_replays_nothing(api: Api) -> None:
    headers = {"Idempotency-Key": "guessed"}
    await api.as_admin.post("/api-keys", json={"name": "mine"}, headers=headers)
    answer = await api.as_auditor.post("/api-keys", json={"name": "mine"}, headers=headers)
    message(answer, 403)
    assert "Idempotency-Replayed" not in answer.headers
