"""The list of living relay workers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from tests.support.world import START

from postern.domain.worker import RelayWorker
from postern.store.database import Database
from postern.store.sql.targets.sql_relay_workers import SqlRelayWorkers


async def test_worker_is_listed_while_it_sends_heartbeats(database: Database) -> None:
    store = SqlRelayWorkers(database)
    first = RelayWorker(uuid4(), "w1", START, START)
    second = RelayWorker(uuid4(), "w2", START, START + timedelta(seconds=10))
    assert await store.beat(second)
    assert await store.beat(first)
    assert not await store.beat(first)
    assert await store.living(START - timedelta(seconds=1)) == [first, second]
    assert await store.living(START) == [second]
    later = replace(first, last_seen=START + timedelta(seconds=20))
    assert not await store.beat(later)
    assert await store.living(START) == [later, second]
    await store.forget(second.id)
    await store.forget(second.id)
    assert await store.living(START) == [later]


async def test_worker_without_heartbeats_is_pruned(database: Database) -> None:
    store = SqlRelayWorkers(database)
    dead = RelayWorker(uuid4(), "w1", START, START)
    alive = RelayWorker(uuid4(), "w1", START, START + timedelta(seconds=1))  # the same name, its next life
    for worker in (dead, alive):
        await store.beat(worker)
    await store.prune(START)
    assert await store.living(START - timedelta(days=1)) == [alive]
