"""Groups that change while their members, or rules that name them, are written. On both engines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest
from sqlalchemy import delete, insert, select
from tests.support.world import World

from postern.domain.identity.principal import GroupSource, RoleGroups, UserGroup
from postern.domain.rules.access_rule import AccessRule
from postern.errors import Conflict
from postern.store.schema.identity_tables import groups, user_groups


async def names_of(world: World) -> tuple[set[str], set[str]]:
    """Return the groups that there are, and those that somebody is in."""
    async with world.database.statement() as statement:
        there = (await statement.execute(select(groups.c.name))).scalars().all()
        used = (await statement.execute(select(user_groups.c.name))).scalars().all()
    return set(there), set(used)


async def test_user_is_not_added_to_a_group_that_is_removed_concurrently(world: World) -> None:
    """A transaction that has just written the same membership blocks the account's write."""
    stores = world.stores
    new, ann = UserGroup(uuid4(), world.org_id, "new", world.clock()), await world.add_user("ann", "old")
    await stores.groups.add(new)
    account = await stores.principals.get(world.org_id, ann.id)
    assert account is not None
    membership = {"user_id": ann.id, "name": new.name, "source": GroupSource.MANUAL}
    async with world.database.transaction() as first:
        await first.execute(insert(user_groups).values(membership))
        joined = replace(account, principal=replace(ann, groups=frozenset({"old", "new"})))
        writing = asyncio.create_task(stores.users.update(joined))
        await asyncio.wait([writing], timeout=0.3)
        removing = asyncio.create_task(stores.groups.remove(new))
        done, _ = await asyncio.wait([writing, removing], timeout=0.3)
        assert not done
        await first.execute(delete(user_groups).filter_by(**membership))
    await asyncio.gather(writing, removing)
    there, used = await names_of(world)
    assert used <= there
    assert "new" not in there


async def test_concurrent_writes_of_a_group_and_its_references_never_deadlock(world: World) -> None:
    stores = world.stores
    for number in range(4):
        old, new = (UserGroup(uuid4(), world.org_id, f"{name}-{number}", world.clock()) for name in ("old", "new"))
        for group in (old, new):
            await stores.groups.add(group)
        ann, bob = [await world.add_user(f"{name}-{number}", old.name) for name in ("ann", "bob")]
        account = await stores.principals.get(world.org_id, ann.id)
        assert account is not None
        both = frozenset({old.name, new.name})
        rule = AccessRule(uuid4(), world.org_id, f"rule-{number}", groups=both, created_at=world.clock())
        outcomes = await asyncio.gather(
            stores.users.update(replace(account, principal=replace(ann, groups=both))),
            stores.principals.set_groups(bob.id, both, GroupSource.PROVIDER),
            stores.groups.update(replace(old, name=f"renamed-{number}")),
            stores.groups.remove(new),
            stores.access_rules.add(rule),
            return_exceptions=True,
        )
        assert [one for one in outcomes if isinstance(one, BaseException) and not isinstance(one, Conflict)] == []
        there, used = await names_of(world)
        found = await stores.access_rules.get(world.org_id, rule.name)
        assert used | (found.groups if found else set()) <= there


async def test_concurrent_first_logins_create_the_same_group_once(world: World) -> None:
    for number in range(8):
        people = [await world.add_user(f"{name}-{number}") for name in ("ann", "bob", "cat")]
        given = frozenset({f"of the provider {number}"})
        logins = (world.stores.principals.set_groups(one.id, given, GroupSource.PROVIDER) for one in people)
        assert await asyncio.gather(*logins) == [None, None, None]


async def test_group_that_became_a_role_group_is_not_removed_by_a_stale_request(world: World) -> None:
    crew = UserGroup(uuid4(), world.org_id, "crew", world.clock())
    await world.stores.groups.add(crew)
    own = await world.stores.organisations.default()
    await world.stores.organisations.update(replace(own, role_groups=RoleGroups("crew", "auditor")))
    for write in (world.stores.groups.remove(crew), world.stores.groups.update(replace(crew, name="other"))):
        with pytest.raises(Conflict, match="changed by another request"):
            await write
