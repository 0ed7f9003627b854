from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from uuid import uuid4

import pytest

from postern.errors import RecordingFailed
from postern.interception.events import Shown
from postern.recording.group_commit import GroupCommit
from postern.recording.records import encode

from .conftest import MakeSpool


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 10 s"
        time.sleep(0.002)


def test_dirty_spools_are_synced_again_and_again(make_spool: MakeSpool) -> None:
    commit = GroupCommit(0.005)
    spools = [make_spool(uuid4()) for _ in range(3)]
    for spool in spools:
        commit.register(spool)
    for _ in range(3):
        for spool in spools:
            spool.append(encode(Shown(b"x"), 0))
            assert spool.dirty
        wait_for(lambda: not any(spool.dirty for spool in spools))
    commit.close()


def test_close_syncs_what_is_left_and_ends_the_thread(make_spool: MakeSpool) -> None:
    commit = GroupCommit(3600)
    spool = make_spool()
    commit.register(spool)
    assert spool.dirty
    commit.close()
    assert not spool.dirty
    assert not any(thread.name == "group-commit" for thread in threading.enumerate())


def test_an_unregistered_spool_is_left_alone(make_spool: MakeSpool) -> None:
    commit = GroupCommit(3600)
    spool = make_spool()
    commit.register(spool)
    commit.unregister(spool)
    commit.close()
    assert spool.dirty


def test_a_failed_sync_ends_its_own_session_only(make_spool: MakeSpool, monkeypatch: pytest.MonkeyPatch) -> None:
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
    wait_for(lambda: broken.failed and not healthy.dirty)
    with pytest.raises(RecordingFailed, match="durable"):
        broken.append(b"x")
    healthy.append(encode(Shown(b"x"), 0))
    wait_for(lambda: not healthy.dirty)
    commit.close()


def test_closing_a_spool_while_it_is_synced_is_safe(make_spool: MakeSpool) -> None:
    commit = GroupCommit(0.0001)
    for _ in range(30):
        spool = make_spool(uuid4())
        commit.register(spool)
        spool.append(encode(Shown(b"x"), 0))
        commit.unregister(spool)
        spool.close()
        assert spool._synced == spool.size
    commit.close()
