"""Which agents `postern doctor --gateway` finds offline, by what the store knows."""

from __future__ import annotations

from datetime import timedelta

from tests.support.world import World

from postern.domain.targets.agent import ALIVE_FOR
from postern.store.database import Database
from postern.wiring.host.checks import find_offline_agents


async def test_agents_that_were_not_heard_of_lately_are_found_with_their_connections(database: Database) -> None:
    world = await World.make(database)
    edge = await world.add_agent("edge")
    for name in ("orders", "billing"):
        await world.add_connection(name, agent=edge)
    assert await find_offline_agents(database, world.clock.now) == []
    later = world.clock.now + ALIVE_FOR + timedelta(seconds=1)
    found = [one for one in await find_offline_agents(database, later) if one[0] == "edge"]
    assert found == [("edge", "gateway", ["billing", "orders"])]
