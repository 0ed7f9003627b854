from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.served import Served, served

from postern.store.database import Database


@pytest.fixture(scope="session")
def migrated_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store to copy: migrating one takes longer than most tests."""
    file = tmp_path_factory.mktemp("migrated") / "postern.db"

    async def make() -> None:
        database = Database(f"sqlite:///{file}")
        await database.migrate()
        await database.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, make()).result()
    return file


@pytest.fixture
def gate(tmp_path: Path, migrated_store: Path) -> Iterator[Served]:
    """A gateway's API over HTTP, and a command line that knows nothing yet."""
    with served(tmp_path, migrated_store) as running:
        yield running
