"""Review rules in the store, and groups that are renamed and removed while rules are created. On both engines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.services.test_access import counted
from tests.support.world import World

from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import UserGroup
from postern.domain.lists import Page
from postern.domain.reviews.review_rule import AccessType, ReviewRule
from postern.errors import Conflict, NotFound


def rule_of(world: World, name: str = "pairs", **fields: Any) -> ReviewRule:
    empty = ReviewRule(uuid4(), world.org_id, name, AccessType.BOTH, ("leads", "sre"))
    return replace(empty, **{"created_at": world.clock(), "updated_at": world.clock(), **fields})


async def group_of(world: World, name: str) -> UserGroup:
    found = await world.stores.groups.get(world.org_id, name)
    assert found is not None
    return found


async def test_review_rule_is_stored_unchanged(world: World) -> None:
    """Group names can have any characters, in each part of the rule."""
    shop, other = await world.add_connection("shop"), await world.add_connection("other")
    odd = "a:b, 'c' \u00e9\u4e2d"
    rule = rule_of(
        world,
        access_type=AccessType.COMMAND,
        description="why",
        connection_ids=frozenset({shop.id, other.id}),
        connection_names=("other", "shop"),
        connection_tags={"stage": "prod"},
        required_groups=frozenset({"force:x", odd}),
        skip_groups=frozenset({"leads"}),
        reviewers_groups=(odd, "leads", "sre"),
        force_groups=("force:x", "leads"),
        all_groups=True,
        min_approvals=3,
        max_duration=600,
    )
    await world.stores.review_rules.add(rule)
    assert await world.stores.review_rules.all(world.org_id) == [rule]
    for key in ("pairs", str(rule.id)):
        assert await world.stores.review_rules.get(world.org_id, key) == rule
    bare = replace(rule_of(world, "pairs"), id=rule.id)
    bare = await world.stores.review_rules.update(bare)
    assert await world.stores.review_rules.all(world.org_id) == [bare]
    await world.stores.review_rules.remove(bare)
    assert await world.stores.review_rules.get(world.org_id, "pairs") is None
    with pytest.raises(NotFound):
        await world.stores.review_rules.update(bare)
    assert (await group_of(world, odd)).name == odd  # made with the rule, and left


async def test_all_review_rules_are_read_with_one_query(world: World) -> None:
    for number in range(3):
        await world.stores.review_rules.add(rule_of(world, f"rule-{number}"))
    async with counted(world) as statements:
        assert len(await world.stores.review_rules.all(world.org_id)) == 3
    assert len(statements) == 1


async def test_review_rule_names_are_unique_per_organisation_and_listed_by_name(world: World) -> None:
    other = Organisation(uuid4(), "acme", world.clock())
    await world.stores.organisations.add(other)
    for name in ("bbb", "aaa", "ccc"):
        await world.stores.review_rules.add(rule_of(world, name))
    await world.stores.review_rules.add(replace(rule_of(world, "aaa"), org_id=other.id))
    with pytest.raises(Conflict, match="exists already"):
        await world.stores.review_rules.add(rule_of(world, "aaa"))
    page = await world.stores.review_rules.find(world.org_id, Page(2, 1))
    assert ([one.name for one in page.items], page.total) == (["bbb", "ccc"], 3)
    assert [one.name for one in await world.stores.review_rules.all(other.id)] == ["aaa"]
    renamed = replace(page.items[0], name="ccc")
    with pytest.raises(Conflict, match="exists already"):
        await world.stores.review_rules.update(renamed)


async def test_review_rule_is_found_by_name_before_id(world: World) -> None:
    first = rule_of(world)
    second = rule_of(world, str(first.id))
    for rule in (first, second):
        await world.stores.review_rules.add(rule)
    found = await world.stores.review_rules.get(world.org_id, str(first.id))
    assert found is not None
    assert found.id == second.id


async def test_removed_connection_is_removed_from_its_review_rules(world: World) -> None:
    shop, other = await world.add_connection("shop"), await world.add_connection("other")
    rule = rule_of(world, connection_ids=frozenset({shop.id, other.id}))
    await world.stores.review_rules.add(rule)
    await world.stores.connections.remove(shop)
    assert [one.connection_ids for one in await world.stores.review_rules.all(world.org_id)] == [{other.id}]
    gone = rule_of(world, "late", connection_ids=frozenset({shop.id}))
    with pytest.raises(Conflict, match="something that it refers to was just deleted"):
        await world.stores.review_rules.add(gone)


async def test_renamed_group_is_renamed_in_rules_and_connections(world: World) -> None:
    """Only in its own organisation: another one can have a group of the same name."""
    other = Organisation(uuid4(), "acme", world.clock())
    await world.stores.organisations.add(other)
    given: dict[str, Any] = {"required_groups": frozenset({"sre"}), "force_groups": ("sre",)}
    await world.stores.review_rules.add(rule_of(world, **given))
    theirs = replace(rule_of(world, "theirs"), org_id=other.id)
    await world.stores.review_rules.add(theirs)
    own = await world.add_connection("shop", reviewers=("leads", "sre"), force_approve_groups=("sre", "boss"))
    plain = await world.add_connection("plain")
    await world.stores.groups.update(replace(await group_of(world, "sre"), name="ops 'n' more"))
    (found,) = await world.stores.review_rules.all(world.org_id)
    assert found.reviewers_groups == ("leads", "ops 'n' more")
    assert (*found.required_groups, *found.force_groups) == ("ops 'n' more", "ops 'n' more")
    assert await world.stores.review_rules.all(other.id) == [theirs]
    shop = await world.stores.connections.get(world.org_id, str(own.id))
    assert shop is not None
    assert shop.reviewers == ("leads", "ops 'n' more")
    assert shop.force_approve_groups == ("ops 'n' more", "boss")
    assert await world.stores.connections.get(world.org_id, str(plain.id)) is not None


NEEDED: dict[str, dict[str, Any]] = {
    "no other group can approve": {"reviewers_groups": ("sre",)},
    "the approval of this group is required": {"all_groups": True},
    "the rule applies to the members of this group": {"required_groups": frozenset({"sre", "interns"})},
}


@pytest.mark.parametrize("why", NEEDED)
async def test_attack_group_that_a_review_rule_needs_cannot_be_removed(world: World, why: str) -> None:
    rule = rule_of(world, **NEEDED[why])
    await world.stores.review_rules.add(rule)
    member = await world.add_user("ann", "sre")
    with pytest.raises(Conflict, match=f"'pairs' needs the group 'sre': {why}"):
        await world.stores.groups.remove(await group_of(world, "sre"))
    assert await world.stores.review_rules.all(world.org_id) == [rule]
    kept = await world.stores.groups.members(await group_of(world, "sre"))
    assert [one.id for one in kept] == [member.id]


async def test_attack_group_that_reviews_a_connection_cannot_be_removed(world: World) -> None:
    """A removed force group is cleared: a later group of the same name is a different one."""
    shop = await world.add_connection("shop", reviewers=("leads", "sre"), force_approve_groups=("boss",))
    for name in ("sre", "boss"):
        await world.stores.groups.add(UserGroup(uuid4(), world.org_id, name, world.clock()))
    with pytest.raises(Conflict, match="the group 'sre' reviews connection 'shop'"):
        await world.stores.groups.remove(await group_of(world, "sre"))
    await world.stores.groups.remove(await group_of(world, "boss"))
    found = await world.stores.connections.get(world.org_id, str(shop.id))
    assert found is not None
    assert (found.reviewers, found.force_approve_groups) == (("leads", "sre"), ())


async def test_group_that_a_rule_does_not_need_can_be_removed(world: World) -> None:
    rule = rule_of(world, force_groups=("sre",), skip_groups=frozenset({"sre"}))
    await world.stores.review_rules.add(rule)
    await world.stores.groups.remove(await group_of(world, "sre"))
    (left,) = await world.stores.review_rules.all(world.org_id)
    assert left == replace(rule, reviewers_groups=("leads",), force_groups=(), skip_groups=frozenset(), version=2)
    with pytest.raises(Conflict, match="changed by another request"):  # else the group would come back
        await world.stores.review_rules.update(rule)


async def test_attack_concurrent_group_removal_leaves_no_rule_without_reviewers(world: World) -> None:
    """Either the rule has its only reviewers, or it does not exist."""
    for number in range(8):
        name = f"group-{number}"
        group = UserGroup(uuid4(), world.org_id, name, world.clock())
        await world.stores.groups.add(group)
        rule = rule_of(world, f"rule-{number}", reviewers_groups=(name,))
        made, removed = await asyncio.gather(
            world.stores.review_rules.add(rule), world.stores.groups.remove(group), return_exceptions=True
        )
        for outcome in (made, removed):
            assert outcome is None or isinstance(outcome, Conflict), outcome
        assert made is None or removed is None  # one of them at least was done
        rules: dict[UUID, ReviewRule] = {one.id: one for one in await world.stores.review_rules.all(world.org_id)}
        if made is None:
            assert rules[rule.id].reviewers_groups == (name,)
            assert await world.stores.groups.get(world.org_id, name) is not None
        else:
            assert rule.id not in rules
