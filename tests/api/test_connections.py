"""Connections over HTTP, as spec 2.1, 4.1 and 8 have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import event, insert
from tests.api.conftest import TARGET, Api, message

from postern.domain.secret import Secret
from postern.services.rules.connection_policies import masked_types
from postern.store.ports.common_ports import Topic
from postern.store.schema.target_tables import connections
from postern.store.sql.rows import connection_values

SECRET = TARGET | {"envvar:DB": "c2hvcA==", "envvar:PASS": "_envjson:DB:password"}
SHOWN = dict.fromkeys(SECRET) | {"envvar:PASS": "_envjson:DB:password"}  # a reference is no secret

SWITCHES = {
    **dict.fromkeys(("access_forward_local", "access_forward_remote", "access_forward_agent"), "disabled"),
    "access_file_transfer": "enabled",
    **dict.fromkeys(("access_mode_web_terminal", "access_fresh_factor"), "disabled"),
}
MODES = ("access_mode_connect", "access_mode_exec", "access_mode_runbooks", "access_schema")


async def test_a_connection_made_reads_back_in_full(api: Api) -> None:
    guardrail = await api.make_guardrail()
    body = api.connection_body(
        access_max_duration=1800,
        connection_tags={"env": "prod", "team/name": "a b@c"},
        description="Orders of the shop",
        force_approve_groups=["sre"],
        guardrail_rules=[guardrail["id"]],
        redact_enabled=True,
        redact_types=["EMAIL_ADDRESS"],
        resource_name="warehouse",
        reviewers=["security"],
        secret=SECRET,
        tags=["old"],
    )
    made = await api.as_admin.post("/connections", json=body)
    assert made.status_code == 201
    shown = made.json()
    assert shown == body | SWITCHES | {
        "id": shown["id"],
        "command": [],
        "tracker_issue_template_id": None,
        "guardrails_advisory": False,
        "managed_by": None,
        "status": "online",
        "agent_name": api.agent.name,
        "target": {"HOST": "db.example", "PORT": "5432", "USER": "app", "DB": "shop"},
        "target_status": "untested",
        "last_test": None,
        "default_database": "shop",
        "secret": SHOWN,
        "url": None,
        "warnings": [],
    }
    again = await api.as_admin.put("/connections/shop", json=shown | {"secret": None})
    assert again.json() == shown, "what an answer said is a valid request"
    for key in ("shop", shown["id"]):
        assert (await api.as_admin.get(f"/connections/{key}")).json() == shown
    listed = shown | {"access": None, "activity": None}
    assert (await api.as_admin.get("/connections")).json() == {
        "data": [listed],
        "total": 1,
        "has_next_page": False,
        "facets": None,
    }
    assert (await api.as_ann.get("/connections/shop")).json() == shown | {"secret": {}, "target": {}}
    api.world.clock.forward(seconds=16)
    assert (await api.as_ann.get("/connections/shop")).json()["status"] == "offline"


async def test_connection_types_name_the_keys_that_a_connection_needs(api: Api) -> None:
    kinds = (await api.as_bob.get("/connection-types")).json()
    postgres = kinds[[kind["subtype"] for kind in kinds].index("postgres")]
    assert (postgres["title"], postgres["type"], postgres["port"]) == ("PostgreSQL", "database", 5432)
    assert {key["name"] for key in postgres["keys"] if key["is_private"]} == {"PASS", "SSLROOTCERT"}
    for number, kind in enumerate(kinds):
        required = {key["name"]: key["is_private"] for key in kind["keys"] if key["is_required"]}
        made = await api.make_connection(
            f"of-type-{number}",
            type=kind["type"],
            subtype=kind["subtype"],
            secret={f"envvar:{name}": "eA==" for name in required},
            command=[] if kind["has_protocol"] else ["cat"],
        )
        assert {name for name in required if name not in made["target"]} == {
            name for name, is_private in required.items() if is_private
        }


@pytest.mark.parametrize("field", ["name", "type", "agent_id", *MODES])
async def test_each_required_field_is_required(api: Api, field: str) -> None:
    body = api.connection_body()
    del body[field]
    assert message(await api.as_admin.post("/connections", json=body), 400) == f"{field}: is required"
    await api.make_connection()
    assert message(await api.as_admin.put("/connections/shop", json=body), 400) == f"{field}: is required"


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"type": "table"}, 400, "type: "),
        ({"access_mode_exec": "on"}, 400, "access_mode_exec: "),
        ({"access_mode_exec": True}, 400, "access_mode_exec: "),
        ({"agent_id": "one"}, 400, "agent_id: "),
        ({"access_max_duration": "60"}, 400, "access_max_duration: "),
        ({"redact_enabled": "yes"}, 400, "redact_enabled: "),
        ({"command": "psql"}, 400, "command: "),
        ({"connection_tags": {"a": 1}}, 400, "connection_tags.a: "),
        ({"redact_type": ["EMAIL_ADDRESS"]}, 400, "redact_type: unknown field"),
        ({"resource_name": "a\0b"}, 400, "resource_name: contains a NUL"),
        ({"name": "a"}, 422, "name: "),
        ({"name": "two words"}, 422, "name: "),
        ({"name": str(uuid4())}, 422, "name: must not look like an identifier"),
        ({"subtype": "cobol"}, 422, "subtype: 'cobol' is not one of mongodb"),
        ({"type": "application", "subtype": "postgres"}, 422, "subtype: "),
        ({"agent_id": str(uuid4())}, 422, "agent_id: there is no agent"),
        ({"guardrail_rules": [str(uuid4())]}, 422, "guardrail_rules: there is no guardrail"),
        ({"guardrail_rules": ["x"]}, 422, "guardrail_rules: there is no guardrail 'x'"),
        ({"access_max_duration": 0}, 422, "access_max_duration: "),
        ({"access_max_duration": 2**40}, 422, "access_max_duration: "),
        ({"connection_tags": {"a/": "b"}}, 422, "connection_tags: key 'a/'"),
        ({"connection_tags": {"a": "b!"}}, 422, "connection_tags: the value"),
        ({"connection_tags": {str(n): "x" for n in range(11)}}, 422, "connection_tags: 11 tags"),
        ({"secret": {"HOST": "eA=="}}, 422, "secret: key 'HOST'"),
        ({"secret": {"envvar:HOST": "not base64"}}, 422, "secret: the value"),
        ({"tags": ["x" * 129]}, 422, "tags: each must be 1 to 128"),
        ({"tags": [""]}, 422, "tags: each must be 1 to 128"),
        ({"tracker_issue_template_id": "x"}, 422, "tracker_issue_template_id: there is no issue template 'x'"),
        ({"tracker_issue_template_id": str(uuid4())}, 422, "tracker_issue_template_id: there is no issue template"),
        ({"redact_types": ["SHOE_SIZE"]}, 422, "redact_types: 'SHOE_SIZE' is not known"),
        ({"redact_types": ["PERSON_NAME"]}, 422, "redact_types: PERSON_NAME needs a language model"),
        (
            {"subtype": "mysql", "redact_enabled": True},
            422,
            "redact_enabled: cannot be enforced yet on subtype 'mysql'",
        ),
    ],
)
async def test_what_is_wrong_is_named(api: Api, changes: dict[str, Any], status: int, says: str) -> None:
    answer = await api.as_admin.post("/connections", json=api.connection_body() | changes)
    assert message(answer, status).startswith(says)
    assert (await api.as_admin.get("/connections")).json()["data"] == []


async def test_rules_on_a_subtype_without_relay_are_refused_from_both_sides(api: Api) -> None:
    guardrail = await api.make_guardrail()
    body = api.connection_body(subtype="mysql", guardrail_rules=[guardrail["id"]])
    assert "cannot be enforced yet" in message(await api.as_admin.post("/connections", json=body), 422)
    legacy = await api.make_connection("legacy", subtype="mysql")
    body = {"name": "no drops", "connection_ids": [legacy["id"]]}
    assert "cannot be enforced yet" in message(await api.as_admin.put(f"/guardrails/{guardrail['id']}", json=body), 422)


async def test_put_replaces_but_for_what_has_two_writers(api: Api) -> None:
    guardrail = await api.make_guardrail()
    made = await api.make_connection(
        secret=SECRET, guardrail_rules=[guardrail["id"]], connection_tags={"a": "b"}, redact_enabled=True
    )
    put = await api.as_admin.put(f"/connections/{made['id']}", json=api.connection_body(access_schema="disabled"))
    assert put.status_code == 200
    shown = put.json()
    assert (shown["access_schema"], shown["connection_tags"], shown["redact_enabled"]) == ("disabled", {}, False)
    assert (shown["secret"], shown["guardrail_rules"]) == (SHOWN, [guardrail["id"]])
    put = await api.as_admin.put("/connections/shop", json=api.connection_body(secret={}, guardrail_rules=[]))
    assert (put.json()["secret"], put.json()["guardrail_rules"]) == ({}, [])
    assert (await api.as_admin.get("/connections/shop")).json() == put.json()


async def test_only_what_is_required_is_enough(api: Api) -> None:
    body = api.connection_body()
    del body["subtype"]
    made = await api.as_admin.post("/connections", json=body)
    assert (made.status_code, made.json()["subtype"]) == (201, "")
    assert "cannot be used yet" in message(await api.as_ann.post("/connections/shop/credentials"), 422)
    changed = await api.as_admin.patch("/connections/shop", json={"subtype": "postgres"})
    assert changed.json()["subtype"] == "postgres"
    kept = await api.as_admin.put("/connections/shop", json=body)
    assert (kept.status_code, kept.json()["subtype"]) == (200, "postgres")
    body["type"] = "custom"
    assert message(await api.as_admin.put("/connections/shop", json=body), 422).startswith("subtype: 'postgres'")


async def test_an_answer_is_a_valid_request(api: Api) -> None:
    made = await api.make_connection(secret=SECRET)
    put = await api.as_admin.put("/connections/shop", json=made)
    assert put.status_code == 200
    assert put.json() == made


async def test_no_answer_holds_a_stored_secret_and_what_was_read_written_back_changes_nothing(api: Api) -> None:
    reference = "_envjson:TARGET:password"
    stored = SECRET | {"envvar:PASS": "aHVudGVyMg==", "envvar:SSLROOTCERT": reference}
    made = await api.make_connection(secret=stored)
    blank = dict.fromkeys(stored) | {"envvar:SSLROOTCERT": reference}
    answers = [await api.as_admin.get("/connections/shop"), await api.as_admin.get("/connections")]
    assert answers[0].json()["secret"] == answers[1].json()["data"][0]["secret"] == made["secret"] == blank
    answers.append(await api.as_admin.put("/connections/shop", json=answers[0].json()))
    answers.append(await api.as_admin.patch("/connections/shop", json={"secret": answers[0].json()["secret"]}))
    for answer in answers:
        assert answer.status_code == 200
        assert not any(value in answer.text for value in stored.values() if value != reference)
    assert (await api.as_ann.get("/connections/shop")).json()["secret"] == {}
    assert await stored_secret(api) == stored


async def test_a_secret_is_changed_key_by_key(api: Api) -> None:
    await api.make_connection(secret=SECRET)
    change = {"secret": {**dict.fromkeys(TARGET), "envvar:PASS": "bmV3"}}
    assert (await api.as_admin.patch("/connections/shop", json=change)).json()["secret"] == dict.fromkeys(
        [*TARGET, "envvar:PASS"]
    )
    assert await stored_secret(api) == {**TARGET, "envvar:PASS": "bmV3"}
    refused = await api.as_admin.patch("/connections/shop", json={"secret": {"envvar:DB": None}})
    assert message(refused, 422).startswith("secret: 'envvar:DB' has no stored value")
    body = api.connection_body("other", secret={"envvar:PASS": None})
    assert message(await api.as_admin.post("/connections", json=body), 422).startswith("secret: 'envvar:PASS' has no")


async def stored_secret(api: Api) -> dict[str, str]:
    found = await api.world.stores.connections.get(api.world.org_id, "shop")
    assert found is not None
    return {key: value.reveal() for key, value in found.secret.items()}


@pytest.mark.parametrize("subtype", ["postgres", "mysql", "ssh"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_command_that_would_never_run_is_refused(api: Api, subtype: str, method: str) -> None:
    kind = "application" if subtype == "ssh" else "database"
    if method != "POST":
        await api.make_connection(type=kind, subtype=subtype)
    path = "/connections" if method == "POST" else "/connections/shop"
    body = api.connection_body(type=kind, subtype=subtype, command=["psql"])
    answer = await api.as_admin.request(method, path, json=body)
    assert message(answer, 422).startswith(f"command: a connection of subtype '{subtype}' speaks")


async def test_a_subtype_that_runs_no_command_is_not_given_to_a_command(api: Api) -> None:
    await api.make_connection(subtype="", command=["psql"])
    answer = await api.as_admin.patch("/connections/shop", json={"subtype": "postgres"})
    assert message(answer, 422).startswith("command: ")
    both = {"subtype": "postgres", "command": []}
    assert (await api.as_admin.patch("/connections/shop", json=both)).json()["command"] == []


ORDERS, SHOP = "b3JkZXJz", "c2hvcA=="


@pytest.mark.parametrize(
    ("stored", "given", "expected"),
    [
        (None, {}, None),
        (None, {"default_database": "orders"}, ORDERS),
        (SHOP, {"default_database": "orders"}, ORDERS),
        (SHOP, {"default_database": "shop"}, SHOP),
        (SHOP, {"default_database": None}, SHOP),
        (SHOP, {"default_database": "orders", "secret": TARGET | {"envvar:DB": None}}, ORDERS),
        (SHOP, {"default_database": "orders", "secret": TARGET | {"envvar:DB": ORDERS}}, ORDERS),
        (SHOP, {"default_database": "orders", "secret": TARGET}, ORDERS),
        # What was read is sent back beside a new secret: the secret is what was changed.
        (SHOP, {"default_database": "shop", "secret": TARGET | {"envvar:DB": ORDERS}}, ORDERS),
        (SHOP, {"default_database": "shop", "secret": TARGET}, None),
        ("_envjson:DB:name", {"default_database": "orders"}, ORDERS),
        ("_envjson:DB:name", {}, "_envjson:DB:name"),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_default_database_is_written_to_the_secret_attribute(
    api: Api, stored: str | None, given: dict[str, Any], expected: str | None, method: str
) -> None:
    await api.make_connection(secret=TARGET | ({} if stored is None else {"envvar:DB": stored}))
    answer = await api.as_admin.request(method, "/connections/shop", json=api.connection_body() | given)
    assert answer.status_code == 200, answer.text
    assert (await stored_secret(api)).get("envvar:DB") == expected
    name = {ORDERS: "orders", SHOP: "shop"}.get(expected or "")
    assert answer.json()["default_database"] == name


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"default_database": "orders", "secret": {"envvar:DB": SHOP}},
            "default_database: the secret 'envvar:DB' names",
        ),
        ({"default_database": "two\nlines"}, "default_database: must be 1 to 128 printable"),
        ({"default_database": ""}, "default_database: must be 1 to 128 printable"),
        ({"default_database": "orders", "type": "custom", "subtype": ""}, "default_database: only connections of type"),
    ],
)
async def test_a_default_database_that_cannot_be_is_refused(api: Api, changes: dict[str, Any], says: str) -> None:
    answer = await api.as_admin.post("/connections", json=api.connection_body() | changes)
    assert message(answer, 422).startswith(says)


async def test_the_name_cannot_change(api: Api) -> None:
    await api.make_connection()
    for method in ("PUT", "PATCH"):
        answer = await api.as_admin.request(method, "/connections/shop", json=api.connection_body("other"))
        assert message(answer, 422).startswith("name: cannot be changed")


async def test_patch_changes_only_what_is_given(api: Api) -> None:
    made = await api.make_connection(secret=SECRET, connection_tags={"a": "b"})
    changes = {"access_mode_exec": "disabled", "redact_enabled": True, "command": None}
    patched = await api.as_admin.patch("/connections/shop", json=changes)
    assert patched.status_code == 200
    assert patched.json() == made | {"access_mode_exec": "disabled", "redact_enabled": True}
    assert (await api.as_admin.patch("/connections/shop", json={})).json() == patched.json()


TYPES = {"redact_types": ["EMAIL_ADDRESS"]}
OFF = {"redact_enabled": False}
ON = {"redact_enabled": True}
UNSAID = {"redact_enabled": None}


@pytest.mark.parametrize(
    ("method", "before", "given", "enabled", "warned"),
    [
        ("POST", None, {}, False, False),
        ("POST", None, TYPES, True, False),
        ("POST", None, TYPES | UNSAID, True, False),
        ("POST", None, TYPES | ON, True, False),
        ("POST", None, TYPES | OFF, False, True),
        ("POST", None, {"redact_types": []}, False, False),
        ("PUT", {}, TYPES, True, False),
        ("PUT", {}, TYPES | UNSAID, True, False),
        ("PUT", {}, TYPES | OFF, False, True),
        ("PUT", TYPES, {}, False, False),
        ("PUT", ON, TYPES, True, False),
        ("PATCH", {}, TYPES, True, False),
        ("PATCH", {}, TYPES | UNSAID, True, False),
        ("PATCH", TYPES | OFF, TYPES, True, False),
        ("PATCH", TYPES | OFF, {"tags": ["x"]}, False, True),
        ("PATCH", TYPES, OFF, False, True),
        ("PATCH", TYPES, TYPES | OFF, False, True),
        ("PATCH", TYPES | OFF, ON, True, False),
        ("PATCH", TYPES, {"redact_types": []}, True, False),
        ("PATCH", TYPES | OFF, {"redact_types": []}, False, False),
    ],
)
async def test_types_switch_masking_on_unless_the_write_disables_it(
    api: Api, method: str, before: dict[str, Any] | None, given: dict[str, Any], enabled: bool, warned: bool
) -> None:
    if before is None:
        answer = await api.as_admin.post("/connections", json=api.connection_body() | given)
    else:
        await api.make_connection(**before)
        body = given if method == "PATCH" else api.connection_body() | given
        answer = await api.as_admin.request(method, "/connections/shop", json=body)
    assert answer.status_code in (200, 201)
    found = await api.world.stores.connections.get(api.world.org_id, "shop")
    assert found is not None
    assert (found.redact_enabled, masked_types(found) != frozenset()) == (enabled, enabled)
    assert [text.partition(",")[0] for text in answer.json()["warnings"]] == ["redact_types is set"] * warned
    assert (await api.as_admin.get("/connections/shop")).json() == answer.json()


async def test_types_are_refused_where_masking_cannot_be_enforced(api: Api) -> None:
    answer = await api.as_admin.post("/connections", json=api.connection_body(subtype="mysql") | TYPES)
    assert message(answer, 422).startswith("redact_enabled: cannot be enforced")


async def test_a_connection_that_an_agent_declares_is_immutable(api: Api) -> None:
    await api.world.add_connection("managed", agent=api.agent, managed_by="agent:apps")
    for method, body in (("PUT", api.connection_body("managed")), ("PATCH", {}), ("DELETE", None)):
        answer = await api.as_admin.request(method, "/connections/managed", json=body)
        assert "managed by agent:apps" in message(answer, 400)


async def test_deleting_ends_sessions_and_credentials(api: Api) -> None:
    await api.make_connection()
    issued = await api.as_ann.post("/connections/shop/credentials")
    submitted = await api.services.sessions.submit(api.users["ann"], "shop", "select 1", source="test")
    assert (await api.as_admin.delete("/connections/shop")).status_code == 204
    assert message(await api.as_admin.get("/connections/shop"), 404) == "there is no connection 'shop'"
    assert await api.services.access.find_grant(issued.json()["username"]) is None
    assert api.world.signals.of(Topic.SESSION_KILL) == [{"session_id": str(submitted.id), "reason": "revoked"}]


async def test_every_write_tells_the_workers(api: Api) -> None:
    made = await api.make_connection()
    await api.as_admin.patch("/connections/shop", json={"redact_enabled": True})
    await api.as_admin.delete("/connections/shop")
    assert (
        api.world.signals.of(Topic.POLICY_CHANGED)
        == [{"connection_id": made["id"], "org_id": str(api.world.org_id)}] * 3
    )


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("name=shop", ["shop"]),
        ("type=application", ["gate"]),
        ("subtype=postgres", ["shop", "store"]),
        ("search=STO", ["store"]),
        ("search=%25", []),
        ("tag_selector=env=prod", ["shop"]),
        ("tag_selector=env!=prod", ["gate", "store"]),
        ("tag_selector=env!=prod,kind=x", ["store"]),
        ('tag_selector=a"b=prod', []),
        ('tag_selector=a"b!=prod', ["gate", "shop", "store"]),
        ("type=database&search=shop", ["shop"]),
        ("tag_selector=env", ["shop"]),
        ("tag_selector=!env", ["gate", "store"]),
        ("tag_selector=!env,!kind", ["gate"]),
        ("tag_selector=a%22b", []),
        ("managed_by=operator", ["gate"]),
        ("resource_name=warehouse", ["gate", "shop"]),
        ("search=WARE", ["gate", "shop"]),
        ("tags=old", ["gate", "shop"]),
        ("tags=old,a%22b", ["shop"]),
        ("tags=ol", []),
        ("tags=%5B%22old%22", []),
        ("status=online", ["gate", "shop"]),
        ("status=offline", ["store"]),
        ("search=Online", ["gate", "shop"]),
        ("search=offline", ["store"]),
        ("search=line", []),
        ("status=offline&type=application", []),
        ("connection_ids=", []),
        (f"agent_id={UUID(int=1)}", []),
        ("", ["gate", "shop", "store"]),
    ],
)
async def test_filters(api: Api, query: str, names: list[str]) -> None:
    gone = await api.world.add_agent("gone")
    await api.make_connection("shop", connection_tags={"env": "prod"}, resource_name="warehouse", tags=["old", 'a"b'])
    await api.make_connection("store", connection_tags={"kind": "x"}, agent_id=str(gone.id))
    fields = {"resource_name": "warehouse", "tags": ("old",), "managed_by": "operator"}
    await api.world.add_connection("gate", agent=api.agent, type="application", subtype="tcp", **fields)
    api.world.clock.forward(seconds=60)
    await api.world.stores.agents.mark_seen([api.agent.id], api.world.clock())
    found = (await api.as_bob.get(f"/connections?{query}&limit=1")).json()
    assert (found["total"], [one["name"] for one in found["data"]]) == (len(names), names[:1])
    found = (await api.as_bob.get(f"/connections?{query}")).json()
    assert [one["name"] for one in found["data"]] == names


async def test_connections_by_their_ids(api: Api) -> None:
    ids = [(await api.make_connection(name))["id"] for name in ("one", "two", "three")]
    found = await api.as_bob.get("/connections", params={"connection_ids": f"{ids[0]},{ids[2]},{uuid4()}"})
    assert [one["name"] for one in found.json()["data"]] == ["one", "three"]


async def test_a_thousand_connections_are_paged_by_the_store(api: Api) -> None:
    first = await api.world.add_connection("c-0000")
    copies = [replace(first, id=uuid4(), name=f"c-{number:04}") for number in range(1, 1000)]
    rows = [await connection_values(one, api.world.encryption) for one in copies]
    async with api.world.database.transaction() as transaction:
        await transaction.execute(insert(connections), rows)
    await api.as_ann.get("/connections")  # the first request reads settings that are kept
    seen: list[str] = []
    statements: list[str] = []
    engine = api.world.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    for offset in range(0, 1000, 100):
        page = (await api.as_ann.get("/connections", params={"limit": 100, "offset": offset})).json()
        assert (page["total"], page["has_next_page"]) == (1000, offset < 900)
        seen += [one["name"] for one in page["data"]]
    assert seen == [f"c-{number:04}" for number in range(1000)]
    assert len(statements) == 10 * 5  # who asks, the page, how many there are, which agents live, the last tests


async def test_bad_filters_are_named(api: Api) -> None:
    assert message(await api.as_bob.get("/connections?agent_id=x"), 422).startswith("agent_id: ")
    for selector in ("=x", "!", "!a=x", "a!!=x"):
        answer = await api.as_bob.get("/connections", params={"tag_selector": selector})
        assert message(answer, 422).startswith(f"tag_selector: {selector!r}")
    for query in ("status=up", "type=table", "connection_ids=x", f"search={'x' * 300}", f"tags={'x,' * 101}"):
        assert message(await api.as_bob.get(f"/connections?{query}"), 422).startswith(query.partition("=")[0])


async def test_patch_removes_by_null_what_there_can_be_none_of(api: Api) -> None:
    made = await api.make_connection(access_max_duration=60)
    changes = {"access_max_duration": None, "command": None}
    patched = (await api.as_admin.patch("/connections/shop", json=changes)).json()
    assert patched == made | {"access_max_duration": None}


@pytest.mark.parametrize(
    ("secret", "says"),
    [
        (
            TARGET | {"envvar:PASSWORD": "eA=="},
            "secret: a connection of subtype 'postgres' has no key 'PASSWORD' (did you",
        ),
        ({"envvar:USER": "YXBw", "envvar:PASS": "eA=="}, "secret: a connection of subtype 'postgres' needs HOST;"),
        ({"envvar:HOST": "ZGI=", "envvar:USER": ""}, "secret: a connection of subtype 'postgres' needs USER;"),
    ],
)
async def test_secret_whose_keys_the_subtype_does_not_take_is_refused(
    api: Api, secret: dict[str, str], says: str
) -> None:
    refused = await api.as_admin.post("/connections", json=api.connection_body("orders", secret=secret))
    assert message(refused, 422).startswith(says)
    await api.make_connection("shop", secret=TARGET)
    for method in (api.as_admin.patch, api.as_admin.put):
        body = {"secret": secret} if method == api.as_admin.patch else api.connection_body("shop", secret=secret)
        assert message(await method("/connections/shop", json=body), 422).startswith(says)
    assert await stored_secret(api) == TARGET


async def test_keys_are_checked_against_the_new_subtype_of_a_connection(api: Api) -> None:
    await api.make_connection(secret=TARGET | {"envvar:DB": "c2hvcA=="})
    body = api.connection_body("shop", type="application", subtype="ssh")
    assert "subtype 'ssh' has no key 'DB'" in message(await api.as_admin.put("/connections/shop", json=body), 422)


async def test_connection_of_an_earlier_version_with_unknown_keys_can_be_changed_otherwise(api: Api) -> None:
    await api.world.add_connection("shop", secret={"envvar:PASSWORD": Secret("eA==")})
    changed = await api.as_admin.patch("/connections/shop", json={"access_max_duration": 60})
    assert changed.status_code == 200, changed.text


@pytest.mark.parametrize(("alias", "stored"), [("postgresql", "postgres"), ("mariadb", "mysql")])
async def test_alias_of_a_subtype_is_stored_as_the_subtype(api: Api, alias: str, stored: str) -> None:
    assert (await api.make_connection("orders", subtype=alias, secret=TARGET))["subtype"] == stored
    listed = (await api.as_admin.get("/connections", params={"subtype": alias})).json()["data"]
    assert [one["name"] for one in listed] == ["orders"]
    patched = await api.as_admin.patch("/connections/orders", json={"subtype": alias})
    assert patched.json()["subtype"] == stored


async def test_list_expands_access_and_activity(api: Api) -> None:
    await api.make_connection(secret=TARGET, reviewers=["dba"], access_mode_exec="disabled", description="orders")
    (plain,) = (await api.as_ann.get("/connections")).json()["data"]
    assert (plain["description"], plain["access"], plain["activity"]) == ("orders", None, None)
    listed = (await api.as_ann.get("/connections", params={"expand": "access,activity", "facets": "status,tag"})).json()
    (shown,) = listed["data"]
    uses = shown["access"]["uses"]
    assert list(uses) == ["connect", "exec", "runbooks", "schema"]
    assert (shown["access"]["allowed"], uses["schema"]) == (
        True,
        {"allowed": True, "needs_review": False, "reason": ""},
    )
    assert (uses["connect"]["needs_review"], uses["exec"]["allowed"]) == (True, False)
    assert uses["exec"]["reason"] == "access mode exec is disabled on connection 'shop'; ask an administrator"
    assert shown["activity"] == {"own": {"last_used": None, "open_sessions": 0}, "all": None}
    assert listed["facets"] == {
        "status": {"values": [{"value": "online", "count": 1}], "is_cut": False},
        "tag": {"values": [], "is_cut": False},
    }
    message(await api.as_ann.get("/connections?expand=secrets"), 422)
    message(await api.as_ann.get("/connections?facets=name"), 422)


async def test_row_of_an_expanded_list_is_a_valid_request(api: Api) -> None:
    made = await api.make_connection(secret=TARGET)
    (shown,) = (await api.as_admin.get("/connections?expand=access,activity")).json()["data"]
    put = await api.as_admin.put("/connections/shop", json=shown)
    assert (put.status_code, put.json()["description"]) == (200, made["description"])
