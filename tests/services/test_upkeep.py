"""What has lost its meaning is forgotten."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

import pytest
from sqlalchemy import func, select
from tests.support.world import CLIENT, World

from postern.domain.login import LoginMethod, VoucherPurpose
from postern.errors import Unavailable
from postern.services.identity.logins import LOGIN_LIFE
from postern.services.upkeep import ANSWERS_STAY
from postern.store.schema import logins, vouchers


async def test_old_logins_vouchers_and_answers_go(world: World) -> None:
    services = world.services()
    user = await world.add_user("ann")
    await services.logins.open(await services.users.own(user), LoginMethod.LOCAL, CLIENT)
    payload = {"user_id": str(user.id)}
    await services.vouchers.make(VoucherPurpose.SETUP, payload, timedelta(hours=1))
    assert await world.stores.idempotency.begin(user, b"d" * 32, b"f" * 32, world.clock(), ANSWERS_STAY) is None
    world.clock.forward(seconds=(2 * LOGIN_LIFE + ANSWERS_STAY).total_seconds())
    recent = await services.vouchers.make(VoucherPurpose.SETUP, payload, timedelta(hours=1))
    task = asyncio.create_task(services.upkeep.forever(0.01))
    await asyncio.sleep(0.3)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    async with world.database.statement() as connection:
        assert (await connection.execute(select(func.count()).select_from(logins))).scalar_one() == 0
        assert (await connection.execute(select(func.count()).select_from(vouchers))).scalar_one() == 1
    assert await world.stores.idempotency.begin(user, b"d" * 32, b"f" * 32, world.clock(), ANSWERS_STAY) is None
    assert await services.vouchers.take(VoucherPurpose.SETUP, recent) == payload


async def test_a_store_that_does_not_answer_does_not_end_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    services = world.services()
    await services.vouchers.make(VoucherPurpose.EXCHANGE, {}, timedelta(hours=1))
    world.clock.forward(hours=2)

    async def fail(*_: object) -> None:
        raise Unavailable("the store does not answer")

    monkeypatch.setattr(world.stores.logins, "prune", fail)
    await services.upkeep.once()
    async with world.database.statement() as connection:
        assert (await connection.execute(select(func.count()).select_from(vouchers))).scalar_one() == 0


async def test_vouchers_go_with_whom_they_are_for(world: World) -> None:
    services = world.services()
    ann, bob = await world.add_user("ann"), await world.add_user("bob")
    made = {
        user.id: await services.vouchers.make(VoucherPurpose.SETUP, {"user_id": str(user.id)}, timedelta(hours=1))
        for user in (ann, bob)
    }
    await services.vouchers.forget(VoucherPurpose.SECOND_FACTOR, bob.id)
    await world.stores.principals.remove(ann.id)
    async with world.database.statement() as connection:
        assert (await connection.execute(select(func.count()).select_from(vouchers))).scalar_one() == 1
    assert await services.vouchers.peek(VoucherPurpose.SETUP, made[bob.id])
    await services.vouchers.forget(VoucherPurpose.SETUP, bob.id)
    async with world.database.statement() as connection:
        assert (await connection.execute(select(func.count()).select_from(vouchers))).scalar_one() == 0
