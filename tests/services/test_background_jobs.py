"""What is done again and again; and what has lost its meaning is forgotten."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from datetime import timedelta

from sqlalchemy import func, select
from tests.support.promises import until
from tests.support.world import CLIENT, World

from postern.domain.identity.login import LoginMethod, TokenPurpose
from postern.errors import Unavailable
from postern.services.background_jobs import BackgroundJobs, Task
from postern.services.identity.logins.logins import LOGIN_LIFE
from postern.services.server.idempotency import KEPT_FOR
from postern.store.schema.identity_tables import logins, one_time_tokens
from postern.store.schema.server_tables import idempotency_keys


async def test_old_logins_tokens_and_answers_go(world: World) -> None:
    services = world.services()
    user = await world.add_user("ann")
    await services.logins.open(await services.users.own(user), LoginMethod.LOCAL, CLIENT)
    payload = {"user_id": str(user.id)}
    await services.one_time_tokens.issue(TokenPurpose.SETUP, payload, timedelta(hours=1))
    assert await world.stores.idempotency.begin(user, b"d" * 32, b"f" * 32, world.clock(), KEPT_FOR) is None
    world.clock.forward(seconds=(2 * LOGIN_LIFE + KEPT_FOR).total_seconds())
    recent = await services.one_time_tokens.issue(TokenPurpose.SETUP, payload, timedelta(hours=1))
    for prune in (services.logins.prune, services.one_time_tokens.prune, services.idempotency.prune):
        await prune()
    async with world.database.statement() as connection:
        assert (await connection.execute(select(func.count()).select_from(logins))).scalar_one() == 0
        assert (await connection.execute(select(func.count()).select_from(one_time_tokens))).scalar_one() == 1
        assert (await connection.execute(select(func.count()).select_from(idempotency_keys))).scalar_one() == 0
    assert await services.one_time_tokens.take(TokenPurpose.SETUP, recent) == payload


async def test_a_task_that_fails_or_hangs_holds_up_no_other_and_ends_nothing() -> None:
    ran: Counter[str] = Counter()
    stopped: list[str] = []
    told: Counter[tuple[str, bool]] = Counter()

    async def good() -> None:
        ran["good"] += 1

    async def away() -> None:
        ran["away"] += 1
        raise Unavailable("the store does not answer")

    async def broken() -> None:
        ran["broken"] += 1
        raise ZeroDivisionError

    async def hanging() -> None:
        ran["hanging"] += 1
        await asyncio.Event().wait()

    async def greedy() -> bool:
        ran["greedy"] += 1
        return ran["greedy"] < 5

    async def stop() -> None:
        stopped.append("hanging")

    tasks = [
        Task("good", 0.01, good),
        Task("away", 0.01, away),
        Task("broken", 0.01, broken),
        Task("hanging", 0.01, hanging, longest=0.01, stop=stop),
        Task("greedy", 3600, greedy, goes_on=True),
    ]
    running = asyncio.create_task(
        BackgroundJobs(tasks, lambda name, _seconds, failed: told.update([(name, failed)])).forever()
    )
    await until(lambda: min(ran[task.name] for task in tasks) >= 3 and ran["greedy"] == 5)
    bad = ("away", "broken", "hanging")
    await until(lambda: told["good", False] >= 3 and all(told[name, True] >= 2 for name in bad))
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert ran["greedy"] == 5
    assert stopped == ["hanging"]
    assert told["good", False] >= 3
    assert not told["good", True]
    for name in bad:
        assert told[name, True] >= 2
        assert not told[name, False]


async def test_one_time_tokens_go_with_whom_they_are_for(world: World) -> None:
    services = world.services()
    ann, bob = await world.add_user("ann"), await world.add_user("bob")
    made = {
        user.id: await services.one_time_tokens.issue(TokenPurpose.SETUP, {"user_id": str(user.id)}, timedelta(hours=1))
        for user in (ann, bob)
    }
    await services.one_time_tokens.forget(TokenPurpose.SECOND_FACTOR, bob.id)
    await world.stores.principals.remove(ann.id)
    async with world.database.statement() as connection:
        assert (await connection.execute(select(func.count()).select_from(one_time_tokens))).scalar_one() == 1
    assert await services.one_time_tokens.peek(TokenPurpose.SETUP, made[bob.id])
    await services.one_time_tokens.forget(TokenPurpose.SETUP, bob.id)
    async with world.database.statement() as connection:
        assert (await connection.execute(select(func.count()).select_from(one_time_tokens))).scalar_one() == 0
