"""Queries that look for what can be purged."""

from __future__ import annotations

from uuid import uuid4

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.dialects import postgresql, sqlite
from tests.support.sessions import add_session
from tests.support.world import World

from postern.domain.sessions.ledger import EntryKind
from postern.services.recordings.recording_ledger import Ledger
from postern.store.database import Database
from postern.store.sql.recordings.sql_purges import _free, _select_ended


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database)


async def test_purge_queries_never_read_the_whole_ledger(world: World) -> None:
    """SQLite uses a partial index only if the query repeats the condition of the index."""
    await Ledger(world.stores.ledger, world.clock).note(world.org_id, EntryKind.HELD, uuid4(), hold="x", by="y")
    is_sqlite = world.database.is_sqlite
    dialect = sqlite.dialect() if is_sqlite else postgresql.dialect()  # type: ignore[no-untyped-call]
    for statement in (_free([uuid4(), uuid4()]), _select_ended()):
        words = str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))

        def run(connection: Connection, words: str = words) -> list[str]:
            if is_sqlite:
                return [str(row[-1]) for row in connection.execute(text(f"explain query plan {words}"))]
            connection.execute(text("set local enable_seqscan = off"))
            return [str(row[0]) for row in connection.execute(text(f"explain {words}"))]

        plan = await world.database.together(run)
        assert not [line for line in plan if "SCAN ledger" in line or "Seq Scan on ledger" in line], plan
        if "count" in words:
            assert [line for line in plan if "ix_ledger_keeping" in line], plan


async def test_clock_jump_delays_purging(world: World) -> None:
    tick, clock = world.stores.purges.tick, world.clock
    first = await tick(clock.now, 100.0, 50.0)
    assert first == clock.now  # a new store has no sessions that a wrong clock could purge
    clock.forward(seconds=60)
    assert await tick(clock.now, 100.0, 50.0) == first
    clock.forward(seconds=101)
    jumped = await tick(clock.now, 100.0, 50.0)
    assert (jumped - clock.now).total_seconds() == 50
    clock.forward(seconds=-200)
    back = await tick(clock.now, 100.0, 50.0)
    assert (back - clock.now).total_seconds() == 50


async def test_first_round_over_existing_sessions_delays_purging(world: World) -> None:
    await add_session(world, await world.add_user("ann"))
    until = await world.stores.purges.tick(world.clock.now, 100.0, 50.0)
    assert (until - world.clock.now).total_seconds() == 50
