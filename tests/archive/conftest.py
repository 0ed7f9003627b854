from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.recordings import BrokenBlobs
from tests.support.world import World

from postern.archive.folder import FolderBlobs
from postern.recording.layout import recordings_folder
from postern.store.database import Database


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def blobs(home: Path) -> BrokenBlobs:
    return BrokenBlobs(FolderBlobs(recordings_folder(home)))
