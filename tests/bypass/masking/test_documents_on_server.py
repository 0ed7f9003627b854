"""What answers of a real server show of masked fields, by two databases that differ only in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.bypass.masking.attacks_mongodb import ATTACKS
from tests.bypass.masking.documents import SECRETS, RandomPipelines, fill, find_leak, run

PIPELINES = 3_000
# Their channels are documented, or they change the databases.
_LEFT_OUT = ("$merge", "$out", "$changeStream", "$sort", "$densify", "$setWindowFields", "findAndModify", "findandmodify",
             "getMore", "collMod", '"create"', '"drop', "renameCollection", "system.", '"admin"', '"other"')  # fmt: skip
_CHANNELS = frozenset({"filtering", "ordering", "counting", "parked"})


@pytest.fixture(scope="module")
def databases() -> Iterator[tuple[Any, Any]]:
    mongodb = pytest.importorskip("tests.support.mongodb")
    with mongodb.running_mongodb(auth=False) as server, server.client() as client:
        for database, secrets in zip(("leak_a", "leak_b"), SECRETS, strict=True):
            fill(client[database], secrets)
        yield client["leak_a"], client["leak_b"]


def compare(databases: tuple[Any, Any], text: str) -> str | None:
    """Return what the answers show; None if the server rejects the command."""
    try:
        one, other = (run(database, text) for database in databases)
    except Exception:
        return None
    return find_leak(text, (one, other))


@pytest.mark.huge
def test_attacks_show_nothing_of_masked_fields(databases: tuple[Any, Any]) -> None:
    texts = [
        attack.steps[-1]
        for attack in ATTACKS
        if attack.group not in _CHANNELS and not any(word in step for step in attack.steps for word in _LEFT_OUT)
    ]
    found = [compare(databases, text) for text in texts]
    assert [leak for leak in found if leak] == []
    assert found.count("") >= 100


@pytest.mark.huge
@pytest.mark.parametrize("seed", range(3))
def test_random_pipelines_show_nothing_of_masked_fields(databases: tuple[Any, Any], seed: int) -> None:
    pipelines = RandomPipelines(seed)
    found = [compare(databases, pipelines.make()) for _ in range(PIPELINES)]
    assert [leak for leak in found if leak] == []
    assert found.count("") >= PIPELINES // 2
