"""One gateway for each store: who claims it first has it until it stops or falls silent."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.support.world import FakeClock

from postern.errors import Conflict
from postern.services.store_claim import EXPIRES, StoreClaim
from postern.store.database import Database
from postern.store.sql.sql_leases import SqlLeases

SECOND = timedelta(seconds=1)


@pytest.fixture
async def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def leases(database: Database) -> SqlLeases:
    return SqlLeases(database)


def claim(leases: SqlLeases, clock: FakeClock, gateway: str, place: str = "") -> StoreClaim:
    return StoreClaim(leases, gateway, place or f"/srv/{gateway}", clock)


async def test_a_second_gateway_is_refused_with_the_folder_and_the_age(leases: SqlLeases, clock: FakeClock) -> None:
    await claim(leases, clock, "one").take()
    clock.now += 12 * SECOND
    with pytest.raises(Conflict) as refused:
        await claim(leases, clock, "two").take()
    said = refused.value.message
    for part in ("data folder /srv/one", "12 s ago", "one gateway for each store", "60 s", "POSTERN_DATABASE_URL"):
        assert part in said


async def test_the_same_data_folder_comes_back_at_once(leases: SqlLeases, clock: FakeClock) -> None:
    await claim(leases, clock, "one").take()
    await claim(leases, clock, "one").take()


async def test_a_copied_data_folder_is_another_gateway(leases: SqlLeases, clock: FakeClock) -> None:
    await claim(leases, clock, "one", "/srv/one").take()
    with pytest.raises(Conflict):
        await claim(leases, clock, "one", "/srv/copy").take()


async def test_a_claim_lasts_as_long_as_it_is_renewed_and_a_minute_more(leases: SqlLeases, clock: FakeClock) -> None:
    first, second = claim(leases, clock, "one"), claim(leases, clock, "two")
    for _ in range(5):
        await first.take()
        clock.now += EXPIRES - SECOND
        with pytest.raises(Conflict):
            await second.take()
    clock.now += SECOND
    await second.take()
    with pytest.raises(Conflict):
        await first.take()  # it was silent for too long: now it must stop


async def test_a_released_claim_is_free_and_nobody_releases_that_of_another(
    leases: SqlLeases, clock: FakeClock
) -> None:
    first, second = claim(leases, clock, "one"), claim(leases, clock, "two")
    await first.take()
    await second.release()
    with pytest.raises(Conflict):
        await second.take()
    await first.release()
    await second.take()


async def test_of_gateways_that_start_at_the_same_instant_one_has_the_store(
    leases: SqlLeases, clock: FakeClock
) -> None:
    claims = [claim(leases, clock, str(number)) for number in range(8)]
    for _ in range(5):
        taken = await asyncio.gather(*(one.take() for one in claims), return_exceptions=True)
        assert sorted(str(type(one).__name__) for one in taken) == ["Conflict"] * 7 + ["NoneType"]
        await claims[taken.index(None)].release()
