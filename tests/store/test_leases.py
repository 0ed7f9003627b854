from __future__ import annotations

import asyncio
from datetime import timedelta

from tests.support.world import START

from postern.store.database import Database
from postern.store.sql.sql_leases import SqlLeases

MINUTE = timedelta(minutes=1)


async def test_lease_has_one_holder_at_a_time_and_expires(database: Database) -> None:
    leases = SqlLeases(database)
    assert await leases.take("work", "a", START, MINUTE)
    assert not await leases.take("work", "b", START, MINUTE)
    assert await leases.take("other", "b", START, MINUTE)
    assert await leases.take("work", "a", START + MINUTE / 2, MINUTE)
    assert not await leases.take("work", "b", START + MINUTE, MINUTE)
    assert await leases.take("work", "b", START + 2 * MINUTE, MINUTE)
    await leases.release("work", "a")
    assert not await leases.take("work", "a", START + 2 * MINUTE, MINUTE)
    await leases.release("work", "b")
    assert await leases.take("work", "a", START + 2 * MINUTE, MINUTE)


async def test_concurrent_requests_give_a_lease_to_one(database: Database) -> None:
    leases = SqlLeases(database)
    taken = await asyncio.gather(*(leases.take("work", str(number), START, MINUTE) for number in range(20)))
    assert sum(taken) == 1
