"""Masking rules over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.api.conftest import Api, message

from postern.store.ports.common_ports import Topic

RULE: dict[str, Any] = {
    "name": "customer data",
    "description": "for all",
    "supported_entity_types": [{"name": "CONTACT", "entity_types": ["EMAIL_ADDRESS", "PHONE_NUMBER"]}],
    "custom_entity_types": [
        {"name": "BADGE", "regex": "B-[0-9]{6}", "deny_list": None, "score": 0.9},
        {"name": "PROJECT", "regex": None, "deny_list": ["bluebird"], "score": 0.7},
    ],
    "columns": ["users.*name", "tag:secret"],
    "score_threshold": 0.6,
    "strategy": "hash",
    "strictness": "best_effort",
}


async def test_a_masking_rule_reads_back_in_full(api: Api) -> None:
    connection = await api.make_connection()
    body = RULE | {"connection_ids": [connection["id"]]}
    made = await api.as_admin.post("/datamasking-rules", json=body)
    assert made.status_code == 201, made.text
    shown = made.json()
    at = "2026-01-02T03:04:05Z"
    assert shown == body | {"id": shown["id"], "managed_by": None, "created_at": at, "updated_at": at}
    assert (await api.as_auditor.get("/datamasking-rules")).json()["data"] == [shown]
    path = f"/datamasking-rules/{shown['id']}"
    assert (await api.as_auditor.get(path)).json() == shown
    api.world.clock.forward(seconds=1)
    put = await api.as_admin.put(path, json=shown | {"name": "renamed"})
    assert put.status_code == 200, put.text
    assert put.json() == shown | {"name": "renamed", "updated_at": "2026-01-02T03:04:06Z"}
    assert "applies to shop" in message(await api.as_admin.delete(path), 409)
    assert (await api.as_admin.delete(path, params={"force": "true"})).status_code == 204
    message(await api.as_admin.get(path), 404)


async def test_leaving_connections_out_keeps_them_and_the_rest_is_replaced(api: Api) -> None:
    connection = await api.make_connection()
    rule = await api.make_masking_rule(**{**RULE, "connection_ids": [connection["id"]]})
    put = await api.as_admin.put(f"/datamasking-rules/{rule['id']}", json={"name": "less", "columns": ["email"]})
    assert put.json()["connection_ids"] == [connection["id"]]
    assert put.json()["supported_entity_types"] == put.json()["custom_entity_types"] == []
    assert (put.json()["score_threshold"], put.json()["strategy"], put.json()["strictness"]) == (
        0.5,
        "replace",
        "strict",
    )


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"name": " "}, 422, "name: "),
        ({"strategy": "shred"}, 400, "strategy: "),
        ({"strictness": "mild"}, 400, "strictness: "),
        ({"columns": [], "custom_entity_types": [], "supported_entity_types": []}, 422, "would mask nothing"),
        ({"columns": [".".join("a" * 17)]}, 422, "columns: 'a.a.a"),
        ({"columns": ["users."]}, 422, "columns: 'users.'"),
        ({"columns": ["tag:"]}, 422, "columns: 'tag:'"),
        ({"columns": ["x" * 257]}, 422, "at most 256"),
        ({"columns": ["x"] * 501}, 422, "columns: 501 given, at most 500"),
        ({"score_threshold": 1.1}, 422, "score_threshold: "),
        ({"score_threshold": -0.1}, 422, "score_threshold: "),
        ({"supported_entity_types": [{"name": "X", "entity_types": ["SHOE_SIZE"]}]}, 422, "'SHOE_SIZE' is not known"),
        ({"supported_entity_types": [{"name": "X", "entity_types": ["PERSON"]}]}, 422, "needs a language model"),
        ({"supported_entity_types": [{"name": "x", "entity_types": []}]}, 422, "must be 1 to 64 capital letters"),
        ({"custom_entity_types": [{"name": "badge", "regex": "x"}]}, 422, "must be 1 to 64 capital letters"),
        ({"custom_entity_types": [{"name": "US_SSN", "regex": "x"}]}, 422, "is already in use by another type"),
        ({"custom_entity_types": [{"name": "A", "regex": "x"}, {"name": "A", "regex": "y"}]}, 422, "already in use"),
        ({"custom_entity_types": [{"name": "A", "regex": "("}]}, 422, "regex: does not compile"),
        ({"custom_entity_types": [{"name": "A"}]}, 422, "needs either regex or deny_list"),
        ({"custom_entity_types": [{"name": "A", "regex": "x", "deny_list": ["y"]}]}, 422, "needs either"),
        ({"custom_entity_types": [{"name": "A", "deny_list": [" "]}]}, 422, "not contain empty words"),
        ({"custom_entity_types": [{"name": "A", "regex": "x", "score": 2.0}]}, 422, "score: must be from 0 to 1"),
        ({"custom_entity_types": [{"name": "A", "regex": "x" * 10_001}]}, 422, "longer than 10000"),
        ({"connection_ids": [str(uuid4())]}, 422, "there is no connection"),
        ({"connection_ids": ["shop"]}, 422, "there is no connection"),
    ],
)
async def test_a_rule_that_could_not_be_enforced_is_not_saved(
    api: Api, changes: dict[str, Any], status: int, says: str
) -> None:
    answer = await api.as_admin.post("/datamasking-rules", json=RULE | changes)
    assert says in message(answer, status)
    assert (await api.as_admin.get("/datamasking-rules")).json()["data"] == []


async def test_what_a_program_prints_has_no_columns(api: Api) -> None:
    made = {"type": "custom", "subtype": "", "command": ["bash"], "secret": {}}
    shell = await api.make_connection("shell", **made)
    body = {"name": "x", "columns": ["email"], "connection_ids": [shell["id"]]}
    assert "has no columns" in message(await api.as_admin.post("/datamasking-rules", json=body), 422)
    types = {"supported_entity_types": [{"name": "CONTACT", "entity_types": ["EMAIL_ADDRESS"]}]}
    assert (await api.as_admin.post("/datamasking-rules", json=body | types)).status_code == 201


async def test_live_sessions_hear_of_every_change(api: Api) -> None:
    one, two = await api.make_connection("one"), await api.make_connection("two")
    told: list[str] = []
    api.world.signals.subscribe(Topic.POLICY_CHANGED, lambda payload: told.append(payload["connection_id"]))
    rule = await api.make_masking_rule(connection_ids=[one["id"]])
    assert told == [one["id"]]
    told.clear()
    path = f"/datamasking-rules/{rule['id']}"
    await api.as_admin.put(path, json={"name": "x", "columns": ["email"], "connection_ids": [two["id"]]})
    assert set(told) == {one["id"], two["id"]}
    told.clear()
    await api.as_admin.delete(path, params={"force": "true"})
    assert told == [two["id"]]


async def test_a_rule_is_tried_on_texts_and_rows(api: Api) -> None:
    rule = {
        "name": "draft",
        "supported_entity_types": [{"name": "CONTACT", "entity_types": ["EMAIL_ADDRESS"]}],
        "custom_entity_types": [{"name": "BADGE", "regex": "B-[0-9]{6}"}],
        "columns": ["users.*name"],
        "strategy": "partial",
    }
    body = {
        "rule": rule,
        "texts": ["ask ann@example.com for B-123456", "nothing"],
        "columns": ["id", "users.last_name", "orders.name"],
        "rows": [["1", "Lovelace", "Analytical engine"], ["2", None, "ann@example.com"]],
    }
    found = await api.as_auditor.post("/datamasking-rules/test", json=body)
    assert found.status_code == 200, found.text
    assert found.json() == {
        "texts": ["ask a***@example.com for ****3456", "nothing"],
        "rows": [["1", "L****", "Analytical engine"], ["2", None, "a***@example.com"]],
        "info_types": {"EMAIL_ADDRESS": 2, "BADGE": 1, "draft": 1},
    }


async def test_samples_are_in_no_log(api: Api) -> None:
    body = {"rule": {"name": "draft", "columns": ["x"]}, "texts": ["hunter2 is my secret"]}
    assert (await api.as_admin.post("/datamasking-rules/test", json=body)).status_code == 200
    assert "hunter2" not in (await api.as_admin.get("/audit/logs")).text


async def test_samples_have_bounds(api: Api) -> None:
    rule = {"name": "draft", "columns": ["x"]}
    for body, says in (
        ({"texts": ["x"] * 101}, "at most 100 each"),
        ({"texts": ["x" * 100_001]}, "at most 100000 characters"),
        ({"columns": ["a"], "rows": [["1", "2"]]}, "as many cells as there are columns"),
    ):
        answer = await api.as_admin.post("/datamasking-rules/test", json={"rule": rule, **body})
        assert says in message(answer, 422)


async def test_list_is_filtered_by_connection(api: Api) -> None:
    shop = await api.make_connection("shop")
    for number in range(3):
        await api.make_masking_rule(f"rule {number}", connection_ids=[shop["id"]] if number else [])
    for given in ("shop", shop["id"]):
        found = (await api.as_admin.get("/datamasking-rules", params={"connection": given})).json()
        assert ([one["name"] for one in found["data"]], found["total"]) == (["rule 1", "rule 2"], 2)


async def test_information_types_have_scores_and_words(api: Api) -> None:
    types = {row["name"]: row for row in (await api.as_auditor.get("/datamasking-rules/types")).json()}
    assert types["EMAIL_ADDRESS"] == {
        "name": "EMAIL_ADDRESS",
        "scores": [0.95, 0.95],
        "words": ["email", "e mail", "mail", "mailto"],
        "by_default": True,
    }
    assert types["AGE"]["by_default"] is False
    assert "PERSON" not in types  # no language model is installed
    groups = [{"name": "ALL", "entity_types": list(types)}]
    made = await api.as_admin.post("/datamasking-rules", json={"name": "all", "supported_entity_types": groups})
    assert made.status_code == 201, made.text
