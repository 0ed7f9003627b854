"""Fixtures of the recording tests: a header, and spools in a temporary data folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from postern.recording import spool
from postern.recording.group_commit import GroupCommit
from postern.recording.layout import spool_path
from postern.recording.record_format import Header
from postern.recording.segments import Segments
from postern.recording.spool import Spool

MakeSpool = Callable[..., Spool]
MakeSegments = Callable[..., Segments]


@pytest.fixture
def header() -> Header:
    started = datetime(2026, 3, 7, 10, 30, tzinfo=UTC)
    return Header(uuid4(), uuid4(), "postgres", "shop", "ann@example.com", started)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(params=["written", "mapped"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How spools append: each record by a system call, or all small ones after the header through a mapping."""
    if request.param == "mapped":
        monkeypatch.setattr(spool, "MAPPED_AFTER", 1)
    return str(request.param)


@pytest.fixture
def make_spool(home: Path, header: Header) -> Iterator[MakeSpool]:
    made: list[Spool] = []

    def make(session: UUID | None = None, worker: str = "w1") -> Spool:
        own = header if session is None else replace(header, session=session)
        made.append(Spool.create(spool_path(home, worker, own.session), own))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def commits() -> Iterator[GroupCommit]:
    made = GroupCommit(0.005)
    yield made
    made.close()


@pytest.fixture
def make_segments(home: Path, header: Header, commits: GroupCommit) -> Iterator[MakeSegments]:
    """The first ones are of the session of `header`."""
    made: list[Segments] = []

    def make(**limits: int) -> Segments:
        segments = Segments(commits, home, "w1", replace(header, session=uuid4()) if made else header, **limits)
        made.append(segments)
        return segments

    yield make
    for segments in made:
        commits.unregister(segments.spool)
        segments.spool.close()
