"""Free disk space: new sessions are denied and running ones ended before the disk is full."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from postern.errors import RecordingFailed
from postern.interception.events import ClientOutput, End, Operation
from postern.recording.group_commit import GroupCommit
from postern.recording.layout import sealed_path
from postern.recording.reader import SegmentReader
from postern.recording.record_format import Header, encode
from postern.recording.segments import Segments
from postern.recording.space import Space, free_bytes

LEAST = 100 << 20


class Disk:
    """A file system whose room is told by the test."""

    def __init__(self, free: int) -> None:
        self.free = free

    def __call__(self, _folder: Path) -> int:
        if self.free < 0:
            raise OSError("gone")
        return self.free


def look(space: Space) -> None:
    space._next = 0.0
    space.check()


def test_low_disk_space_denies_new_sessions_and_half_of_it_ends_running_ones(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk(LEAST)
    space = Space(Path("/nowhere"), LEAST, free=disk)
    assert (space.refusal, space.end) == ("", "")
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            disk.free = LEAST - 1
            look(space)
    assert "99 MiB left, but recordings need 100 MiB" in space.refusal
    assert "POSTERN_RECORDING_LEAST_FREE" in space.refusal
    assert space.end == ""
    assert len(caplog.records) == 1
    disk.free = LEAST // 2 - 1
    look(space)
    assert space.end
    disk.free = -1
    look(space)
    assert space.end, "what is not known does not make it better"
    with caplog.at_level(logging.INFO):
        disk.free = LEAST
        look(space)
    assert (space.refusal, space.end) == ("", "")
    assert "there is enough space for recordings again" in caplog.text


def test_free_space_is_checked_once_a_second() -> None:
    disk = Disk(LEAST)
    space = Space(Path("/nowhere"), LEAST, free=disk)
    disk.free = 0
    for _ in range(1000):
        space.check()
    assert space.refusal == ""


def test_free_space_of_a_missing_folder_is_read_from_its_parent(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "not" / "yet") == free_bytes(tmp_path)


def test_running_session_records_its_end_and_no_session_starts_on_a_full_disk(home: Path, header: Header) -> None:
    disk = Disk(LEAST)
    space = Space(home, LEAST, free=disk)
    commits = GroupCommit(0.005, space)
    try:
        segments = Segments(commits, home, "w1", header)
        segments.append(encode(Operation(1, "select 1"), 10), 10)
        disk.free = LEAST - 1
        look(space)
        with pytest.raises(RecordingFailed, match="the recording cannot start: this gateway's disk has 99 MiB left"):
            Segments(commits, home, "w1", replace(header, session=uuid4()))
        segments.append(encode(ClientOutput(b"goes on"), 20), 20)
        disk.free = 0
        look(space)
        commits._check_space()
        with pytest.raises(RecordingFailed, match="MiB left"):
            segments.append(encode(ClientOutput(b"not shown"), 30), 30)
        segments.finish("recording_failed", 40, lambda _error: None, soon=True)
    finally:
        commits.close()
    with SegmentReader(sealed_path(home, header.session, header.started_at)) as reader:
        found = list(reader)
    assert found == [
        (10, Operation(1, "select 1")),
        (20, ClientOutput(b"goes on")),
        (40, End("recording_failed")),
    ]
    assert not list((home / "spool").glob("*/*.rec"))
