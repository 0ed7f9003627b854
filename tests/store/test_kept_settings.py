"""Settings of an organisation in the store. On both engines."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from tests.support.world import World

from postern.domain.identity.organisation import Organisation


async def test_setting_is_added_once_and_removed(world: World) -> None:
    store, at = world.stores.settings, world.clock()
    other = Organisation(uuid4(), "acme", at)
    await world.stores.organisations.add(other)
    assert await store.add(world.org_id, "tracker", {"url": "a"}, at)
    assert not await store.add(world.org_id, "tracker", {"url": "b"}, at)
    assert await store.add(other.id, "tracker", {"url": "c"}, at)
    assert await store.get(world.org_id, "tracker") == {"url": "a"}
    await store.remove(world.org_id, "tracker")
    await store.remove(world.org_id, "tracker")
    assert await store.get(world.org_id, "tracker") is None
    assert await store.get(other.id, "tracker") == {"url": "c"}
    assert await store.add(world.org_id, "tracker", {"url": "d"}, at)


async def test_concurrent_additions_of_a_setting_store_one(world: World) -> None:
    store, at = world.stores.settings, world.clock()
    added = await asyncio.gather(*(store.add(world.org_id, "tracker", {"by": n}, at) for n in range(8)))
    assert await store.get(world.org_id, "tracker") == {"by": added.index(True)}
    assert sum(added) == 1


async def test_setting_is_changed_only_if_unchanged_since_it_was_read(world: World) -> None:
    store, at = world.stores.settings, world.clock()
    assert not await store.change(world.org_id, "tracker", {}, {"url": "a"}, at)
    await store.add(world.org_id, "tracker", {"url": "a"}, at)
    assert not await store.change(world.org_id, "tracker", {"url": "b"}, {"url": "c"}, at)
    assert not await store.change(uuid4(), "tracker", {"url": "a"}, {"url": "c"}, at)
    assert await store.get(world.org_id, "tracker") == {"url": "a"}
    changed = await asyncio.gather(
        *(store.change(world.org_id, "tracker", {"url": "a"}, {"by": n}, at) for n in range(8))
    )
    assert await store.get(world.org_id, "tracker") == {"by": changed.index(True)}
    assert sum(changed) == 1
