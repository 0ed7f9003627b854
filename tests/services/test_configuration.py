"""Connections, guardrails, agents and the audit log on both engines; the details are in tests/api."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.rules.guardrail import Rule, RuleType
from postern.domain.secret import Secret
from postern.domain.targets.connection import ConnectionStatus, ConnectionType
from postern.errors import Conflict, Invalid, NotFound
from postern.services.bundle import Services
from postern.services.server.audit import redact
from postern.services.targets.connections import ConnectionFilter
from postern.store.ports.server_ports import AuditFilter
from postern.store.schema.target_tables import connections

# What a connection to a database needs in its secret: HOST db.example, USER app.
TARGET = {"envvar:HOST": Secret("ZGIuZXhhbXBsZQ=="), "envvar:USER": Secret("YXBw")}
RULE = Rule(RuleType.PATTERN_MATCH, pattern_regex="(?i)drop\\s+table", name="drop")


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("root", "admin")


async def fields(services: Services, name: str = "shop") -> dict[str, Any]:
    agent = await services.agents.ensure_embedded()
    return {"name": name, "type": ConnectionType.DATABASE, "agent_id": agent.id, "subtype": "postgres"}


async def test_a_connection_goes_through_its_life(services: Services, admin: Principal, world: World) -> None:
    given = await fields(services) | {
        "secret": TARGET | {"envvar:PASS": Secret("c2VjcmV0")},
        "connection_tags": {"env": "prod"},
        "redact_types": ("US_SSN",),
    }
    made = await services.connections.create(admin, given)
    assert await services.connections.get(admin, str(made.id)) == made
    guardrail = await services.guardrails.create(
        admin, {"name": "g", "input": (RULE,), "connection_ids": (str(made.id),)}
    )
    world.clock.forward(seconds=1)
    patched = await services.connections.update(admin, "shop", {"description": "why"})
    expected = replace(
        made, description="why", guardrail_rules=(str(guardrail.id),), updated_at=world.clock(), version=3
    )
    assert patched == expected
    assert (await services.connections.search(admin, ConnectionFilter(search="SHO"), Page())).items[
        0
    ].connection == expected
    replaced = await services.connections.replace(admin, "shop", await fields(services))
    assert (replaced.secret, replaced.connection_tags, replaced.created_at) == (made.secret, {}, made.created_at)
    assert replaced.guardrail_rules == (str(guardrail.id),)
    await services.connections.remove(admin, "shop")
    assert (await services.guardrails.find(admin, Page())).items == [replace(guardrail, connection_ids=())]
    with pytest.raises(NotFound):
        await services.connections.get(admin, "shop")


async def test_secrets_are_not_in_the_database(services: Services, admin: Principal, world: World) -> None:
    given = await fields(services) | {"secret": TARGET | {"envvar:PASS": Secret("aHVudGVyMg==")}}
    await services.connections.create(admin, given)
    async with world.database.statement() as connection:
        stored = (await connection.execute(select(connections.c.secret))).scalar_one()
    assert b"aHVudGVyMg==" not in stored
    assert b"PASS" not in stored


async def test_two_at_once_make_one(services: Services, admin: Principal) -> None:
    given = await fields(services)
    outcomes = await asyncio.gather(
        *(services.connections.create(admin, given) for _ in range(3)), return_exceptions=True
    )
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 2
    agents = await asyncio.gather(*(services.agents.ensure_embedded() for _ in range(3)))
    assert len({agent.id for agent in agents}) == 1


async def test_a_pattern_is_compiled_when_it_is_saved(services: Services, admin: Principal) -> None:
    broken = Rule(RuleType.PATTERN_MATCH, pattern_regex="(")
    with pytest.raises(Invalid, match="does not compile"):
        await services.guardrails.create(admin, {"name": "g", "output": (broken,)})


async def test_agents_live_for_15_seconds(services: Services, admin: Principal, world: World) -> None:
    agent = await services.agents.ensure_embedded()
    await services.connections.create(admin, await fields(services))

    async def status() -> ConnectionStatus:
        return (await services.connections.view(await services.connections.get(admin, "shop"))).status

    assert await status() is ConnectionStatus.OFFLINE
    await services.agents.beat()
    world.clock.forward(seconds=14)
    assert await status() is ConnectionStatus.ONLINE
    world.clock.forward(seconds=1)
    assert await status() is ConnectionStatus.OFFLINE
    assert (await services.agent_keys.get(admin, "embedded")).id == agent.id


async def test_the_audit_log_keeps_what_was_given(services: Services, admin: Principal) -> None:
    for number in range(3):
        await services.audit.record(
            admin,
            claimed="",
            action="create",
            resource_type="connections",
            resource=f"shop{number}\0\ud800",
            method="POST",
            path="/api/connections",
            status=201,
            source="::1",
            request_id="r",
            body={"name": "shop", "secret": {"envvar:PASS": "x"}},
        )
    found = await services.audit.find(admin, AuditFilter(), Page(limit=2))
    newest = found.items
    assert (len(newest), found.total) == (2, 3)
    assert newest[0].actor_email == admin.email
    assert newest[0].body == {"name": "shop", "secret": "[REDACTED]"}


def test_redaction_reaches_everywhere_and_is_bounded() -> None:
    deep: dict[str, object] = {}
    for _ in range(50):
        deep = {"a": deep}
    redacted = redact(
        {
            "list": [{"new_password": "x", "name": "kept"}],
            "Api-Key": "x",
            "env_vars": {"A": "x"},
            "long": "y" * 5_000,
            "many": list(range(1_000)),
            "deep": deep,
            "number": 1,
        }
    )
    assert redacted["list"] == [{"new_password": "[REDACTED]", "name": "kept"}]
    assert (redacted["Api-Key"], redacted["env_vars"], redacted["number"]) == ("[REDACTED]", "[REDACTED]", 1)
    assert len(redacted["long"]) == 1_001
    assert len(redacted["many"]) == 100
    assert len(str(redacted["deep"])) < 200


def test_the_project_of_a_tracker_is_shown_and_no_other_key() -> None:
    assert redact({"project_key": "OPS"}) == {"project_key": "OPS"}
    others = ("key", "api_key", "ssh_key", "private_key", "key_id", "KEYS", "project_keys", "Project_Key")
    for name in (*others, "project_token", "project_secret"):
        assert redact({name: "x"}) == {name: "[REDACTED]"}
    pair = {"name": "project_key", "value": "x"}
    for below in ({"project_key": "x"}, [{"project_key": "x"}], {"a": {"project_key": "x"}}, pair, [pair]):
        assert "'x'" not in str(redact({"labels": below}))
    assert redact(pair)["value"] == "[REDACTED]"
    nested = {"project_key": {"token": "x", "name": "password", "value": "x"}}
    assert "'x'" not in str(redact(nested))
