"""Runbook rules in force: what they give, from when on, and at what cost. On both engines."""

from __future__ import annotations

import random
from typing import Any
from uuid import uuid4

import pytest
from tests.services.test_access import counted
from tests.support.world import World

from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Principal
from postern.domain.runbook import RunbookPattern, RunbookRule, is_allowed
from postern.domain.targets.connection import Connection
from postern.errors import Invalid, Unavailable
from postern.services.bundle import Services
from postern.services.runbooks.allowed import Allowed
from postern.store.ports.common_ports import Topic

OPS, TOOLS = "git.example.com/acme/ops", "git.example.com/acme/tools"


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("root", "admin")


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann", "dev")


@pytest.fixture
async def shop(world: World) -> Connection:
    return await world.add_connection("shop")


async def give(services: Services, admin: Principal, name: str = "deploys", **fields: Any) -> RunbookRule:
    given = {"runbooks": (RunbookPattern(OPS, "deploy/"),), "connections": ("shop",), "groups": ("dev",)} | fields
    return await services.runbook_rules.create(admin, {"name": name, **given})


async def may(services: Services, who: Principal, connection: Connection, file: str, repository: str = OPS) -> bool:
    """As it is told to who runs it, and to who asks for a list."""
    allowed = await services.runbook_rights.is_allowed(who, repository, file, connection.id)
    where = (await services.runbook_rights.of(who)).where(repository, file)
    assert allowed == (where is None or connection.id in where)
    return allowed


