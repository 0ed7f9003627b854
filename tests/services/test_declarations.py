"""Agents in applications declare the connection that they serve."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.rules.guardrail import Rule, RuleType
from postern.domain.targets.agent import Agent, AgentKey, AgentMode
from postern.domain.targets.connection import Connection, ConnectionType, Toggle
from postern.domain.targets.declaration import Declaration
from postern.errors import Conflict, Invalid, Malformed, NotFound, TooMany, Unauthenticated
from postern.services.bundle import Services
from postern.services.targets import declarations as module
from postern.store.ports.common_ports import Topic
from postern.store.ports.server_ports import AuditEntry, AuditFilter

RULE = Rule(RuleType.PATTERN_MATCH, pattern_regex="drop", name="drop")
SHOP = Declaration(
    "shop-db",
    ConnectionType.DATABASE,
    "postgres",
    reviewers=("dba",),
    redact_types=("EMAIL_ADDRESS",),
    connection_tags={"stage": "prod"},
    default_database="shop",
)
SHELL = Declaration("shop-shell", ConnectionType.CUSTOM, "", ("bash", "-c", "date\n"))


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("root", "admin")


@pytest.fixture
async def agent(services: Services, admin: Principal) -> Agent:
    return await embedded(services, admin, "shop")


async def embedded(services: Services, admin: Principal, name: str) -> Agent:
    return await services.agent_keys.create(admin, {"name": name, "mode": AgentMode.EMBEDDED})


async def declared(services: Services, agent: Agent, given: Declaration, *, beside: bool = False) -> None:
    await services.declarations.declare(agent, given, address="192.0.2.7", beside=beside)


async def found(services: Services, admin: Principal, name: str = "shop-db") -> Connection:
    return await services.connections.get(admin, name)


async def entries(services: Services, admin: Principal) -> list[AuditEntry]:
    return list((await services.audit.find(admin, AuditFilter(), Page())).items)


async def test_what_is_declared_is_there_and_everything_else_has_its_default(
    world: World, services: Services, admin: Principal, agent: Agent
) -> None:
    await declared(services, agent, SHOP)
    one = await found(services, admin)
    assert (one.name, one.type, one.subtype, one.command) == ("shop-db", ConnectionType.DATABASE, "postgres", ())
    assert (one.reviewers, one.redact_enabled, one.redact_types) == (("dba",), True, ("EMAIL_ADDRESS",))
    assert (one.connection_tags, one.agent_id, one.managed_by) == ({"stage": "prod"}, agent.id, "agent:shop")
    assert (one.default_database, list(one.secret), one.resource_name) == ("shop", ["envvar:DB"], "shop-db")
    modes = (one.access_mode_connect, one.access_mode_exec, one.access_mode_runbooks, one.access_schema)
    assert modes == (Toggle.ENABLED,) * 4
    assert (one.created_at, one.updated_at) == (world.clock(), world.clock())
    assert world.signals.of(Topic.POLICY_CHANGED) == [{"connection_id": str(one.id), "org_id": str(world.org_id)}]
    [entry] = await entries(services, admin)
    assert (entry.actor_subject, entry.actor_id, entry.org_id) == ("agent:shop", None, world.org_id)
    assert (entry.method, entry.path, entry.source) == ("CONTROL", module.CALL, "192.0.2.7")
    assert (entry.action, entry.resource_type, entry.resource, entry.before) == (
        "create",
        "connections",
        "shop-db",
        None,
    )
    assert entry.after is not None
    assert entry.after["connection_tags"] == {"stage": "prod"}


async def test_a_command_has_its_words_as_they_are(services: Services, admin: Principal, agent: Agent) -> None:
    await declared(services, agent, SHELL)
    one = await found(services, admin, "shop-shell")
    assert (one.command, one.secret, one.default_database) == (("bash", "-c", "date\n"), {}, None)
    assert (one.type, one.redact_enabled) == (ConnectionType.CUSTOM, False)


async def test_nothing_is_written_when_nothing_changed(
    world: World, services: Services, admin: Principal, agent: Agent
) -> None:
    await declared(services, agent, SHOP)
    one = await found(services, admin)
    for name in ("a", "b"):
        await services.guardrails.create(admin, {"name": name, "input": (RULE,), "connection_ids": (str(one.id),)})
    before, signals = await found(services, admin), len(world.signals.heard)
    world.clock.forward(minutes=1)
    for _ in range(3):
        await declared(services, agent, SHOP, beside=True)
    assert await found(services, admin) == before
    assert len(before.guardrail_rules) == 2
    assert len(world.signals.heard) == signals
    assert len(await entries(services, admin)) == 1


async def test_a_change_replaces_what_was_declared_and_keeps_what_others_set(
    world: World, services: Services, admin: Principal, agent: Agent
) -> None:
    await declared(services, agent, SHOP)
    one = await found(services, admin)
    rail = await services.guardrails.create(admin, {"name": "g", "input": (RULE,), "connection_ids": (str(one.id),)})
    world.clock.forward(minutes=1)
    await services.agents.beat_for([agent.id])
    await declared(services, agent, Declaration("shop-db", ConnectionType.DATABASE, "postgres"))
    changed = await found(services, admin)
    assert changed.place != one.place  # it leads to another database
    assert changed == replace(
        one,
        place=changed.place,
        reviewers=(),
        redact_enabled=False,
        redact_types=(),
        connection_tags={},
        secret={},
        guardrail_rules=(str(rail.id),),
        updated_at=world.clock(),
        version=3,
    )
    assert world.signals.of(Topic.POLICY_CHANGED)[-1] == {
        "connection_id": str(one.id),
        "org_id": str(world.org_id),
    }
    newest = (await entries(services, admin))[0]
    assert newest.action == "update"
    assert newest.before is not None
    assert newest.before["reviewers"] == ["dba"]


async def test_a_guardrail_that_is_attached_at_the_same_moment_stays(
    services: Services, admin: Principal, agent: Agent, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await declared(services, agent, SHOP)
    one = await found(services, admin)
    update = type(world.stores.connections).update

    async def late(self: object, connection: Connection) -> None:
        fields = {"name": "late", "input": (RULE,), "connection_ids": (str(one.id),)}
        await services.guardrails.create(admin, fields)
        await update(world.stores.connections, connection)

    with monkeypatch.context() as patched:
        patched.setattr(type(world.stores.connections), "update", late)
        with pytest.raises(Conflict, match="changed by another request") as caught:
            await declared(services, agent, replace(SHOP, reviewers=()))
    assert caught.value.retry_after == 1
    await declared(services, agent, replace(SHOP, reviewers=()))
    after = await found(services, admin)
    assert (after.reviewers, len(after.guardrail_rules)) == ((), 1)


async def test_many_instances_at_once_make_one(services: Services, admin: Principal, agent: Agent) -> None:
    await asyncio.gather(*(declared(services, agent, SHOP, beside=True) for _ in range(20)))
    assert len(await entries(services, admin)) == 1
    assert (await found(services, admin)).agent_id == agent.id


async def test_another_name_takes_the_place_of_the_one_before_with_its_guardrails(
    world: World, services: Services, admin: Principal, agent: Agent
) -> None:
    await declared(services, agent, SHOP)
    one = await found(services, admin)
    rail = await services.guardrails.create(admin, {"name": "g", "input": (RULE,), "connection_ids": (str(one.id),)})
    world.clock.forward(minutes=1)
    await declared(services, agent, replace(SHOP, name="shop-2"))
    with pytest.raises(NotFound):
        await found(services, admin)
    other = await found(services, admin, "shop-2")
    assert (other.guardrail_rules, other.resource_name) == ((str(rail.id),), "shop-2")
    assert other.id != one.id
    assert [told["connection_id"] for told in world.signals.of(Topic.POLICY_CHANGED)][-2:] == [
        str(one.id),
        str(other.id),
    ]
    newest = (await entries(services, admin))[0]
    assert newest.before is not None
    assert (newest.action, newest.before["name"], newest.resource) == ("update", "shop-db", "shop-2")


@pytest.mark.parametrize("by", ["a tunnel", "attendance"])
async def test_another_name_waits_while_an_instance_serves_the_one_before(
    world: World, services: Services, admin: Principal, agent: Agent, by: str
) -> None:
    await declared(services, agent, SHOP)
    if by == "a tunnel":
        await services.agents.beat_for([agent.id])
    agent = await services.agent_keys.get(admin, "shop")
    with pytest.raises(Conflict, match="an instance of agent 'shop' serves connection 'shop-db'") as caught:
        await declared(services, agent, replace(SHOP, name="shop-2"), beside=by == "attendance")
    assert caught.value.retry_after is not None  # it is tried again
    assert (await found(services, admin)).name == "shop-db"
    world.clock.forward(seconds=15)
    await declared(services, agent, replace(SHOP, name="shop-2"))
    assert (await found(services, admin, "shop-2")).agent_id == agent.id


async def test_attack_the_name_of_another_connection(
    services: Services, admin: Principal, agent: Agent, world: World
) -> None:
    made = await world.add_connection("taken")
    other = await embedded(services, admin, "other")
    await declared(services, other, replace(SHOP, name="others-db"))
    for name in ("taken", "others-db"):
        before = await found(services, admin, name)
        with pytest.raises(Conflict, match="already exists, and agent 'shop' did not declare it") as caught:
            await declared(services, agent, replace(SHOP, name=name))
        assert caught.value.retry_after is None
        assert await found(services, admin, name) == before
    with pytest.raises(Invalid, match="must not look like an identifier"):
        await declared(services, agent, replace(SHOP, name=str(made.id)))


async def test_attack_the_connection_of_another_organisation(
    world: World, services: Services, admin: Principal, agent: Agent
) -> None:
    made = await services.organisations.create(admin, "Other", "boss@example.com")
    elsewhere = Agent(uuid4(), made.organisation.id, "shop", AgentMode.EMBEDDED, None, world.clock(), b"\x07" * 32)
    await world.stores.agents.add(elsewhere)
    await declared(services, agent, SHOP)
    mine = await found(services, admin)
    await declared(services, elsewhere, replace(SHOP, connection_tags={"stage": "theirs"}))
    assert await found(services, admin) == mine
    theirs = await world.stores.connections.get(made.organisation.id, "shop-db")
    assert theirs is not None
    assert (theirs.id != mine.id, theirs.connection_tags) == (True, {"stage": "theirs"})
    own = [entry.after for entry in await entries(services, admin) if entry.actor_subject == "agent:shop"]
    assert [after["connection_tags"] for after in own if after is not None] == [{"stage": "prod"}]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "shop\x1b[2J"}, "name: "),
        ({"name": "a\nb"}, "name: "),
        ({"name": ""}, "name: "),
        ({"name": "x" * 129}, "name: "),
        ({"connection_tags": {f"k{number}": "v" for number in range(10_000)}}, "10000 tags given, at most 10"),
        ({"connection_tags": {"a": "\0"}}, "connection_tags"),
        ({"reviewers": ("g" * 3_000_000,)}, "reviewers: at most"),
        ({"reviewers": tuple("g" * 101)}, "reviewers: at most"),
        ({"reviewers": ("a\nb",)}, "reviewers: "),
        ({"reviewers": ("",)}, "reviewers: "),
        ({"redact_types": ("EMAIL_ADDRESS",) * 101}, "redact_types: at most"),
        ({"redact_types": ("EVERYTHING",)}, "redact_types: 'EVERYTHING' is not known"),
        ({"command": ("x",) * 101}, "command: at most"),
        ({"command": ("a\0b",)}, "command: "),
        ({"command": ("",)}, "command: "),
        ({"subtype": "telnet"}, "subtype: 'telnet' is not one of"),
        ({"subtype": "mysql"}, "redact_enabled: cannot be enforced"),
        ({"default_database": "d" * 129}, "default_database"),
        ({"default_database": "a\x1bb"}, "default_database"),
    ],
)
async def test_attack_what_no_connection_may_be(
    services: Services, admin: Principal, agent: Agent, change: dict[str, object], said: str
) -> None:
    with pytest.raises(Invalid, match=said.replace("(", r"\(")):
        await declared(services, agent, replace(SHOP, **change))  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        await found(services, admin)
    assert not await entries(services, admin)


async def test_attack_a_key_that_fills_the_audit_log(
    world: World, services: Services, admin: Principal, agent: Agent
) -> None:
    for number in range(60):
        await declared(services, agent, replace(SHOP, connection_tags={"n": str(number)}))
    with pytest.raises(TooMany, match="too many changes of the declared connection; try again in"):
        await declared(services, agent, SHOP)
    await declared(services, agent, replace(SHOP, connection_tags={"n": "59"}))  # as it is: nothing to write
    world.clock.forward(minutes=16)
    await declared(services, agent, SHOP)
    assert (await found(services, admin)).connection_tags == {"stage": "prod"}


async def test_attack_who_goes_away_at_once_leaves_an_entry_all_the_same(
    world: World, services: Services, admin: Principal, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, going_on, written = asyncio.Event(), asyncio.Event(), asyncio.Event()
    add, note = type(world.stores.connections).add, type(world.stores.audit).add

    async def slow(self: object, connection: Connection) -> None:
        begun.set()
        await going_on.wait()
        await add(world.stores.connections, connection)

    async def noted(self: object, entry: AuditEntry) -> None:
        await note(world.stores.audit, entry)
        written.set()

    monkeypatch.setattr(type(world.stores.connections), "add", slow)
    monkeypatch.setattr(type(world.stores.audit), "add", noted)
    declaring = asyncio.create_task(declared(services, agent, SHOP))
    await asyncio.wait_for(begun.wait(), 60)
    declaring.cancel()
    await asyncio.gather(declaring, return_exceptions=True)
    going_on.set()
    await asyncio.wait_for(written.wait(), 60)
    assert (await found(services, admin)).agent_id == agent.id
    assert len(await entries(services, admin)) == 1


async def test_what_another_process_made_in_between_is_looked_at_again(
    world: World, services: Services, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = type(world.stores.connections).add

    async def twice(self: object, connection: Connection) -> None:
        await add(world.stores.connections, replace(connection, id=uuid4()))
        await add(world.stores.connections, connection)

    monkeypatch.setattr(type(world.stores.connections), "add", twice)
    with pytest.raises(Conflict) as caught:
        await declared(services, agent, SHOP)
    assert caught.value.retry_after == 1
    await declared(services, agent, SHOP)


async def test_administrators_neither_change_nor_remove_it_and_give_it_no_company(
    services: Services, admin: Principal, agent: Agent
) -> None:
    await declared(services, agent, SHOP)
    given = {"name": "mine", "type": ConnectionType.DATABASE, "agent_id": agent.id, "subtype": "postgres"}
    for work in (
        services.connections.update(admin, "shop-db", {"reviewers": ()}),
        services.connections.replace(admin, "shop-db", given | {"name": "shop-db"}),
        services.connections.remove(admin, "shop-db"),
    ):
        with pytest.raises(Malformed, match="managed by agent:shop; change it there"):
            await work
    with pytest.raises(Invalid, match=r"^agent_id: agent 'shop' is embedded") as caught:
        await services.connections.create(admin, given)
    assert caught.value.field == "agent_id"
    own = await services.agents.ensure_embedded()
    await services.connections.create(admin, given | {"agent_id": own.id})
    with pytest.raises(Invalid, match=r"^agent_id: agent 'shop' is embedded"):
        await services.connections.update(admin, "mine", {"agent_id": agent.id})


async def test_attack_an_agent_that_declares_its_connection_anew_while_it_is_deleted(
    world: World, services: Services, admin: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could keep itself from being deleted: one with a connection is not."""
    issued = await services.agent_keys.create(admin, {"name": "app", "mode": AgentMode.EMBEDDED})
    key = AgentKey.read(issued.key)
    await declared(services, issued, SHOP)
    remove, refused = type(world.stores.connections).remove, []

    async def again(self: object, connection: Connection) -> None:
        await remove(world.stores.connections, connection)
        try:
            await declared(services, await services.agents.enrol(key.secret, name="app", address="::1"), SHOP)
        except Unauthenticated as error:
            refused.append(error)

    monkeypatch.setattr(type(world.stores.connections), "remove", again)
    await services.agent_keys.remove(admin, "app")
    assert len(refused) == 1
    with pytest.raises(NotFound):
        await found(services, admin)
    with pytest.raises(NotFound):
        await services.agent_keys.get(admin, "app")


async def test_an_agent_with_the_longest_name(services: Services, admin: Principal) -> None:
    agent = await embedded(services, admin, "a" * 128)
    await declared(services, agent, SHOP)
    one = await found(services, admin)
    assert one.managed_by == f"agent:{'a' * 122}"
    await declared(services, agent, replace(SHOP, reviewers=()))
    assert (await found(services, admin)).reviewers == ()
    assert (await entries(services, admin))[0].actor_subject == f"agent:{'a' * 128}"


def test_a_change_waits_no_longer_than_its_agent_does() -> None:
    assert timedelta(seconds=module.TURN) < timedelta(seconds=10)
