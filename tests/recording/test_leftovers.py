"""Unfinished spools of ended sessions are completed by the same running worker."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.promises import wait_until

from postern.domain.sessions.session import EndReason
from postern.errors import RecordingFailed
from postern.interception.events import End, Note, Operation
from postern.recording import sealing
from postern.recording.group_commit import GroupCommit
from postern.recording.layout import sealed_path, spool_folder
from postern.recording.reader import SegmentReader
from postern.recording.record_format import Header, encode
from postern.recording.spool import Spool
from postern.recording.unfinished_spools import GAVE_UP, UnfinishedSpools

from .conftest import MakeSpool


@pytest.fixture
def leftovers(home: Path, commits: GroupCommit) -> Iterator[UnfinishedSpools]:
    made = UnfinishedSpools(spool_folder(home, "w1"), lambda: commits.busy, interval=0.02)
    yield made
    made.close()


def test_recording_without_end_record_gets_one(
    make_spool: MakeSpool, leftovers: UnfinishedSpools, home: Path, header: Header
) -> None:
    spool = make_spool()
    spool.append(encode(Operation(1, "select 1"), 5))
    spool.close()
    assert leftovers.repair() == 1
    with SegmentReader(sealed_path(home, header.session, header.started_at)) as reader:
        events = [event for _, event in reader]
    assert events == [Operation(1, "select 1"), Note(GAVE_UP.note), End(EndReason.RECORDING_FAILED)]
    assert leftovers.repair() == 0


def test_spool_being_written_is_not_touched(
    make_spool: MakeSpool, leftovers: UnfinishedSpools, commits: GroupCommit
) -> None:
    spool = make_spool()
    commits.register(spool)
    assert leftovers.repair() == 0
    assert spool.path.exists()


def test_segment_that_could_not_be_sealed_is_sealed_later(
    make_spool: MakeSpool,
    leftovers: UnfinishedSpools,
    commits: GroupCommit,
    home: Path,
    header: Header,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    failed: list[Exception | None] = []
    place = sealed_path(home, header.session, header.started_at)
    spool: Spool = make_spool()
    commits.register(spool)
    spool.append(encode(End("client_closed"), 5))
    with monkeypatch.context() as patch:
        patch.setattr(sealing, "_compress", full)
        commits.finish(spool, place, failed.append, soon=True)
        wait_until(lambda: bool(failed))
        leftovers.start()
        with pytest.raises(RecordingFailed):
            spool.append(b"x")
        assert not place.exists()
    wait_until(place.exists)
    wait_until(lambda: not spool.path.exists())
    with SegmentReader(place) as reader:
        assert [event for _, event in reader] == [End("client_closed")]


def test_unreadable_spool_does_not_block_others(
    make_spool: MakeSpool, leftovers: UnfinishedSpools, home: Path, header: Header
) -> None:
    broken, other = make_spool(uuid4()), make_spool()
    broken.close()
    other.close()
    broken.path.write_bytes(b"no recording")
    assert leftovers.repair() == 2
    assert sealed_path(home, header.session, header.started_at).exists()
    assert broken.path.with_name(broken.path.name + ".broken").exists()


def test_spool_that_is_busy_at_the_second_check_is_left_alone(make_spool: MakeSpool, home: Path) -> None:
    """A writer creates its file first and registers it afterwards."""
    spool = make_spool()
    looks: list[set[Path]] = [set(), {spool.path}]
    leftovers = UnfinishedSpools(spool_folder(home, "w1"), lambda: looks.pop(0), interval=0.01)
    assert leftovers.repair() == 0
    assert (looks, spool.path.exists()) == ([], True)


def test_failed_check_of_unfinished_spools_does_not_end_the_thread(
    make_spool: MakeSpool, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_spool().close()
    failures = [OSError("the folder cannot be read")]

    def busy() -> set[Path]:
        if failures:
            raise failures.pop()
        return set()

    leftovers = UnfinishedSpools(spool_folder(home, "w1"), busy, interval=0.01)
    leftovers.start()
    try:
        wait_until(lambda: not list(spool_folder(home, "w1").glob("*.rec")))
    finally:
        leftovers.close()
    assert "could not be processed" in caplog.text
