"""Which relay workers live."""

from __future__ import annotations

from uuid import uuid4

from tests.support.world import World

from postern.domain.worker import LIVES_FOR, RelayWorker
from postern.store.ports.common_ports import Topic


async def test_all_are_told_when_a_worker_comes_and_when_it_stops(world: World) -> None:
    workers = world.services().relay_workers
    one = RelayWorker(uuid4(), "w1", world.clock(), world.clock())
    await workers.beat(one)
    await workers.beat(one)
    assert len(world.signals.of(Topic.WORKERS_CHANGED)) == 1
    assert [found.id for found in await workers.living()] == [one.id]
    await workers.mark_stopped(one.id)
    assert len(world.signals.of(Topic.WORKERS_CHANGED)) == 2
    assert await workers.living() == []


async def test_a_worker_that_says_nothing_any_more_is_dead_and_then_forgotten(world: World) -> None:
    services = world.services()
    one = RelayWorker(uuid4(), "w1", world.clock(), world.clock())
    await services.relay_workers.beat(one)
    world.clock.forward(seconds=LIVES_FOR.total_seconds() - 1)
    assert len(await services.relay_workers.living()) == 1
    world.clock.forward(seconds=1)
    assert await services.relay_workers.living() == []
    await services.relay_workers.beat(one)  # it was only slow
    assert len(await services.relay_workers.living()) == 1
    world.clock.forward(days=1)
    await services.relay_workers.prune()
    assert await world.stores.workers.living(one.started_at) == []
