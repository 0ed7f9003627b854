"""Runbook rules in the store, and their groups and connections when these are removed. On both engines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.services.test_access import counted
from tests.support.world import World

from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import UserGroup
from postern.domain.lists import Page
from postern.domain.runbook import RunbookPattern, RunbookRule
from postern.errors import Conflict, NotFound

REPOSITORY = "git.example.com/acme/ops"
ALL = (RunbookPattern(REPOSITORY),)


def rule_of(world: World, name: str = "deploys", **fields: Any) -> RunbookRule:
    empty = RunbookRule(uuid4(), world.org_id, name, runbooks=ALL, groups=frozenset({"dev", "sre"}))
    return replace(empty, **{"created_at": world.clock(), "updated_at": world.clock(), **fields})


async def group_of(world: World, name: str) -> UserGroup:
    found = await world.stores.groups.get(world.org_id, name)
    assert found is not None
    return found


async def add_other(world: World) -> Organisation:
    other = Organisation(uuid4(), "acme", world.clock())
    await world.stores.organisations.add(other)
    return other


async def test_runbook_rule_is_stored_unchanged(world: World) -> None:
    shop, other = await world.add_connection("shop"), await world.add_connection("other")
    odd = "a:b, 'c' \u00e9\u4e2d"
    patterns = (RunbookPattern(REPOSITORY, "z/'\u00e9.runbook.sql"), RunbookPattern(REPOSITORY))
    listed: dict[str, Any] = {"connection_ids": frozenset({shop.id, other.id}), "connection_names": ("other", "shop")}
    rule = rule_of(world, description="why", runbooks=patterns, groups=frozenset({odd, "dev"}), **listed)
    store = world.stores.runbook_rules
    await store.add(rule)
    assert await store.all(world.org_id) == [rule]
    for key in ("deploys", str(rule.id)):
        found = await store.get(world.org_id, key)
        assert found is not None
        assert found == rule
    bare = replace(rule_of(world, "bare", groups=frozenset()), id=rule.id)
    bare = replace(bare, updated_at=world.clock() + timedelta(seconds=1))
    bare = await store.update(bare)
    with pytest.raises(Conflict, match="at the same time"):
        await store.update(rule)
    with pytest.raises(Conflict, match="at the same time"):
        await store.remove(rule)
    assert await store.all(world.org_id) == [bare]
    assert bare.allows(REPOSITORY, "any", uuid4(), frozenset())
    await store.remove(bare)
    assert await store.get(world.org_id, "bare") is None
    for write in (store.update, store.remove):
        with pytest.raises(NotFound, match="no longer exists"):
            await write(bare)


async def test_runbook_rule_names_are_unique_per_organisation_and_listed_by_name(world: World) -> None:
    other, store = await add_other(world), world.stores.runbook_rules
    for name in ("bbb", "aaa", "ccc"):
        await store.add(rule_of(world, name))
    await store.add(replace(rule_of(world, "aaa"), org_id=other.id))
    with pytest.raises(Conflict, match="exists already"):
        await store.add(rule_of(world, "aaa"))
    page = await store.find(world.org_id, Page(2, 1))
    assert ([one.name for one in page.items], page.total) == (["bbb", "ccc"], 3)
    assert [one.name for one in await store.all(other.id)] == ["aaa"]
    with pytest.raises(Conflict, match="exists already"):
        await store.update(replace(page.items[0], name="ccc"))
    async with counted(world) as statements:
        assert len(await store.all(world.org_id)) == 3
    assert len(statements) == 1


async def test_attack_rule_whose_connections_are_deleted_does_not_apply_to_all(world: World) -> None:
    shop, other = await world.add_connection("shop"), await world.add_connection("other")
    store = world.stores.runbook_rules
    rule = rule_of(world, connection_ids=frozenset({shop.id, other.id}))
    await store.add(rule)
    await world.stores.connections.remove(shop)
    assert await store.all(world.org_id) == [replace(rule, connection_ids=frozenset({other.id}))]
    await world.stores.connections.remove(other)
    (left,) = await store.all(world.org_id)
    assert left == replace(rule, connection_ids=frozenset(), nowhere=True)
    groups = frozenset({"dev"})
    assert not any(left.allows(REPOSITORY, "x", key, groups) for key in (shop.id, other.id, uuid4()))
    # Whatever else is changed, it stays so.
    left = await store.update(replace(left, description="more"))
    assert [one.nowhere for one in await store.all(world.org_id)] == [True]
    again = await world.add_connection("again")
    await store.update(replace(left, connection_ids=frozenset({again.id}), nowhere=False))
    assert [one.nowhere for one in await store.all(world.org_id)] == [False]
    with pytest.raises(Conflict, match="something that it refers to was just deleted"):
        await store.add(rule_of(world, "late", connection_ids=frozenset({shop.id})))


async def test_renamed_group_is_renamed_in_runbook_rules(world: World) -> None:
    """Only in its own organisation: another one can have a group of the same name."""
    other, store = await add_other(world), world.stores.runbook_rules
    own, both = rule_of(world), rule_of(world, "only", groups=frozenset({"sre"}))
    theirs = replace(rule_of(world, "theirs"), org_id=other.id)
    for rule in (own, both, theirs):
        await store.add(rule)
    await world.stores.groups.update(replace(await group_of(world, "sre"), name="ops 'n' more"))
    assert [one.groups for one in await store.all(world.org_id)] == [{"dev", "ops 'n' more"}, {"ops 'n' more"}]
    assert await store.all(other.id) == [theirs]


async def test_attack_only_group_of_a_runbook_rule_cannot_be_removed(world: World) -> None:
    store = world.stores.runbook_rules
    await store.add(rule_of(world))
    await store.add(rule_of(world, "theirs", groups=frozenset({"dev"})))
    await store.add(replace(rule_of(world, "elsewhere", groups=frozenset({"sre"})), org_id=(await add_other(world)).id))
    await world.stores.groups.remove(await group_of(world, "sre"))
    assert [one.groups for one in await store.all(world.org_id)] == [{"dev"}, {"dev"}]
    with pytest.raises(Conflict, match="runbook rule 'deploys' needs the group 'dev': it is the only group"):
        await world.stores.groups.remove(await group_of(world, "dev"))
    assert [one.groups for one in await store.all(world.org_id)] == [{"dev"}, {"dev"}]
    assert (await group_of(world, "dev")).name == "dev"


async def test_attack_concurrent_removal_of_all_groups_of_a_rule_keeps_one(world: World) -> None:
    store = world.stores.runbook_rules
    for number in range(8):
        groups = [UserGroup(uuid4(), world.org_id, f"{name}-{number}", world.clock()) for name in ("a", "b", "c")]
        for group in groups:
            await world.stores.groups.add(group)
        rule = rule_of(world, f"rule-{number}", groups=frozenset(group.name for group in groups))
        await store.add(rule)
        removals = (world.stores.groups.remove(group) for group in groups)
        outcomes = await asyncio.gather(*removals, return_exceptions=True)
        refused = [outcome for outcome in outcomes if outcome is not None]
        assert len(refused) == 1, refused
        assert isinstance(refused[0], Conflict)
        found = await store.get(world.org_id, rule.name)
        assert found is not None
        assert len(found.groups) == 1


async def test_attack_concurrent_group_removal_leaves_no_rule_for_all_users(world: World) -> None:
    """Either the rule is for the group, or it does not exist."""
    store = world.stores.runbook_rules
    for number in range(8):
        old, new = (UserGroup(uuid4(), world.org_id, f"{name}-{number}", world.clock()) for name in ("old", "new"))
        for group in (old, new):
            await world.stores.groups.add(group)
        changed = rule_of(world, f"changed-{number}", groups=frozenset({old.name}))
        await store.add(changed)
        made = rule_of(world, f"made-{number}", groups=frozenset({new.name}))
        outcomes = await asyncio.gather(
            store.add(made),
            store.update(replace(changed, groups=frozenset({new.name}))),
            world.stores.groups.remove(new),
            world.stores.groups.remove(old),
            return_exceptions=True,
        )
        for outcome in outcomes:
            assert outcome is None or isinstance(outcome, RunbookRule | Conflict), outcome
        names = {one.name for one in (await world.stores.groups.find(world.org_id, Page())).items}
        for rule in await store.all(world.org_id):
            assert len(rule.groups) == 1, rule
            assert rule.groups <= names
        for rule in await store.all(world.org_id):  # else the next round's groups are on the second page
            await store.remove(rule)
