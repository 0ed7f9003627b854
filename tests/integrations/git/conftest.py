from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support import gits
from tests.support.gits import Forge
from tests.support.processes import descendants, words
from tests.support.promises import PATIENT

from postern.domain.runbook import Repository, repository_name
from postern.integrations.git.fetcher import GitFetcher
from postern.integrations.git.messages import RepositoryPolicy

LOOPBACK = ("127.0.0.0/8", "::1/128")
_SOURCE = Path(__file__).resolve().parents[3] / "src"


def repository(url: str, **more: object) -> Repository:
    return replace(Repository(uuid4(), url, repository_name(url)), **more)  # type: ignore[arg-type]


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    with gits.forge(tmp_path) as made:
        yield made


@pytest.fixture
def plain_forge(tmp_path: Path) -> Iterator[Forge]:
    with gits.forge(tmp_path, tls=False) as made:
        yield made


@pytest.fixture
def fetcher(tmp_path: Path) -> Iterator[Callable[..., GitFetcher]]:
    """Of which nothing is left: no process, no file of theirs."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def make(policy: RepositoryPolicy | None = None, **more: object) -> GitFetcher:
        given = {"seconds": PATIENT, **more}
        environment = {**os.environ, "PYTHONPATH": str(_SOURCE), "TMPDIR": str(temporary)}
        return GitFetcher(policy or RepositoryPolicy(), environment, **given)  # type: ignore[arg-type]

    yield make
    assert not children()
    assert not list(temporary.iterdir())


def children() -> set[int]:
    """Those of ours that read or write repositories now."""
    return {one for one in descendants(os.getpid()) if "postern.integrations.git.child" in words(one)}
