"""Issue templates in the store, and the connections that use one. On both engines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.world import World

from postern.domain.identity.organisation import Organisation
from postern.domain.issues.issue import CmdbField, FieldMapping, IssueTemplate, MappingType, Prompt, PromptType
from postern.domain.lists import Page
from postern.domain.rules.access import Reach
from postern.domain.targets.connection import Connection
from postern.errors import Conflict, Malformed, NotFound
from postern.store.schema.issue_tables import issue_templates

ODD = "a:b, 'c' \u00e9\u4e2d"


def template_of(world: World, name: str = "changes", **fields: Any) -> IssueTemplate:
    empty = IssueTemplate(uuid4(), world.org_id, name, "OPS", "10")
    return replace(empty, **{"created_at": world.clock(), "updated_at": world.clock(), **fields})


async def added(world: World, name: str, **fields: Any) -> Connection:
    return await connection_of(world, await world.add_connection(name, **fields))


async def connection_of(world: World, connection: Connection) -> Connection:
    found = await world.stores.connections.get(world.org_id, str(connection.id))
    assert found is not None
    return found


def having(template: IssueTemplate, *connection_ids: UUID) -> IssueTemplate:
    return replace(template, connection_ids=connection_ids)


async def bound(world: World, template: IssueTemplate) -> tuple[UUID, ...]:
    found = await world.stores.issue_templates.get(world.org_id, str(template.id))
    assert found is not None
    assert found == replace(template, connection_ids=found.connection_ids, version=found.version)
    return found.connection_ids or ()


async def change(world: World, template: IssueTemplate) -> None:
    """Write a template on top of its latest version."""
    found = await world.stores.issue_templates.get(world.org_id, str(template.id))
    await world.stores.issue_templates.update(replace(template, version=found.version if found else 1))


async def test_issue_template_is_stored_unchanged(world: World) -> None:
    template = template_of(
        world,
        description=ODD,
        transition="Closed",
        mappings=(
            FieldMapping("summary", MappingType.PRESET, "session.connection", ODD),
            FieldMapping("priority", MappingType.CUSTOM, "High"),
        ),
        prompts=(Prompt("when", "When?", PromptType.DATETIME, required=True, description=ODD), Prompt("why", "Why?")),
        cmdb=(CmdbField("asset", "Server", required=True, value="shop-db"), CmdbField("team", "Team")),
    )
    await world.stores.issue_templates.add(template)
    assert await bound(world, template) == ()
    bare = replace(template_of(world, "other"), id=template.id)
    await world.stores.issue_templates.update(bare)
    assert await bound(world, bare) == ()
    await world.stores.issue_templates.remove(replace(bare, version=2))
    assert await world.stores.issue_templates.get(world.org_id, str(template.id)) is None
    with pytest.raises(NotFound, match="the issue template 'other' no longer exists"):
        await world.stores.issue_templates.update(bare)


async def test_issue_template_claims_its_connections_from_other_templates(world: World) -> None:
    shop, other, third = [await added(world, name) for name in ("shop", "other", "third")]
    first, second = template_of(world, "first"), template_of(world, "second")
    await world.stores.issue_templates.add(having(first, shop.id, other.id))
    assert await bound(world, first) == (other.id, shop.id)
    world.clock.forward(seconds=1)
    second = replace(second, updated_at=world.clock())
    await world.stores.issue_templates.add(having(second, shop.id))
    assert (await bound(world, first), await bound(world, second)) == ((other.id,), (shop.id,))
    kept = await connection_of(world, shop)
    assert kept == replace(shop, issue_template_id=str(second.id), updated_at=second.updated_at, version=3)
    assert (await connection_of(world, other)).updated_at == other.updated_at
    await change(world, first)
    assert await bound(world, first) == (other.id,)
    world.clock.forward(seconds=1)
    first = replace(first, updated_at=world.clock())
    await change(world, having(first, third.id))
    assert await bound(world, first) == (third.id,)
    assert await connection_of(world, other) == replace(other, updated_at=world.clock(), version=3)
    found = await world.stores.issue_templates.find(world.org_id, Page())
    assert [one.connection_ids for one in found.items] == [(third.id,), (shop.id,)]


async def test_connection_sets_and_clears_its_issue_template(world: World) -> None:
    template = template_of(world)
    await world.stores.issue_templates.add(template)
    shop = await added(world, "shop", issue_template_id=str(template.id))
    assert await bound(world, template) == (shop.id,)
    await world.overwrite(shop, issue_template_id=None)
    assert await bound(world, template) == ()
    shop = await world.overwrite(shop)
    await world.stores.connections.remove(shop)
    assert await bound(world, template) == ()


@pytest.mark.parametrize(
    "side", ["connection gets the template", "connection loses the template", "other template takes the connection"]
)
async def test_stale_write_of_an_issue_template_is_a_conflict(world: World, side: str) -> None:
    template, other = template_of(world), template_of(world, "other")
    await world.stores.issue_templates.add(other)
    await world.stores.issue_templates.add(template)
    shop = await added(
        world, "shop", issue_template_id=None if side == "connection gets the template" else str(template.id)
    )
    read = await world.stores.issue_templates.get(world.org_id, "changes")
    assert read is not None
    if side == "other template takes the connection":
        await change(world, having(other, shop.id))
    else:
        key = str(template.id) if side == "connection gets the template" else None
        await world.overwrite(shop, issue_template_id=key)
    now = await bound(world, template)
    with pytest.raises(Conflict, match="was changed by another request"):
        await world.stores.issue_templates.update(read)
    with pytest.raises(Conflict, match="was changed by another request"):
        await world.stores.issue_templates.remove(read)
    assert await bound(world, template) == now != read.connection_ids


async def test_removed_issue_template_is_cleared_from_its_connections(world: World) -> None:
    first, second = template_of(world, "first"), template_of(world, "second")
    for template in (first, second):
        await world.stores.issue_templates.add(template)
    shop = await added(world, "shop", issue_template_id=str(first.id))
    other = await added(world, "other", issue_template_id=str(second.id))
    world.clock.forward(seconds=1)
    [removed] = await world.stores.issue_templates.select(issue_templates.c.id == first.id)
    await world.stores.issue_templates.remove(replace(removed, updated_at=world.clock()))
    assert await connection_of(world, shop) == replace(
        shop, issue_template_id=None, updated_at=world.clock(), version=2
    )
    assert await connection_of(world, other) == other
    with pytest.raises(Conflict, match="was just deleted; choose another"):
        await world.overwrite(shop)
    with pytest.raises(Conflict, match="was just deleted; choose another"):
        await added(world, "third", issue_template_id=str(first.id))
    assert await world.stores.connections.get(world.org_id, "third") is None


async def test_attack_template_and_connection_of_different_organisations_cannot_be_linked(world: World) -> None:
    other = Organisation(uuid4(), "acme", world.clock())
    await world.stores.organisations.add(other)
    shop = await added(world, "shop")
    theirs = replace(template_of(world), org_id=other.id)
    with pytest.raises(NotFound, match=f"connection_ids: there is no connection with id '{shop.id}'"):
        await world.stores.issue_templates.add(having(theirs, shop.id))
    assert await world.stores.issue_templates.get(other.id, str(theirs.id)) is None
    await world.stores.issue_templates.add(theirs)
    with pytest.raises(Conflict, match="tracker_issue_template_id: "):
        await world.overwrite(shop, issue_template_id=str(theirs.id))
    assert await connection_of(world, shop) == shop


async def test_connection_managed_by_an_agent_keeps_its_issue_template(world: World) -> None:
    shop = await added(world, "shop", managed_by="agent:apps")
    free = await added(world, "free")
    template = template_of(world)
    with pytest.raises(Malformed, match="'shop' is managed by agent:apps"):
        await world.stores.issue_templates.add(having(template, shop.id, free.id))
    assert await world.stores.issue_templates.get(world.org_id, str(template.id)) is None
    assert await connection_of(world, free) == free
    await world.stores.issue_templates.add(template)
    await world.overwrite(shop, issue_template_id=str(template.id))
    await change(world, having(template, shop.id, free.id))  # it has it, and keeps it
    with pytest.raises(Malformed, match="'shop' is managed by agent:apps"):
        await change(world, having(replace(template, name="new"), free.id))
    assert set(await bound(world, template)) == {shop.id, free.id}


async def test_scoped_list_has_only_templates_of_connections_in_scope(world: World) -> None:
    seen = await added(world, "seen", connection_tags={"team": "blue"})
    hidden = await added(world, "hidden")
    both, theirs = template_of(world, "both"), template_of(world, "theirs")
    await world.stores.issue_templates.add(having(both, seen.id, hidden.id))
    await world.stores.issue_templates.add(theirs)
    reach = Reach(tags=({"team": "blue"},))
    found = await world.stores.issue_templates.find(world.org_id, Page(), reach=reach)
    assert ([one.name for one in found.items], found.total) == (["both"], 1)
    assert found.items[0].connection_ids == (seen.id,)
    assert await world.stores.issue_templates.get(world.org_id, str(both.id), reach) == found.items[0]
    assert await world.stores.issue_templates.get(world.org_id, str(theirs.id), reach) is None
    assert (await world.stores.issue_templates.find(world.org_id, Page(), reach=Reach())).total == 0


async def test_attack_concurrent_removal_leaves_no_connection_with_a_missing_template(world: World) -> None:
    for number in range(8):
        template = template_of(world, f"template-{number}")
        own = await added(world, f"own-{number}")
        theirs = await added(world, f"theirs-{number}")
        await world.stores.issue_templates.add(template)
        by_connection, by_template, removed = await asyncio.gather(
            world.overwrite(own, issue_template_id=str(template.id)),
            world.stores.issue_templates.update(having(template, theirs.id)),
            world.stores.issue_templates.remove(template),
            return_exceptions=True,
        )
        refused = [one for one in (by_connection, by_template, removed) if isinstance(one, BaseException)]
        assert all(isinstance(one, Conflict | NotFound) for one in refused), refused
        if removed is None:
            assert await world.stores.issue_templates.get(world.org_id, str(template.id)) is None
        else:
            assert await bound(world, template)
        there = await world.stores.issue_templates.find_existing_ids(world.org_id, [template.id])
        for one in (own, theirs):
            has = (await connection_of(world, one)).issue_template_id
            assert has is None or UUID(has) in there


async def test_attack_templates_that_claim_the_same_connections_never_deadlock(world: World) -> None:
    all_of_them = [await added(world, f"shop-{number}") for number in range(6)]
    ids = [one.id for one in all_of_them]
    templates = [template_of(world, f"template-{number}") for number in range(3)]
    for template in templates:
        await world.stores.issue_templates.add(template)
    for _ in range(5):
        done = await asyncio.gather(
            *(change(world, having(template, *ids)) for template in templates),
            *(world.overwrite(one, issue_template_id=str(templates[0].id)) for one in all_of_them),
            return_exceptions=True,
        )
        assert all(isinstance(one, Conflict | Connection | None) for one in done), done
        assert not all(isinstance(one, Conflict) for one in done)
        has = [await bound(world, template) for template in templates]
        assert sorted(key for keys in has for key in keys) == sorted(ids)
