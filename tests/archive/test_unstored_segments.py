"""Recordings that are not stored yet, as a backup copies them."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from postern.archive.unstored_segments import (
    UnstoredSegment,
    close_all,
    complete_size,
    deleting_sealed,
    no_deletions,
    open_unstored,
)
from postern.errors import BackupFailed
from postern.interception.events import ClientOutput, End, Event
from postern.recording.layout import sealed_path, spool_path
from postern.recording.reader import SegmentReader
from postern.recording.record_format import Header, encode
from postern.recording.sealing import seal
from postern.recording.spool import MAPPED_AFTER, Spool

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SESSION = UUID(int=5)


def header(number: int = 1, session: UUID = SESSION) -> Header:
    return Header(session, UUID(int=1), "postgres", "shop", "ann@example.com", START, number)


def spool(home: Path, number: int = 1, session: UUID = SESSION, *, count: int = 3, end: End | None = None) -> Spool:
    made = Spool.create(spool_path(home, "w1", session, number), header(number, session))
    for n in range(count):
        made.append(encode(ClientOutput(f"row {n}".encode()), n))
    if end is not None:
        made.append(encode(end, count))
    return made


def only(home: Path) -> UnstoredSegment:
    (segment,) = open_unstored(home)
    return segment


def copy(segment: UnstoredSegment, *, has_next: bool = False) -> list[Event]:
    """The events of the copied bytes, which must be a whole recording."""
    size = complete_size(segment, has_next=has_next)
    content = os.pread(segment.file.fileno(), size, 0)
    with SegmentReader(BytesIO(content), name="copy") as reader:
        found = [event for _, event in reader]
        assert reader.damage == ""
        assert segment.place.startswith("sealed/") or reader.intact == size
    return found


def test_mapped_end_of_a_running_spool_is_left_out(tmp_path: Path) -> None:
    running = spool(tmp_path, count=MAPPED_AFTER + 10)
    segment = only(tmp_path)
    assert os.fstat(segment.file.fileno()).st_size > running.size
    assert complete_size(segment, has_next=False) == running.size
    assert len(copy(segment)) == MAPPED_AFTER + 10
    running.append(encode(ClientOutput(b"later"), 99))
    assert copy(segment)[-1] == ClientOutput(b"later")
    running.close()


def test_half_a_record_is_left_out_and_damage_is_not(tmp_path: Path) -> None:
    running = spool(tmp_path)
    whole, half = running.size, encode(ClientOutput(b"half"), 9)[:-3]
    os.pwrite(running._descriptor, half, whole)
    segment = only(tmp_path)
    # It stays as it is: a record that is being written would be complete by now.
    assert complete_size(segment, has_next=False) == whole + len(half)
    running.append(encode(ClientOutput(b"half"), 9))
    assert copy(segment)[-1] == ClientOutput(b"half")
    running.close()


def test_record_that_is_completed_meanwhile_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = spool(tmp_path)
    record = encode(ClientOutput(b"half"), 9)
    os.pwrite(running._descriptor, record[:-3], running.size)
    monkeypatch.setattr("time.sleep", lambda _: running.append(record))
    segment = only(tmp_path)
    assert complete_size(segment, has_next=False) == running.size
    running.close()


def test_segment_whose_successor_is_not_in_the_backup_does_not_announce_it(tmp_path: Path) -> None:
    spool(tmp_path, end=End("", continues=True)).close()
    segment = only(tmp_path)
    assert copy(segment, has_next=True)[-1] == End("", continues=True)
    assert copy(segment)[-1] == ClientOutput(b"row 2")


def test_sealed_segment_replaces_its_spool(tmp_path: Path) -> None:
    path = spool(tmp_path, end=End("client_closed")).path
    content = path.read_bytes()
    sealed = sealed_path(tmp_path, SESSION, START)
    seal(path, sealed)
    path.write_bytes(content)  # as after a kill in between
    segment = only(tmp_path)
    assert segment.place == sealed.relative_to(tmp_path).as_posix()
    assert copy(segment)[-1] == End("client_closed")


def test_open_segments_outlive_their_deletion(tmp_path: Path) -> None:
    path = spool(tmp_path, end=End("client_closed")).path
    segment = only(tmp_path)
    seal(path, sealed_path(tmp_path, SESSION, START))
    assert not path.exists()
    assert copy(segment)[-1] == End("client_closed")


def test_other_files_are_ignored(tmp_path: Path) -> None:
    for place in ("spool/w1/x.rec", "spool/w1/y", "sealed/2026/01/x.rec.zst", f"sealed/2026/01/{uuid4()}.1.partial"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    assert open_unstored(tmp_path) == []


def test_limit_of_open_files_is_named_and_nothing_stays_open(tmp_path: Path) -> None:
    for _ in range(30):
        spool(tmp_path, session=uuid4()).close()
    before, limits = len(os.listdir("/proc/self/fd")), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 20, limits[1]))
    try:
        with pytest.raises(BackupFailed, match="ulimit -n"):
            open_unstored(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_nothing_is_deleted_while_a_backup_opens_files(tmp_path: Path) -> None:
    """And several archivers' threads delete at the same time."""
    deleted, both = threading.Event(), threading.Barrier(2, timeout=60)

    def delete() -> None:
        with deleting_sealed(tmp_path):
            both.wait()
            deleted.set()

    with no_deletions(tmp_path):
        threads = [asyncio.create_task(asyncio.to_thread(delete)) for _ in range(2)]
        await asyncio.sleep(0.2)
        assert not deleted.is_set()
    await asyncio.gather(*threads)
    assert deleted.is_set()
    close_all(open_unstored(tmp_path))
