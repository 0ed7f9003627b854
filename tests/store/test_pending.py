"""Pending work of sessions is found by small index ranges, whatever else is pending."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, event
from tests.support.sessions import add_session, multiply
from tests.support.world import START, World

from postern.domain.identity.principal import Principal
from postern.domain.lists import Position
from postern.store.database import Database
from postern.store.ports.notification_ports import ALL, ENDED, OPENED, TO_TELL, UNCOUNTED, UNREAD
from postern.store.schema.session_tables import sessions

FUTURE = START + timedelta(days=3650)
PLACE = "ix_sessions_pending"


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database)


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


async def mark(world: World, key: UUID, bits: int) -> None:
    async with world.database.statement() as connection:
        await connection.execute(sessions.update().where(sessions.c.id == key).values(pending=bits))


async def explained(database: Database, ask: Callable[[], Awaitable[object]]) -> list[str]:
    """How the engine goes about what `ask` asks; on PostgreSQL each node with the rows that it has read."""
    heard: list[tuple[str, Any]] = []

    def hear(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        heard.append((statement, parameters))

    engine = database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", hear)
    await ask()
    event.remove(engine, "before_cursor_execute", hear)
    statement, parameters = next(one for one in heard if "pending" in one[0])

    def run(connection: Connection) -> list[str]:
        if database.is_sqlite:
            return [str(row[-1]) for row in connection.exec_driver_sql(f"explain query plan {statement}", parameters)]
        rows = connection.exec_driver_sql(f"explain (analyze, format json) {statement}", parameters).scalar_one()
        found = json.loads(rows) if isinstance(rows, str) else rows
        return list(nodes(found[0]["Plan"]))

    return await database.together(run)


def nodes(plan: dict[str, Any]) -> list[str]:
    read = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    own = [f"{plan['Node Type']} {plan.get('Index Name', '')} {read:.0f}"]
    return own + [line for part in plan.get("Plans", ()) for line in nodes(part)]


def check(database: Database, plan: list[str], most: int) -> None:
    """Every table is reached by an index, and no more rows are read than are asked for."""
    assert any(PLACE in line for line in plan), plan
    for line in plan:
        if database.is_sqlite:
            assert not line.startswith("SCAN sessions"), plan
            if PLACE in line:
                assert "(pending=?" in line, plan
        else:
            assert "Seq Scan" not in line, plan
            assert int(line.rsplit(" ", 1)[1]) <= most, plan


@pytest.mark.parametrize(("waits", "asked"), [(UNREAD, TO_TELL), (OPENED, ENDED | UNCOUNTED), (UNCOUNTED, UNREAD)])
@pytest.mark.ci
async def test_much_pending_work_of_one_kind_does_not_slow_down_another(
    world: World, ann: Principal, waits: int, asked: int
) -> None:
    own = await add_session(world, ann, at=START)
    await mark(world, own.id, 0)
    await multiply(world, waits)
    await mark(world, own.id, asked | waits)

    async def ask() -> list[UUID]:
        if asked == UNREAD:
            return [one.session.id for one in await world.stores.session_texts.unread(FUTURE, None, 50)]
        return [one.session.id for one in await world.stores.postprocessing.pending(asked, 50)]

    assert await ask() == [own.id]
    check(world.database, await explained(world.database, ask), 50)


@pytest.mark.slow
async def test_much_pending_work_is_read_in_bounded_pieces(world: World, ann: Principal) -> None:
    own = await add_session(world, ann, at=START)
    await multiply(world, UNREAD, 100_000)
    tell = world.stores.postprocessing.pending
    check(world.database, await explained(world.database, lambda: tell(TO_TELL, 50)), 50)
    assert [one.session.id for one in await tell(TO_TELL, 50)] == [own.id]
    texts = world.stores.session_texts
    assert own.end_date is not None
    place = Position(own.end_date, own.id)
    for before, after in ((FUTURE, None), (FUTURE, place), (START, None)):
        check(world.database, await explained(world.database, lambda: texts.unread(before, after, 50)), 50)  # noqa: B023


async def test_sessions_with_a_pending_bit_are_found_in_the_order_of_their_ends(world: World, ann: Principal) -> None:
    made = [await add_session(world, ann, at=START + timedelta(minutes=bits)) for bits in range(ALL + 1)]
    for bits, one in enumerate(made):
        await mark(world, one.id, bits)
    for wanted in range(1, ALL + 1):
        found = [one.bits for one in await world.stores.postprocessing.pending(wanted, 100)]
        assert found == [bits for bits in range(ALL + 1) if bits & wanted]
    assert [one.bits for one in await world.stores.postprocessing.pending(ALL, 3)] == [1, 2, 3]
    unread = await world.stores.session_texts.unread(FUTURE, None, 100)
    assert [one.session.id for one in unread] == [one.id for one in made[UNREAD:]]
    third = made[UNREAD + 2]
    assert third.end_date is not None
    rest = await world.stores.session_texts.unread(FUTURE, Position(third.end_date, third.id), 100)
    assert [one.session.id for one in rest] == [one.id for one in made[UNREAD + 3 :]]
    early = await world.stores.session_texts.unread(third.end_date, None, 100)
    assert [one.session.id for one in early] == [one.id for one in made[UNREAD : UNREAD + 2]]
