"""Guardrails over HTTP (spec 2.5, 4.6)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.api.conftest import Api, message

from postern.store.ports.common_ports import Topic


async def test_a_guardrail_reads_back_in_full(api: Api) -> None:
    connection = await api.make_connection()
    body = {
        "name": "no destructive statements",
        "description": "for all",
        "connection_ids": [connection["id"]],
        "input": {"rules": [{"type": "pattern_match", "words": [], "pattern_regex": "(?i)drop", "name": "drop"}]},
        "enabled": False,
        "output": {"rules": [{"type": "deny_words_list", "words": ["secret"], "pattern_regex": "", "name": None}]},
    }
    made = await api.as_admin.post("/guardrails", json=body)
    assert made.status_code == 201
    shown = made.json()
    at = "2026-01-02T03:04:05Z"
    assert shown == body | {"id": shown["id"], "managed_by": None, "created_at": at, "updated_at": at}
    assert (await api.as_auditor.get("/guardrails")).json()["data"] == [shown]
    assert (await api.as_auditor.get(f"/guardrails/{shown['id']}")).json() == shown
    api.world.clock.forward(seconds=1)
    put = await api.as_admin.put(f"/guardrails/{shown['id']}", json=shown | {"name": "renamed"})
    assert put.status_code == 200
    assert put.json() == shown | {"name": "renamed", "updated_at": "2026-01-02T03:04:06Z"}
    assert (await api.as_admin.delete(f"/guardrails/{shown['id']}?force=true")).status_code == 204
    message(await api.as_admin.get(f"/guardrails/{shown['id']}"), 404)


async def test_one_association_seen_from_both_sides(api: Api) -> None:
    one, two = await api.make_guardrail("one"), await api.make_guardrail("two")
    shop = await api.make_connection("shop", guardrail_rules=[one["id"]])
    desk = await api.make_connection("desk")
    path = f"/guardrails/{one['id']}"
    assert (await api.as_admin.get(path)).json()["connection_ids"] == [shop["id"]]
    await api.as_admin.put(path, json={"name": "one", "connection_ids": [desk["id"]]})
    assert (await api.as_admin.get("/connections/shop")).json()["guardrail_rules"] == []
    assert (await api.as_admin.get("/connections/desk")).json()["guardrail_rules"] == [one["id"]]
    await api.as_admin.patch("/connections/desk", json={"guardrail_rules": [two["id"]]})
    assert (await api.as_admin.get(path)).json()["connection_ids"] == []
    assert (await api.as_admin.get(f"/guardrails/{two['id']}")).json()["connection_ids"] == [desk["id"]]


async def test_leaving_connections_out_keeps_them(api: Api) -> None:
    guardrail = await api.make_guardrail()
    shop = await api.make_connection(guardrail_rules=[guardrail["id"]])
    put = await api.as_admin.put(f"/guardrails/{guardrail['id']}", json={"name": "no drops"})
    assert put.json()["connection_ids"] == [shop["id"]]
    assert put.json()["input"] == {"rules": []}


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"name": None}, 400, "name: "),
        ({"input": []}, 400, "input: must be a JSON object"),
        ({"input": {}}, 400, "input.rules: is required"),
        ({"input": {"rules": [{"words": ["x"]}]}}, 400, "input.rules.0.type: is required"),
        ({"input": {"rules": [{"type": "newer", "words": ["x"]}]}}, 400, "input.rules.0.type: "),
        ({"output": {"rules": [{"type": "deny_words_list", "words": [1]}]}}, 400, "output.rules.0.words.0: "),
        (
            {"input": {"rules": [{"type": "deny_words_list", "words": ["x"], "a": 1}]}},
            400,
            "input.rules.0.a: unknown field",
        ),
        ({"name": " "}, 422, "name: "),
        ({"name": "care "}, 422, "name: "),
        ({"name": "a\x7fb"}, 422, "name: "),
        ({"input": {"rules": [{"type": "deny_words_list", "words": ["x"]}] * 101}}, 422, "input.rules: 101 rules"),
        ({"input": {"rules": [{"type": "deny_words_list", "words": ["x"] * 1001}]}}, 422, "input.rules[0].words: at"),
        ({"input": {"rules": [{"type": "deny_words_list", "words": ["x" * 1001]}]}}, 422, "input.rules[0].words: at"),
        ({"input": {"rules": [{"type": "deny_words_list", "words": ["x" * 999] * 101}]}}, 422, "input.rules: words"),
        ({"output": {"rules": [{"type": "pattern_match", "pattern_regex": "x" * 10_001}]}}, 422, "output.rules[0].pat"),
        ({"input": {"rules": [{"type": "read_only", "unknown": "maybe"}]}}, 400, "input.rules.0.unknown: "),
        ({"input": {"rules": [{"type": "deny_statements", "effects": ["burn"]}]}}, 400, "input.rules.0.effects.0: "),
        ({"input": {"rules": [{"type": "read_only", "action": "burn"}]}}, 400, "input.rules.0.action: "),
        ({"rules": []}, 400, "rules: unknown field"),
        ({"name": "x" * 129}, 422, "name: "),
        ({"input": {"rules": [{"type": "deny_words_list"}]}}, 422, "input.rules[0].words: "),
        ({"input": {"rules": [{"type": "pattern_match"}]}}, 422, "input.rules[0].pattern_regex: must not be empty"),
        (
            {"output": {"rules": [{"type": "pattern_match", "pattern_regex": "("}]}},
            422,
            "output.rules[0].pattern_regex",
        ),
        ({"connection_ids": [str(uuid4())]}, 422, "connection_ids: there is no connection"),
        ({"connection_ids": ["shop"]}, 422, "connection_ids: there is no connection with id 'shop'"),
    ],
)
async def test_what_is_wrong_is_named(api: Api, changes: dict[str, Any], status: int, says: str) -> None:
    answer = await api.as_admin.post("/guardrails", json={"name": "rule"} | changes)
    assert message(answer, status).startswith(says)


async def test_workers_hear_of_old_and_new_connections(api: Api) -> None:
    one, two = await api.make_connection("one"), await api.make_connection("two")
    guardrail = await api.make_guardrail(connection_ids=[one["id"]])
    api.world.signals.heard.clear()
    await api.as_admin.put(f"/guardrails/{guardrail['id']}", json={"name": "x", "connection_ids": [two["id"]]})
    told = {payload["connection_id"] for payload in api.world.signals.of(Topic.POLICY_CHANGED)}
    assert told == {one["id"], two["id"]}
    api.world.signals.heard.clear()
    await api.as_admin.delete(f"/guardrails/{guardrail['id']}?force=true")
    assert api.world.signals.of(Topic.POLICY_CHANGED) == [{"connection_id": two["id"], "org_id": str(api.world.org_id)}]


STATEMENT_RULE = {
    "type": "deny_statements",
    "words": [],
    "pattern_regex": "",
    "name": "no ddl",
    "action": "warn",
    "effects": ["ddl", "grant"],
    "objects": ["pay.*", "raise()"],
    "unknown": "allow",
    "allow_functions": ["app.total()"],
    "message": "Mind the schema.",
}


async def test_rules_about_statements_read_back_in_full(api: Api) -> None:
    most: dict[str, Any] = {"type": "max_rows", "words": [], "pattern_regex": "", "name": None, "most": 10}
    made = await api.as_admin.post(
        "/guardrails",
        json={"name": "care", "input": {"rules": [STATEMENT_RULE]}, "output": {"rules": [most]}},
    )
    assert made.status_code == 201, made.text
    shown = (await api.as_admin.get(f"/guardrails/{made.json()['id']}")).json()
    assert shown["input"]["rules"] == [STATEMENT_RULE]
    assert shown["output"]["rules"] == [most]


@pytest.mark.parametrize(
    ("where", "rule", "what"),
    [
        ("input", {"type": "deny_statements"}, "needs effects, objects"),
        ("input", {"type": "deny_statements", "objects": ["a.*.c"]}, "schema.table"),
        ("input", {"type": "deny_statements", "objects": ["*"]}, "schema.table"),
        ("input", {"type": "deny_statements", "objects": ["f(int)"]}, "schema.table"),
        ("input", {"type": "read_only", "allow_functions": ["total"]}, "schema.f()"),
        ("input", {"type": "read_only", "effects": ["read"]}, "effects: must be left out"),
        ("input", {"type": "max_rows", "most": 1}, "output.rules"),
        ("output", {"type": "max_rows"}, "from 1 to"),
        ("output", {"type": "max_rows", "most": 1, "action": "warn"}, "only deny"),
        ("output", {"type": "read_only"}, "input.rules"),
        ("input", {"type": "deny_words_list", "words": ["x"], "action": "mask"}, "mask is for output"),
        ("output", {"type": "deny_words_list", "words": ["x"], "action": "review"}, "cannot wait"),
        ("input", {"type": "pattern_match", "pattern_regex": "x", "words": ["x"]}, "words: must be left out"),
        ("input", {"type": "pattern_match", "pattern_regex": "x", "message": "a\nb"}, "message"),
    ],
)
async def test_a_rule_that_would_do_nothing_or_cannot_hold_is_refused(
    api: Api, where: str, rule: dict[str, Any], what: str
) -> None:
    answer = await api.as_admin.post("/guardrails", json={"name": "care", where: {"rules": [rule]}})
    assert what in message(answer, 422)


async def test_rules_that_need_a_parser_are_kept_from_connections_without_one(api: Api) -> None:
    body = {"name": "care", "input": {"rules": [{"type": "read_only"}]}}
    made = (await api.as_admin.post("/guardrails", json=body)).json()
    shell = await api.make_connection("shell", type="custom", subtype="", command=["bash"])
    put = await api.as_admin.put(f"/guardrails/{made['id']}", json=body | {"connection_ids": [shell["id"]]})
    assert "no parser" in message(put, 422)
    patched = await api.as_admin.patch("/connections/shell", json={"guardrail_rules": [made["id"]]})
    assert "no parser" in message(patched, 422)
    shop = await api.make_connection("shop", guardrail_rules=[made["id"]])
    assert shop["guardrail_rules"] == [made["id"]]


async def test_a_draft_is_tried_on_a_text(api: Api) -> None:
    rules: list[dict[str, Any]] = [
        {"type": "require_where", "name": "where"},
        {"type": "deny_words_list", "words": ["orders"], "name": "word", "action": "warn"},
        {"type": "read_only", "name": "read", "action": "warn"},
    ]
    body = {"text": "delete from shop.orders", "guardrail": {"input": {"rules": rules}}}
    found = (await api.as_auditor.post("/guardrails/test", json=body)).json()
    assert found["outcome"] == "deny"
    assert found["message"] == 'blocked by guardrail "draft" (rule "where"): DELETE has no condition'
    assert found["statements"] == [
        {"tag": "DELETE", "effects": ["write"], "objects": ["shop.orders"], "without_where": True, "reason": ""}
    ]
    hits = {hit["rule"]: hit for hit in found["hits"]}
    assert hits["word"]["spans"] == [[17, 23]]
    assert hits["read"]["reason"] == "DELETE (write)"
    harmless = (await api.as_auditor.post("/guardrails/test", json=body | {"text": "select 1"})).json()
    assert (harmless["outcome"], harmless["hits"]) == ("allow", [])
    output = {"direction": "output", "text": "ä x", "guardrail": {"output": {"rules": [rules[1] | {"words": ["x"]}]}}}
    assert (await api.as_admin.post("/guardrails/test", json=output)).json()["hits"][0]["spans"] == [[2, 3]]
    assert "dialect" in message(await api.as_admin.post("/guardrails/test", json=body | {"dialect": "pg"}), 422)
    assert "no parser" in message(await api.as_admin.post("/guardrails/test", json=body | {"dialect": ""}), 422)
    message(await api.as_bob.post("/guardrails/test", json=body), 403)


async def test_every_preset_can_be_saved_as_it_is(api: Api) -> None:
    presets = (await api.as_admin.get("/guardrails/presets")).json()
    assert {"read-only", "unsafe-writes", "destructive-ddl", "privilege-changes"} <= {one["name"] for one in presets}
    for one in presets:
        made = await api.as_admin.post(
            "/guardrails", json={"name": one["name"], "input": one["input"], "output": one["output"]}
        )
        assert made.status_code == 201, made.text


async def test_one_that_is_in_use_does_not_vanish_in_silence(api: Api) -> None:
    shop = await api.make_connection("shop")
    guardrail = await api.make_guardrail(connection_ids=[shop["id"]])
    path = f"/guardrails/{guardrail['id']}"
    said = message(await api.as_admin.delete(path), 409)
    assert "applies to shop" in said
    assert "force=true" in said
    assert (await api.as_admin.get(path)).status_code == 200
    assert (await api.as_admin.delete(path, params={"force": "true"})).status_code == 204
    assert (await api.as_admin.get("/connections/shop")).json()["guardrail_rules"] == []
    free = await api.make_guardrail("free")
    assert (await api.as_admin.delete(f"/guardrails/{free['id']}")).status_code == 204


async def test_on_a_shell_it_is_said_that_rules_are_advisory(api: Api) -> None:
    shell = await api.make_connection("shell", type="custom", subtype="", command=["bash"])
    assert shell["guardrails_advisory"] is False
    rules = {"rules": [{"type": "deny_words_list", "words": ["rm -rf"]}]}
    body: dict[str, Any] = {"name": "care", "connection_ids": [shell["id"]], "input": rules}
    made = (await api.as_admin.post("/guardrails", json=body)).json()
    assert "advisory on shell" in made["notices"][0]
    path = f"/guardrails/{made['id']}"
    assert (await api.as_admin.get(path)).json() == made
    assert (await api.as_admin.put(path, json=made)).json()["notices"] == made["notices"], "it reads back as it is"
    assert (await api.as_admin.get("/connections/shell")).json()["guardrails_advisory"] is True
    assert "notices" not in (await api.as_admin.get("/guardrails")).json()["data"][0]
    only_output = (await api.as_admin.put(path, json=body | {"input": None, "output": rules})).json()
    [notice] = only_output["notices"]
    assert "output rules on shell" in notice
    assert "base64" in notice
    shop = await api.make_connection("shop", guardrail_rules=[made["id"]])
    assert shop["guardrails_advisory"] is False


async def test_the_organisation_says_how_to_ask(api: Api) -> None:
    said = "Ask in #access, or at https://access.example.com"
    shown = await api.as_admin.put("/orgs/self", json={"access_help": said})
    assert shown.json()["access_help"] == said
    assert {"org_id": shown.json()["id"]} in api.world.signals.of(Topic.POLICY_CHANGED)
    assert (await api.as_ann.get("/orgs/self")).json()["access_help"] == said
    for wrong in ("x" * 301, "a\nb", "\x1b[2J"):
        assert "access_help" in message(await api.as_admin.put("/orgs/self", json={"access_help": wrong}), 422)
    message(await api.as_ann.put("/orgs/self", json={"access_help": ""}), 403)


async def test_the_spec_s_shape_exactly(api: Api) -> None:
    """Section 2.5: the fields, which of them may be left out or null, and what a rule answers."""
    made = (await api.as_admin.post("/guardrails", json={"name": "bare"})).json()
    assert list(made) == [
        *(
            "id",
            "name",
            "managed_by",
            "description",
            "connection_ids",
            "input",
            "output",
            "created_at",
            "updated_at",
            "enabled",
        ),
    ]
    assert (made["description"], made["input"], made["output"]) == ("", {"rules": []}, {"rules": []})
    nulls = {"name": "nulls", "description": None, "connection_ids": None, "input": None, "output": None}
    assert (await api.as_admin.post("/guardrails", json=nulls)).status_code == 201
    rules = [
        {"type": "deny_words_list", "words": ["x"], "pattern_regex": "", "name": "words"},
        {"type": "deny_words_list", "words": ["x"], "pattern_regex": None},
        {"type": "pattern_match", "words": None, "pattern_regex": "x"},
        {"type": "pattern_match", "words": [], "pattern_regex": "x"},
    ]
    body = {"name": "both", "input": {"rules": rules}, "output": {"rules": rules}}
    both = (await api.as_admin.post("/guardrails", json=body)).json()
    plain = [
        {"type": "deny_words_list", "words": ["x"], "pattern_regex": "", "name": "words"},
        {"type": "deny_words_list", "words": ["x"], "pattern_regex": "", "name": None},
        {"type": "pattern_match", "words": [], "pattern_regex": "x", "name": None},
        {"type": "pattern_match", "words": [], "pattern_regex": "x", "name": None},
    ]
    assert both["input"]["rules"] == plain
    assert both["output"]["rules"] == plain
    put = await api.as_admin.put(f"/guardrails/{both['id']}", json=both)
    assert (put.status_code, put.json()) == (200, both)


async def test_list_is_filtered_by_connection(api: Api) -> None:
    shop = await api.make_connection("shop")
    for number in range(3):
        await api.make_guardrail(f"rule {number}", connection_ids=[shop["id"]] if number else [])
    for given in ("shop", shop["id"]):
        found = (await api.as_admin.get("/guardrails", params={"connection": given})).json()
        assert ([one["name"] for one in found["data"]], found["total"]) == (["rule 1", "rule 2"], 2)
    assert (await api.as_admin.get("/guardrails", params={"connection": "nowhere"})).json()["data"] == []


_RULE = '{"type": "max_rows", "most": %s}'
_HOSTILE = [
    *(
        '{"name": "x", "output": {"rules": [' + _RULE % most + "]}}"
        for most in ("0", "-1", "1" + "0" * 30, "1e3", "null")
    ),
    *(f'{{"name": {name}}}' for name in ("null", "1", "[]", "{}", r'"a\u0000b"', r'"\ud800"')),
    '{"name": "x", "connection_ids": [null]}',
    '{"name": "x", "input": {"rules": null}}',
    '{"name": "x", "input": [[]]}',
    '{"name": "x", "input": ' + "[" * 100_000 + "]" * 100_000 + "}",
    '{"name": "x", "input": ' + '{"rules": [' * 5_000 + "]}" * 5_000 + "}",
    '{"name": "x", "input": {"rules": [{"type": "pattern_match", "pattern_regex": "' + "a" * 10_000_000 + '"}]}}',
    '{"name": "x", "input": {"rules": [' + ",".join([_RULE % 1] * 101) + "]}}",
    '{"name": "x", "input": {"rules": [{"type": "pattern_match", "pattern_regex": "\\ud800"}]}}',
    "[]",
    "null",
    "\0",
]


@pytest.mark.parametrize("path", ["/guardrails", "/guardrails/test", "/guardrails/simulate"])
@pytest.mark.parametrize("body", _HOSTILE, ids=range(len(_HOSTILE)))
async def test_attack_bodies_that_nobody_should_write(api: Api, path: str, body: str) -> None:
    """Each is refused for its own fault; none is an error of the server."""
    if path != "/guardrails":
        body = '{"text": "x", "guardrail": ' + body + "}" if path.endswith("test") else '{"guardrail": ' + body + "}"
    answer = await api.as_admin.post(path, content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text[:300]
    assert len(answer.content) < 10_000


async def test_a_name_that_is_said_twice_is_the_last_one(api: Api) -> None:
    body = '{"name": "one", "name": "two", "input": {"rules": []}}'
    answer = await api.as_admin.post("/guardrails", content=body, headers={"content-type": "application/json"})
    assert answer.json()["name"] == "two"