async def test_without_a_rule_everybody_may_and_with_the_first_only_whom_it_names(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    other, bob = await world.add_connection("other"), await world.add_user("bob", "ops")
    assert await may(services, bob, other, "any.runbook.sh", TOOLS)
    await give(services, admin)
    assert await may(services, ann, shop, "deploy/web.runbook.sh")
    for who, connection, file, repository in (
        (bob, shop, "deploy/web.runbook.sh", OPS),
        (ann, other, "deploy/web.runbook.sh", OPS),
        (ann, shop, "deploy", OPS),
        (ann, shop, "Deploy/web.runbook.sh", OPS),
        (ann, shop, "x/deploy/web.runbook.sh", OPS),
        (ann, shop, "deploy/web.runbook.sh", TOOLS),
        (ann, shop, "deploy/web.runbook.sh", OPS + "2"),
    ):
        assert not await may(services, who, connection, file, repository)
        assert await may(services, admin, connection, file, repository)
    assert not await may(services, ann, shop, "a.sh")
    assert await may(services, ann, shop, "deploy/a.sh")


async def test_rules_add_up_and_none_takes_away(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    other = await world.add_connection("other")
    await give(services, admin)
    await give(services, admin, "more", connections=("other",))
    await give(services, admin, "every", runbooks=(RunbookPattern(OPS, "deploy/web"),), connections=(), groups=())
    rights = await services.runbook_rights.of(ann)
    assert rights.where(OPS, "deploy/a") == frozenset({shop.id, other.id})
    assert rights.where(OPS, "deploy/web.sh") is None
    assert rights.where(OPS, "") == frozenset()


async def test_a_change_holds_at_once_and_asking_costs_nothing(
    services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    await give(services, admin)
    assert await may(services, ann, shop, "deploy/a")
    await services.runbook_rules.update(admin, "deploys", {"groups": ("ops",)})
    assert not await may(services, ann, shop, "deploy/a")
    await services.runbook_rules.update(admin, "deploys", {"groups": ()})
    assert await may(services, ann, shop, "deploy/a")
    await services.runbook_rules.update(admin, "deploys", {"runbooks": (RunbookPattern(TOOLS),)})
    assert not await may(services, ann, shop, "deploy/a")
    await services.runbook_rules.remove(admin, "deploys")
    assert await may(services, ann, shop, "deploy/a")


async def test_asking_costs_no_statement_and_is_told_of_every_change(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    await give(services, admin)
    assert await may(services, ann, shop, "deploy/a")
    async with counted(world) as statements:
        assert await may(services, ann, shop, "deploy/a")
    assert statements == []
    heard = {"org_id": str(world.org_id)}
    assert world.signals.of(Topic.POLICY_CHANGED) == [heard]
    await services.runbook_rules.update(admin, "deploys", {"description": "more"})
    await services.runbook_rules.remove(admin, "deploys")
    assert world.signals.of(Topic.POLICY_CHANGED) == [heard] * 3


async def test_rules_that_cannot_be_read_let_nobody_run_anything(
    world: World, services: Services, ann: Principal, shop: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_org_id: object) -> list[RunbookRule]:
        raise Unavailable("the store does not answer")

    monkeypatch.setattr(world.stores.runbook_rules, "all", broken)
    with pytest.raises(Unavailable):
        await services.runbook_rights.is_allowed(ann, OPS, "a", shop.id)
    with pytest.raises(Unavailable):
        await services.runbook_rights.of(ann)


async def test_rules_of_another_organisation_are_not_ours(
    world: World, services: Services, ann: Principal, shop: Connection
) -> None:
    other = Organisation(uuid4(), "acme", world.clock())
    await world.stores.organisations.add(other)
    at = world.clock()
    theirs = RunbookRule(uuid4(), other.id, "x", runbooks=(RunbookPattern(TOOLS),), created_at=at, updated_at=at)
    await world.stores.runbook_rules.add(theirs)
    assert await may(services, ann, shop, "deploy/a")


async def test_attack_a_rule_that_lost_its_connections_is_opened_by_nobody_who_sends_it_back(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    other = await world.add_connection("other")
    await give(services, admin)
    await services.connections.remove(admin, "shop")
    assert not await may(services, ann, other, "deploy/a")
    for fields in ({"description": "x"}, {"groups": ()}):
        assert (await services.runbook_rules.update(admin, "deploys", fields)).nowhere
        assert not await may(services, ann, other, "deploy/a")
    with pytest.raises(Invalid, match="connections: all connections of this rule were deleted"):
        await services.runbook_rules.update(admin, "deploys", {"connections": ()})
    listed = {"connections": ("other",)}
    assert not (await services.runbook_rules.update(admin, "deploys", listed)).nowhere
    assert await may(services, ann, other, "deploy/a")


async def test_repositories_are_called_by_one_name(services: Services, admin: Principal, shop: Connection) -> None:
    given = (
        RunbookPattern("https://Git.Example.com/acme/ops.git"),
        RunbookPattern("git@git.example.com:acme/ops", "/deploy/"),
        RunbookPattern("ssh://git@git.example.com:2222/acme/ops"),
        RunbookPattern("git.example.com:2222/acme/ops"),
        RunbookPattern(OPS),
    )
    rule = await give(services, admin, runbooks=given)
    other = "git.example.com:2222/acme/ops"
    assert rule.runbooks == (RunbookPattern(OPS), RunbookPattern(OPS, "deploy/"), RunbookPattern(other))


def test_a_list_is_told_what_each_single_question_is_told() -> None:
    chance = random.Random(7)
    connections = [uuid4() for _ in range(3)]
    names, groups = ["", "a", "a/", "a/b", "a/bc", "b", "\u00e9"], ["x", "y", "z"]

    def some(of: list[Any]) -> list[Any]:
        return chance.sample(of, chance.randint(0, len(of)))

    def rule() -> RunbookRule:
        patterns = tuple(RunbookPattern(chance.choice((OPS, TOOLS)), name) for name in some(names))
        listed = frozenset(some(connections))
        nowhere = not listed and chance.random() < 0.5
        return RunbookRule(uuid4(), uuid4(), "r", "", patterns, listed, frozenset(some(groups)), nowhere)

    seen = set()
    for _ in range(300):
        rules, own = [rule() for _ in range(chance.randint(1, 4))], frozenset(some(groups))
        allowed = Allowed.by(rules, own)
        for file in ("", "a", "a/b", "a/bcd", "b/c", "\u00e9/x", "c"):
            where = allowed.where(OPS, file)
            for key in connections:
                single = is_allowed(rules, OPS, file, key, own, is_admin=False)
                assert (where is None or key in where) == single
                seen.add(single)
        files = sorted(
            {"".join(chance.choices("ab/c\u00e9", k=chance.randint(0, 4))) for _ in range(chance.randint(0, 9))}
        )
        told = [where for first, last, where in allowed.spans(OPS, files) for _ in files[first:last]]
        assert told == [allowed.where(OPS, file) for file in files]
    assert seen == {True, False}
