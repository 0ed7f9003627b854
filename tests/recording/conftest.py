"""What the tests of the recording room share: a header, and spools in a home of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from postern.recording.layout import spool_path
from postern.recording.records import Header
from postern.recording.spool import Spool

MakeSpool = Callable[..., Spool]


@pytest.fixture
def header() -> Header:
    started = datetime(2026, 3, 7, 10, 30, tzinfo=UTC)
    return Header(uuid4(), "postgres", "shop", "ann@example.com", started)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def make_spool(home: Path, header: Header) -> Iterator[MakeSpool]:
    made: list[Spool] = []

    def make(session: UUID | None = None, worker: str = "w1") -> Spool:
        own = header if session is None else Header(session, "postgres", "shop", "ann@example.com", header.started_at)
        spool = Spool.create(spool_path(home, worker, own.session), own)
        made.append(spool)
        return spool

    yield make
    for spool in made:
        spool.close()
