"""Agents over the API."""

from __future__ import annotations

import json
from datetime import timedelta

from tests.api.conftest import Api, message

from postern.domain.secret import Secret
from postern.domain.targets.agent import AgentKey


async def test_an_agent_is_made_with_a_key_that_is_shown_once(api: Api) -> None:
    answer = await api.as_admin.post("/agents", json={"name": "edge"})
    assert answer.status_code == 201, answer.text
    made = answer.json()
    key = AgentKey.read(Secret(made.pop("key")))
    assert (made["name"], made["mode"], made["status"]) == ("edge", "standard", "DISCONNECTED")
    assert key.name == "edge"
    assert (await api.as_admin.get("/agents/edge")).json() == made
    logged = json.dumps((await api.as_admin.get("/audit/logs")).json())
    assert key.secret.reveal() not in logged


async def test_an_answer_is_sent_again_for_the_same_idempotency_key(api: Api) -> None:
    headers = {"Idempotency-Key": "once"}
    first = await api.as_admin.post("/agents", json={"name": "edge"}, headers=headers)
    again = await api.as_admin.post("/agents", json={"name": "edge"}, headers=headers)
    assert again.json()["key"] == first.json()["key"]
    renewed = await api.as_admin.post("/agents/edge/key", headers={"Idempotency-Key": "twice"})
    assert renewed.json()["key"] != first.json()["key"]
    assert (await api.as_admin.post("/agents/edge/key", headers={"Idempotency-Key": "twice"})).json() == renewed.json()


async def test_wrong_requests_say_what_is_wrong(api: Api) -> None:
    await api.as_admin.post("/agents", json={"name": "edge"})
    await api.make_connection()
    assert message(await api.as_admin.post("/agents", json={"name": "edge"}), 409).startswith("name: ")
    assert message(await api.as_admin.post("/agents", json={"name": "e"}), 422).startswith("name: ")
    assert message(await api.as_admin.post("/agents", json={"name": "x-1", "mode": "other"}), 400).startswith("mode: ")
    assert message(await api.as_admin.post("/agents", json={"name": "x-1", "mode": "gateway"}), 422)
    assert "gateway's built-in agent" in message(await api.as_admin.delete("/agents/embedded"), 422)
    assert message(await api.as_admin.get("/agents?status=AWAY"), 422)
    made = (await api.as_admin.get("/agents/edge")).json()
    await api.as_admin.patch("/connections/shop", json={"agent_id": made["id"]})
    assert "serves 1 connection: shop" in message(await api.as_admin.delete("/agents/edge"), 409)


async def test_everybody_sees_names_and_who_runs_the_place_sees_facts(api: Api) -> None:
    await api.as_admin.post("/agents", json={"name": "edge"})
    agent = await api.services.agent_keys.get(api.users["admin"], "edge")
    await api.services.agents.store_facts(agent, {"hostname": "db-7.internal", "version": "0.3"})
    await api.services.agents.beat_for([agent.id])
    shown = (await api.as_bob.get("/agents?status=CONNECTED&search=ED")).json()["data"]
    assert [one["name"] for one in shown] == ["edge", "embedded"]
    assert (shown[0]["status"], shown[0]["hostname"], shown[0]["version"]) == ("CONNECTED", None, None)
    for client in (api.as_admin, api.as_auditor):
        found = (await client.get("/agents/edge")).json()
        assert (found["hostname"], found["version"]) == ("db-7.internal", "0.3")


async def test_what_was_done_is_in_the_audit_log(api: Api) -> None:
    api.world.clock.tick = timedelta(milliseconds=1)
    await api.as_admin.post("/agents", json={"name": "edge"})
    await api.as_admin.post("/agents/edge/key")
    await api.as_admin.delete("/agents/edge")
    entries = (await api.as_admin.get("/audit/logs?resource_type=agents")).json()["data"]
    assert [(one["action"], one["resource"]) for one in entries] == [
        ("delete", "edge"),
        ("renew-key", "edge"),
        ("create", "edge"),
    ]
