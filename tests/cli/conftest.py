from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.served import Served, served


@pytest.fixture
def gate(tmp_path: Path, migrated: Path) -> Iterator[Served]:
    """A gateway's API over HTTP, and a command line that knows nothing yet."""
    with served(tmp_path, migrated) as running:
        yield running
