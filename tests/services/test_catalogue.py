"""The catalogue: what users can do with connections, as admission decides it, when they used them, and facets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.services.test_access import counted
from tests.support.sessions import add_session
from tests.support.world import START, World

from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.lists import Page
from postern.domain.rules.access_rule import AccessRule
from postern.domain.runbook import RunbookPattern, RunbookRef, RunbookRule
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection, ConnectionType, Toggle
from postern.domain.targets.connection_use import (
    OWN_SESSIONS,
    ConnectionFacet,
    ConnectionUse,
    SessionActivity,
    UseAccess,
)
from postern.errors import Denied
from postern.services.bundle import Services
from postern.services.reviews.review_requests import ReviewRequired
from postern.store.ports.common_ports import Topic
from postern.store.ports.target_ports import ConnectionFilter

OFF = Toggle.DISABLED
REPOSITORY = "git.example.com/ops"
VARIANTS: dict[str, dict[str, Any]] = {
    "open": {},
    "no-connect": {"access_mode_connect": OFF},
    "no-exec": {"access_mode_exec": OFF},
    "no-runbooks": {"access_mode_runbooks": OFF},
    "no-schema": {"access_schema": OFF},
    "reviewed": {"reviewers": ("dba",)},
    "closed": {f"access_mode_{use}": OFF for use in ("connect", "exec", "runbooks")} | {"reviewers": ("dba",)},
}
Admit = Callable[[Services, Principal, Connection], Awaitable[object]]
ADMISSIONS: dict[ConnectionUse, Admit] = {
    ConnectionUse.CONNECT: lambda services, who, where: services.access.admit_principal(
        who, where.name, verb=Verb.CONNECT, source="::1", means="login:1"
    ),
    ConnectionUse.EXEC: lambda services, who, where: services.sessions.submit(
        who, where.name, "select 1", source="::1", means="login:1"
    ),
    ConnectionUse.RUNBOOKS: lambda services, who, where: services.sessions.submit(
        who,
        where.name,
        "select 1",
        source="::1",
        means="login:1",
        runbook=RunbookRef(REPOSITORY, "a.runbook.sql", "c1"),
    ),
    ConnectionUse.SCHEMA: lambda services, who, where: services.access.admit_target_task(
        who, where.name, schema=True, source="::1"
    ),
}


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


async def admission(services: Services, who: Principal, where: Connection, use: ConnectionUse) -> UseAccess:
    """What using the connection answers."""
    try:
        used = await ADMISSIONS[use](services, who, where)
    except ReviewRequired as required:
        return UseAccess(True, True, required.message.partition("; ")[0])
    except Denied as denial:
        return UseAccess(False, False, denial.message)
    waits = getattr(used, "review_id", None) is not None
    return UseAccess(True, waits, f"connection {where.name!r} needs a review" if waits else "")


def is_same(said: UseAccess, done: UseAccess) -> bool:
    """Whether the catalogue says what admission answered. A submitted script tells no approvers."""
    same_reason = said.reason.startswith(done.reason) if done.needs_review else said.reason == done.reason
    return (said.allowed, said.needs_review, same_reason) == (done.allowed, done.needs_review, True)


@pytest.mark.parametrize("group", ["dev", "admin", "auditor"])
@pytest.mark.parametrize("feature", [None, "script-runs"])
async def test_catalogue_says_what_admission_answers(
    world: World, services: Services, group: str, feature: str | None
) -> None:
    admin = await world.add_user("root", "admin")
    who = await world.add_user("ann", group)
    agent = await world.add_agent()
    shops = [await world.add_connection(name, agent, **fields) for name, fields in VARIANTS.items()]
    if feature is not None:
        await services.features.put(admin, feature, enabled=False)
    access = await services.connection_catalogue.access(who, shops)
    for shop in shops:
        for use in ConnectionUse:
            done = await admission(services, who, shop, use)
            assert is_same(access[shop.id].uses[use], done), (shop.name, use, access[shop.id].uses[use], done)


async def test_catalogue_says_that_reviews_are_off(world: World, services: Services) -> None:
    admin = await world.add_user("root", "admin")
    ann = await world.add_user("ann")
    shop = await world.add_connection(reviewers=("dba",))
    await services.features.put(admin, "reviews", enabled=False)
    connect = (await services.connection_catalogue.access(ann, [shop]))[shop.id].uses[ConnectionUse.CONNECT]
    done = await admission(services, ann, shop, ConnectionUse.CONNECT)
    assert (connect.allowed, connect.reason) == (False, done.reason)
    assert "reviews are switched off" in connect.reason


async def test_catalogue_follows_runbook_rules(world: World, services: Services) -> None:
    ann = await world.add_user("ann", "dev")
    shop, stock = await world.add_connection(), await world.add_connection("stock")
    rule = RunbookRule(
        uuid4(),
        world.org_id,
        "on shop",
        runbooks=(RunbookPattern(REPOSITORY, ""),),
        connection_ids=frozenset({shop.id}),
        groups=frozenset({"dev"}),
        created_at=START,
        updated_at=START,
    )
    await world.stores.runbook_rules.add(rule)
    await world.signals.publish(Topic.POLICY_CHANGED, org_id=str(world.org_id))
    access = await services.connection_catalogue.access(ann, [shop, stock])
    assert access[shop.id].uses[ConnectionUse.RUNBOOKS] == UseAccess(True)
    denied = access[stock.id].uses[ConnectionUse.RUNBOOKS]
    assert (denied.allowed, denied.needs_review) == (False, False)
    assert denied.reason.startswith("no runbook rule allows you to run a runbook on connection 'stock'")
    assert access[stock.id].allowed  # in other ways


async def test_catalogue_names_the_access_rule(world: World, services: Services) -> None:
    admin, ann = await world.add_user("root", "admin"), await world.add_user("ann", "dev")
    shop = await world.add_connection()
    rule = AccessRule(
        uuid4(), world.org_id, "developers", groups=frozenset({"dev"}), connection_ids=frozenset({shop.id})
    )
    await world.stores.access_rules.add(replace(rule, created_at=START, updated_at=START))
    await services.features.put(admin, "access-control", enabled=True)
    assert (await services.connection_catalogue.access(ann, [shop]))[shop.id].reason == (
        "the access rule 'developers' is for the group 'dev'"
    )


async def test_inactive_user_can_use_nothing(world: World, services: Services) -> None:
    ann = replace(await world.add_user("ann"), status=PrincipalStatus.INACTIVE)
    shop = await world.add_connection()
    access = (await services.connection_catalogue.access(ann, [shop]))[shop.id]
    assert not access.allowed
    assert {use.reason for use in access.uses.values()} == {"this user is inactive; ask an administrator"}


@pytest.mark.parametrize(
    ("fields", "reasons"),
    [
        ({"subtype": "mongodb"}, {"connections of subtype 'mongodb' cannot be opened by this version"}),
        (
            {"type": ConnectionType.CUSTOM, "subtype": "", "command": ("bash",), "secret": {}},
            {"", "connection 'shop' has no schema, because only databases have one"},
        ),
    ],
)
async def test_use_that_the_target_does_not_have_is_denied(
    world: World, services: Services, fields: dict[str, Any], reasons: set[str]
) -> None:
    ann = await world.add_user("ann")
    shop = await world.add_connection(**fields)
    access = (await services.connection_catalogue.access(ann, [shop]))[shop.id]
    assert {use.reason for use in access.uses.values()} == reasons


async def test_activity_is_that_of_the_caller_and_of_all_for_readers(world: World, services: Services) -> None:
    ann, bob = await world.add_user("ann"), await world.add_user("bob", "auditor")
    shop, stock = await world.add_connection(), await world.add_connection("stock")
    there: dict[str, Any] = {"connection": "shop", "connection_id": shop.id}
    await add_session(world, ann, at=START, seconds=5, **there)
    await add_session(world, ann, at=START + timedelta(hours=1), seconds=None, **there)
    await add_session(world, bob, at=START + timedelta(hours=2), seconds=None, **there)
    of_ann = await services.connection_catalogue.activity(ann, [shop, stock])
    assert of_ann[shop.id].own == SessionActivity(START + timedelta(hours=1), 1)
    assert (of_ann[shop.id].all, of_ann[stock.id].own, of_ann[stock.id].all) == (None, SessionActivity(), None)
    of_bob = await services.connection_catalogue.activity(bob, [shop, stock])
    assert of_bob[shop.id].own == SessionActivity(START + timedelta(hours=2), 1)
    assert of_bob[shop.id].all == SessionActivity(START + timedelta(hours=2), 2)
    assert of_bob[stock.id].all == SessionActivity()


async def test_own_activity_looks_at_the_newest_sessions_alone(
    world: World, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert OWN_SESSIONS > 1
    monkeypatch.setattr("postern.store.sql.sessions.connection_activity.OWN_SESSIONS", 1)
    ann = await world.add_user("ann")
    shop, stock = await world.add_connection(), await world.add_connection("stock")
    await add_session(world, ann, at=START, seconds=5, connection="shop", connection_id=shop.id)
    await add_session(world, ann, at=START + timedelta(1), seconds=5, connection="stock", connection_id=stock.id)
    activity = await services.connection_catalogue.activity(ann, [shop, stock])
    assert (activity[shop.id].own.last_used, activity[stock.id].own.last_used) == (None, START + timedelta(1))


async def test_number_of_statements_does_not_depend_on_the_number_of_connections(
    world: World, services: Services
) -> None:
    auditor = await world.add_user("eve", "auditor")
    agent = await world.add_agent()

    async def statements(limit: int) -> int:
        async with counted(world) as heard:
            listed = await services.connections.search(auditor, ConnectionFilter(), Page(limit))
            connections = [view.connection for view in listed.items]
            await services.connection_catalogue.access(auditor, connections)
            await services.connection_catalogue.activity(auditor, connections)
            await services.connections.facets(auditor, ConnectionFilter(), list(ConnectionFacet))
        return len(heard)

    for number in range(100):
        await world.add_connection(f"shop-{number}", agent, reviewers=("dba",) if number % 2 else ())
    await statements(1)  # fills the caches of rules
    assert await statements(100) == await statements(1) <= 14


async def test_facets_count_the_values_of_all_pages_that_the_caller_sees(world: World, services: Services) -> None:
    ann = await world.add_user("ann", "dev")
    admin = await world.add_user("root", "admin")
    offline = await world.add_agent("offline")
    world.clock.forward(days=1)
    online = await world.add_agent("online")
    tags = {"env": "prod"}
    await world.add_connection("a", online, connection_tags=tags | {"team": "data"})
    hidden = await world.add_connection("b", online, connection_tags=tags, subtype="mysql")
    await world.add_connection("c", offline, type=ConnectionType.CUSTOM, subtype="", command=("sh",), secret={})

    async def facets(who: Principal, **where: Any) -> dict[str, dict[str, int]]:
        found = await services.connections.facets(who, ConnectionFilter(**where), list(ConnectionFacet))
        assert not any(facet.is_cut for facet in found.values())
        return {str(name): {value.value: value.count for value in facet.values} for name, facet in found.items()}

    assert await facets(admin) == {
        "type": {"database": 2, "custom": 1},
        "subtype": {"postgres": 1, "mysql": 1},
        "status": {"online": 2, "offline": 1},
        "tag": {"env=prod": 2, "team=data": 1},
    }
    assert (await facets(admin, type="database"))["status"] == {"online": 2}
    rule = AccessRule(uuid4(), world.org_id, "one", groups=frozenset({"dev"}), connection_ids=frozenset({hidden.id}))
    await world.stores.access_rules.add(replace(rule, created_at=START, updated_at=START))
    await services.features.put(admin, "access-control", enabled=True)
    assert (await facets(ann))["subtype"] == {"mysql": 1}


async def test_facet_of_many_values_is_cut_and_says_so(
    world: World, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postern.store.sql.sql_facets.MAX_VALUES", 2)
    admin = await world.add_user("root", "admin")
    for name, team in (("a", "x"), ("b", "y"), ("c", "z"), ("d", "z")):
        await world.add_connection(name, connection_tags={"team": team})
    facet = (await services.connections.facets(admin, ConnectionFilter(), [ConnectionFacet.TAG]))[ConnectionFacet.TAG]
    assert ([(value.value, value.count) for value in facet.values], facet.is_cut) == (
        [("team=z", 2), ("team=x", 1)],
        True,
    )


async def test_search_finds_descriptions(world: World, services: Services) -> None:
    admin = await world.add_user("root", "admin")
    await world.add_connection("a", description="Orders of the web shop")
    await world.add_connection("b")
    listed = await services.connections.search(admin, ConnectionFilter(search="web SHOP"), Page())
    assert [view.connection.name for view in listed.items] == ["a"]
