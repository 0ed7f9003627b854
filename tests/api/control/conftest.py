"""A control service, and agents that attend at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from tests.support.control import Attending, Place
from tests.support.world import World

from postern.domain.targets.agent import AgentKey
from postern.store.database import Database

Attend = Callable[..., Attending]


@pytest.fixture
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('control') / 'postern.db'}")
    await database.migrate()
    made = await Place.make(await World.make(database))
    yield made
    await made.stop()
    await database.close()


@pytest.fixture
async def attend() -> AsyncIterator[Attend]:
    made: list[Attending] = []

    def start(key: AgentKey, **fields: object) -> Attending:
        made.append(Attending(key, **fields))  # type: ignore[arg-type]
        return made[-1]

    yield start
    await asyncio.gather(*(one.stop() for one in made))
