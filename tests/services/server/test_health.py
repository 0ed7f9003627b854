"""Ready means: all parts are there. What is missing is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text
from tests.support.world import MACHINE, World

from postern.errors import Unavailable
from postern.services.bundle import Services


async def missing(services: Services) -> str:
    with pytest.raises(Unavailable) as caught:
        await services.health.require_ready()
    return caught.value.message


async def test_ready_while_a_worker_beats(world: World) -> None:
    services = world.services()
    assert await missing(services) == "not ready: workers: no relay worker is alive"
    await services.agents.ensure_embedded()
    await services.agents.beat()
    assert "workers" in await missing(services)  # what was found holds for a second
    world.clock.forward(seconds=1)
    await services.health.require_ready()
    world.clock.forward(seconds=16)
    assert "workers" in await missing(services)


async def test_a_lost_hub_and_tables_of_another_version_are_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = world.services()
    await services.agents.ensure_embedded()
    await services.agents.beat()
    await services.health.require_ready()
    monkeypatch.setattr(type(world.signals), "connected", False)
    async with world.database.transaction() as transaction:
        await transaction.execute(text("update alembic_version set version_num = '0000'"))
    world.clock.forward(seconds=1)
    said = await missing(services)
    assert "signals: the hub cannot be reached" in said
    assert "store: its tables have a different version" in said
    async with world.database.transaction() as transaction:
        await transaction.execute(text("drop table alembic_version"))
    world.clock.forward(seconds=1)
    assert "store: " in await missing(services)


async def test_what_is_wrong_with_recordings_is_named(world: World) -> None:
    trouble = "recordings: the disk has too little free space"
    services = world.services(replace(MACHINE, recordings=lambda: trouble))
    await services.agents.ensure_embedded()
    await services.agents.beat()
    assert await missing(services) == f"not ready: {trouble}"
    trouble = ""
    world.clock.forward(seconds=1)
    await services.health.require_ready()
