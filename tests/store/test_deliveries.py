"""The order in which sinks are served, on both engines."""

from __future__ import annotations

from uuid import uuid4

import pytest
from sqlalchemy import update
from tests.support.world import World

from postern.domain.event import EventKind
from postern.domain.sink import Sink, SinkKind
from postern.services.notifications.event_payloads import test_of as tried
from postern.store.schema.server_tables import sinks


async def waiting_sink(world: World, name: str) -> Sink:
    address, events, now = "https://siem.example.com/", (EventKind.SESSION_CLOSE,), world.clock()
    made = Sink(uuid4(), world.org_id, name, SinkKind.WEBHOOK, address, events, created_at=now, updated_at=now)
    await world.stores.sinks.add(made)
    await world.stores.deliveries.add(tried(made, world.clock()))
    return made


async def due(world: World) -> list[str]:
    return [one.name for one in await world.stores.deliveries.due(world.clock())]


async def test_sink_that_was_served_last_is_due_last(world: World) -> None:
    """Each sink gets its turn, however many there are."""
    store, made = world.stores.deliveries, {name: await waiting_sink(world, name) for name in "abc"}
    for name in "cab":
        world.clock.forward(seconds=1)
        (number, *_) = [one.number for one in await store.waiting(made[name].id, 1)]
        await store.mark_delivered(made[name].id, [number], world.clock())
    for name in "abc":
        await store.add(tried(made[name], world.clock()))
    assert await due(world) == ["c", "a", "b"]
    await waiting_sink(world, "new")
    assert await due(world) == ["new", "c", "a", "b"]


async def test_sink_that_cannot_be_decrypted_does_not_block_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    broken = await waiting_sink(world, "broken")
    await waiting_sink(world, "siem")
    other = (await waiting_sink(world, "other")).id
    async with world.database.statement() as connection:
        stolen = sinks.alias()
        theirs = stolen.select().with_only_columns(stolen.c.secret).where(stolen.c.id == other).scalar_subquery()
        await connection.execute(update(sinks).where(sinks.c.id == broken.id).values(secret=theirs))
    assert sorted(await due(world)) == ["other", "siem"]
    assert str(broken.id) in caplog.text
