from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.recorded import Records
from tests.support.world import World


@pytest.fixture
async def records(world: World, tmp_path: Path) -> Records:
    folder = tmp_path / "recordings"
    folder.mkdir()
    return await Records.make(world, folder)
