from __future__ import annotations

import pytest
from tests.services.reviews.desk import Desk
from tests.support.world import World


@pytest.fixture
async def desk(world: World) -> Desk:
    return await Desk.make(world)
