from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.running import Gateway
from tests.support.served import Served, served
from tests.support.sitting import Sitting


@pytest.fixture
def gate(tmp_path: Path, migrated: Path) -> Iterator[Served]:
    """A gateway's API over HTTP, and a command line that knows nothing yet."""
    with served(tmp_path, migrated) as running:
        yield running


@pytest.fixture
def sit(gateway: Gateway) -> Iterator[Callable[..., Sitting]]:
    made: list[Sitting] = []

    def open_one(*arguments: str) -> Sitting:
        made.append(Sitting(gateway, *arguments))
        return made[-1]

    yield open_one
    for one in made:
        one.close()
