from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from sqlalchemy import update
from tests.support.ended import begin, had
from tests.support.world import World

from postern.domain.event import EventKind
from postern.domain.sink import NewDelivery, Sink, SinkKind, SinkStatus, Trouble
from postern.metrics.metric_catalogue import METRICS
from postern.store.database import Database
from postern.store.schema.session_tables import sessions
from postern.store.sql.sessions import sql_backlog
from postern.store.sql.sessions.sql_backlog import SqlBacklog


async def test_backlog_metrics_of_an_empty_store_are_zero(database: Database, world: World) -> None:
    found = await SqlBacklog(database).look(world.clock())
    assert set(found.values()) == {0.0}
    assert set(found) <= set(METRICS)


async def test_backlog_metrics_show_the_oldest_pending_work(database: Database, world: World) -> None:
    ann, shop = await world.add_user("ann"), await world.add_connection("shop")
    look = SqlBacklog(database).look
    await begin(world, ann, shop)  # runs: nothing of it is late
    assert (await look(world.clock()))["postern_ledger_lag_seconds"] == 0
    await had(world, ann, shop)
    world.clock.forward(seconds=50)
    await had(world, ann, shop)
    found = await look(world.clock() + timedelta(seconds=10))
    assert found["postern_ledger_lag_seconds"] == 58
    assert found["postern_follow_up_sessions"] >= 2
    async with database.statement() as connection:
        await connection.execute(update(sessions).values(closed_entry=1, pending=0))
    found = await look(world.clock())
    assert (found["postern_ledger_lag_seconds"], found["postern_follow_up_sessions"]) == (0, 0)


async def test_backlog_metrics_show_failing_sinks_and_waiting_events(database: Database, world: World) -> None:
    now, org = world.clock(), world.org_id
    events = (EventKind.SESSION_CLOSE,)
    made = [
        Sink(uuid4(), org, name, SinkKind.WEBHOOK, "https://x", events, status, created_at=now, updated_at=now)
        for name, status in (("late", SinkStatus.ACTIVE), ("well", SinkStatus.ACTIVE), ("paused", SinkStatus.PAUSED))
    ]
    for sink in made:
        await world.stores.sinks.add(sink)
        new = NewDelivery(sink.id, org, uuid4(), EventKind.SESSION_CLOSE, now, "{}")
        number = await world.stores.deliveries.add(new)
        if sink.name != "well":
            trouble = Trouble(3, now - timedelta(minutes=10), "away", now)
            await world.stores.deliveries.mark_failed(sink.id, number, trouble, now, give_up=False)
    found = await SqlBacklog(database).look(now)
    assert (found["postern_sinks_failing"], found["postern_sink_lag_seconds"]) == (1, 600)
    assert found["postern_sink_events_waiting"] == 3


async def test_backlog_count_stops_at_its_limit(database: Database, world: World) -> None:
    ann, shop = await world.add_user("ann"), await world.add_connection("shop")
    for _ in range(4):
        await had(world, ann, shop)
    before, sql_backlog.MOST = sql_backlog.MOST, 3
    try:
        assert (await SqlBacklog(database).look(world.clock()))["postern_follow_up_sessions"] == 3
    finally:
        sql_backlog.MOST = before
