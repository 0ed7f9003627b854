from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.promises import wait_until

from postern.errors import RecordingFailed
from postern.interception.events import ClientOutput
from postern.recording import group_commit, sealing
from postern.recording.group_commit import GroupCommit
from postern.recording.reader import SegmentReader
from postern.recording.record_format import encode
from postern.recording.spool import Spool

from .conftest import MakeSpool

pytestmark = pytest.mark.usefixtures("way")


def test_dirty_spools_are_synced_repeatedly(make_spool: MakeSpool) -> None:
    commit = GroupCommit(0.005)
    spools = [make_spool(uuid4()) for _ in range(3)]
    for spool in spools:
        commit.register(spool)
    for _ in range(3):
        for spool in spools:
            spool.append(encode(ClientOutput(b"x"), 0))
            assert spool.dirty
        wait_until(lambda: not any(spool.dirty for spool in spools))
    commit.close()


def test_slow_disk_gets_longer_pauses_and_ended_recordings_do_not_wait_for_them(
    make_spool: MakeSpool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LONGEST_PAUSE", 3600.0)
    monkeypatch.setattr(group_commit, "PAUSES", 100_000)
    rounds: list[int] = []

    def slow(_: int) -> None:
        rounds.append(1)
        time.sleep(0.05)

    monkeypatch.setattr(os, "fdatasync", slow)
    commit = GroupCommit(0.005)
    busy, ended = make_spool(uuid4()), make_spool(uuid4())
    commit.register(busy)
    wait_until(lambda: not busy.dirty)
    wait_until(lambda: commit._pause > 1000)
    busy.append(encode(ClientOutput(b"x"), 0))
    done = threading.Event()
    commit.finish(ended, tmp_path / "sealed.rec.zst", lambda _error: done.set())
    assert done.wait(30)
    assert busy.dirty
    assert len(rounds) == 1
    commit.close()
    assert not busy.dirty


def test_close_syncs_remaining_spools_and_ends_the_thread(make_spool: MakeSpool) -> None:
    commit = GroupCommit(3600)
    spool = make_spool()
    commit.register(spool)
    assert spool.dirty
    commit.close()
    assert not spool.dirty
    assert not any(thread.name == "group-commit" for thread in threading.enumerate())


def test_unregistered_spool_is_not_synced_on_close(make_spool: MakeSpool) -> None:
    commit = GroupCommit(3600)
    spool = make_spool()
    commit.register(spool)
    commit.unregister(spool)
    commit.close()
    assert spool.dirty


def test_failed_sync_ends_only_its_own_session(make_spool: MakeSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, healthy = make_spool(uuid4()), make_spool(uuid4())
    real = os.fdatasync

    def fails_once(descriptor: int) -> None:
        if descriptor == broken._descriptor:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", fails_once)
    commit = GroupCommit(0.005)
    commit.register(broken)
    commit.register(healthy)
    wait_until(lambda: broken.failed and not healthy.dirty)
    with pytest.raises(RecordingFailed, match="durable"):
        broken.append(b"x")
    healthy.append(encode(ClientOutput(b"x"), 0))
    wait_until(lambda: not healthy.dirty)
    commit.close()


def test_closing_a_spool_while_it_is_synced_is_safe(make_spool: MakeSpool) -> None:
    commit = GroupCommit(0.0001)
    for _ in range(30):
        spool = make_spool(uuid4())
        commit.register(spool)
        spool.append(encode(ClientOutput(b"x"), 0))
        commit.unregister(spool)
        spool.close()
        assert spool._synced == spool.size
    commit.close()


def finished(commit: GroupCommit, spool: Spool, sealed: Path, *, soon: bool = False) -> list[Exception | None]:
    told: list[Exception | None] = []
    commit.register(spool)
    commit.finish(spool, sealed, told.append, soon=soon)
    return told


def test_recordings_that_ended_together_are_sealed_in_fewer_rounds_than_recordings(
    make_spool: MakeSpool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []

    def seal_all(places: list[tuple[Path, Path]]) -> list[Exception | None]:
        rounds.append(len(places))
        return sealing.seal_all(places)

    monkeypatch.setattr("postern.recording.group_commit.seal_all", seal_all)
    commit = GroupCommit(0.1)
    spools = [make_spool(uuid4()) for _ in range(5)]
    told = [finished(commit, spool, home / "recordings" / f"{n}.rec.zst") for n, spool in enumerate(spools)]
    wait_until(lambda: all(told))
    assert told == [[None]] * 5
    assert len(rounds) < 5
    for number, spool in enumerate(spools):
        assert not spool.path.exists()
        assert spool.failed  # it takes no more records
        with SegmentReader(home / "recordings" / f"{number}.rec.zst") as reader:
            assert list(reader) == []
            assert not reader.damage
    commit.close()


@pytest.mark.parametrize("soon", [True, False])
def test_ended_session_does_not_wait_for_a_long_interval(make_spool: MakeSpool, home: Path, soon: bool) -> None:
    commit = GroupCommit(3600)
    told = finished(commit, make_spool(), home / "x.rec.zst", soon=soon)
    wait_until(lambda: told == [None])
    commit.close()


def test_spool_that_cannot_be_sealed_stays_durable_and_others_are_sealed(make_spool: MakeSpool, home: Path) -> None:
    commit = GroupCommit(0.02)
    broken, healthy = make_spool(uuid4()), make_spool(uuid4())
    (home / "file").touch()
    told = [finished(commit, broken, home / "file" / "x.zst"), finished(commit, healthy, home / "y.zst")]
    wait_until(lambda: all(told))
    assert isinstance(told[0][0], OSError)
    assert told[1] == [None]
    assert broken.path.exists()
    assert broken._synced == broken.size
    assert (home / "y.zst").exists()
    commit.close()


def test_close_seals_ended_recordings(make_spool: MakeSpool, home: Path) -> None:
    commit = GroupCommit(0.1)
    told = finished(commit, make_spool(), home / "x.rec.zst")
    commit.close()
    assert told == [None]
