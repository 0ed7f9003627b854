"""Rows of stored segments, and leases."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy.exc import IntegrityError
from tests.support.recordings import new_session
from tests.support.world import START, World

from postern.domain.sessions.segment import Segment
from postern.store.database import Database
from postern.store.sql.sql_leases import SqlLeases


async def test_segment_row_is_stored_unchanged_and_never_replaced(world: World, tmp_path: Path) -> None:
    made, store = await new_session(world, tmp_path), world.stores.segments
    first = Segment(
        made.id, world.org_id, 1, b"d" * 32, b"c" * 32, 2**40, 7, 0, 2**40, 3, False, "a/b", START, "damage", 2
    )
    second = replace(first, number=2, is_last=True, damage="")
    assert await store.add(second)
    assert await store.add(first)
    assert not await store.add(replace(first, digest=b"x" * 32))
    assert await store.of(made.id) == [first, second]
    assert await store.of(uuid4()) == []
    assert await store.origin(made.id) == (world.org_id, made.session.start_date)
    assert await store.origin(uuid4()) is None


async def test_concurrent_additions_of_a_segment_store_one(world: World, tmp_path: Path) -> None:
    made = await new_session(world, tmp_path)
    row = Segment(made.id, world.org_id, 1, b"d" * 32, b"c" * 32, 1, 1, 0, 0, 0, True, "a/b", START)
    assert sorted(await asyncio.gather(*(world.stores.segments.add(row) for _ in range(8)))) == [False] * 7 + [True]


async def test_segment_without_a_session_is_rejected(world: World) -> None:
    row = Segment(uuid4(), world.org_id, 1, b"d" * 32, b"c" * 32, 1, 1, 0, 0, 0, True, "a/b", START)
    with pytest.raises(IntegrityError):
        await world.stores.segments.add(row)


async def test_archive_lease_has_one_holder_at_a_time(database: Database) -> None:
    leases, lasts = SqlLeases(database), timedelta(seconds=30)
    taken = await asyncio.gather(*(leases.take("list", f"m{number}", START, lasts) for number in range(6)))
    assert sum(taken) == 1
    holder = f"m{taken.index(True)}"
    assert await leases.take("list", holder, START + timedelta(seconds=20), lasts)  # renewed
    assert not await leases.take("list", "other", START + timedelta(seconds=31), lasts)
    assert await leases.take("another", "other", START, lasts)
    assert await leases.take("list", "other", START + timedelta(seconds=50), lasts)
    await leases.release("list", holder)  # not its own any more
    assert not await leases.take("list", holder, START + timedelta(seconds=51), lasts)
    await leases.release("list", "other")
    assert await leases.take("list", holder, START + timedelta(seconds=51), lasts)
