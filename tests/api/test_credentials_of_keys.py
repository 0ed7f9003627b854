"""Credentials that an API key issued to machine identities: listed when the key is revoked, and revoked with it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.api.conftest import Api, message

from postern.store.ports.common_ports import Topic


@pytest.fixture
async def key(api: Api) -> httpx.AsyncClient:
    """An administrator's key; beside it a machine identity that a person made."""
    await api.make_connection()
    made = await api.as_admin.post("/api-keys", json={"name": "ci", "groups": ["admin"]})
    body = {"name": "nightly", "connection_names": ["shop"]}
    assert (await api.as_admin.post("/machineidentities", json=body)).status_code == 201
    headers = {"Authorization": f"Bearer {made.json()['key']}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(api.app), base_url="http://localhost/api", headers=headers)


async def make(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    made = await client.post("/machineidentities", json={"name": name, "connection_names": ["shop"]})
    assert made.status_code == 201, made.text
    credential: dict[str, Any] = made.json()["credentials"][0]
    return credential


async def issued(api: Api) -> list[tuple[str, str]]:
    found = (await api.as_admin.get("/api-keys/ci/credentials")).json()
    assert found["total"] == len(found["data"])
    return sorted((one["machine_identity"], one["connection_name"]) for one in found["data"])


async def test_what_a_key_issued_is_listed_before_and_after_its_revocation(api: Api, key: httpx.AsyncClient) -> None:
    assert await issued(api) == []
    await make(key, "backup")
    assert await issued(api) == [("backup", "shop")]
    rotated = await key.post("/machineidentities/nightly/credentials/shop/rotate", json={})
    assert rotated.status_code < 300, rotated.text
    assert await issued(api) == [("backup", "shop"), ("nightly", "shop")]
    assert (await key.post("/connections/shop/credentials")).status_code == 201  # its own, which ends with it
    assert (await api.as_admin.delete("/api-keys/ci")).status_code == 204
    assert await issued(api) == [("backup", "shop"), ("nightly", "shop")]
    assert not api.world.signals.of(Topic.CREDENTIAL_REVOKED)[1:]  # the rotation's
    again = await api.as_admin.post("/machineidentities/nightly/credentials/shop/rotate", json={})
    assert again.status_code < 300
    assert await issued(api) == [("backup", "shop")]


async def test_credentials_are_revoked_with_the_key_on_request(api: Api, key: httpx.AsyncClient) -> None:
    credential = await make(key, "backup")
    revoked = await api.as_admin.delete("/api-keys/ci?revoke_credentials=true")
    assert revoked.status_code == 204
    assert await issued(api) == []
    assert {"credential_id": credential["id"]} in api.world.signals.of(Topic.CREDENTIAL_REVOKED)
    machines = {one["name"]: one for one in (await api.as_admin.get("/machineidentities")).json()["data"]}
    assert machines["backup"]["connection_names"] == []
    assert machines["nightly"]["connection_names"] == ["shop"]  # of a person
    entry = (await api.as_admin.get("/audit/logs?resource_type=api-keys&action=delete")).json()["data"][0]
    assert entry["after"]["revoked"] == [{"username": credential["username"], "machine_identity": "backup"}]


async def test_only_administrators_and_auditors_see_what_a_key_issued(api: Api, key: httpx.AsyncClient) -> None:
    await make(key, "backup")
    assert (await api.as_auditor.get("/api-keys/ci/credentials")).json()["total"] == 1
    message(await api.as_ann.get("/api-keys/ci/credentials"), 403)
    message(await api.as_admin.get("/api-keys/none/credentials"), 404)


async def test_service_account_of_a_key_has_no_way_in(api: Api, key: httpx.AsyncClient) -> None:
    assert (await key.post("/serviceaccounts", json={"subject": "robot", "status": "active"})).status_code == 201
    message(await key.post("/api-keys", json={"name": "robots", "service_account": "robot"}), 403)
