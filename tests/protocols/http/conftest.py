from __future__ import annotations

import pytest
from tests.support.world import World

from postern.store.database import Database


@pytest.fixture
async def world(sqlite_database: Database) -> World:
    return await World.make(sqlite_database)
