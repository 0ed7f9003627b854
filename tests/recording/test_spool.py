from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from postern.errors import RecordingFailed
from postern.interception.events import ClientOutput, Event, Operation
from postern.recording import mapped_files
from postern.recording.reader import SegmentReader
from postern.recording.record_format import Header, encode
from postern.recording.spool import WINDOW, Spool

from .conftest import MakeSpool

pytestmark = pytest.mark.usefixtures("way")


def events_of(path: Path) -> list[Event]:
    with SegmentReader(path) as reader:
        found = [event for _, event in reader]
    assert not reader.damage
    return found


def test_spool_files_and_folders_are_accessible_to_the_owner_only(make_spool: MakeSpool, home: Path) -> None:
    before = os.umask(0)
    try:
        spool = make_spool()
    finally:
        os.umask(before)
    assert stat.S_IMODE(spool.path.stat().st_mode) == 0o600
    for folder in (home, home / "spool", home / "spool" / "w1"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_appended_record_is_visible_to_readers_at_once(make_spool: MakeSpool) -> None:
    spool = make_spool()
    spool.append(encode(ClientOutput(b"hello"), 1))
    assert events_of(spool.path) == [ClientOutput(b"hello")]
    spool.end()
    assert spool.size == spool.path.stat().st_size


def test_existing_recording_is_never_overwritten(make_spool: MakeSpool, header: Header) -> None:
    spool = make_spool()
    content = spool.path.read_bytes()
    with pytest.raises(RecordingFailed, match="cannot be created"):
        Spool.create(spool.path, header)
    assert spool.path.read_bytes() == content


def test_append_after_close_fails(make_spool: MakeSpool) -> None:
    spool = make_spool()
    spool.close()
    spool.close()
    with pytest.raises(RecordingFailed, match="closed"):
        spool.append(b"x")


def test_failed_spool_accepts_no_records(make_spool: MakeSpool) -> None:
    spool = make_spool()
    spool.fail("the disk is gone")
    with pytest.raises(RecordingFailed, match="the disk is gone"):
        spool.append(b"x")
    assert spool.failed


def test_synced_spool_is_not_dirty(make_spool: MakeSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fdatasync

    def counted(descriptor: int) -> None:
        synced.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", counted)
    spool = make_spool()
    assert spool.dirty
    spool.sync()
    assert not spool.dirty
    assert len(synced) == 1
    spool.sync()
    assert len(synced) == 1, "a clean spool must not cost a sync"
    spool.append(encode(ClientOutput(b"x"), 1))
    assert spool.dirty


def test_failed_sync_fails_the_spool(make_spool: MakeSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = make_spool()

    def fails(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fails)
    with pytest.raises(RecordingFailed, match="durable"):
        spool.sync()
    with pytest.raises(RecordingFailed):
        spool.append(b"x")


def fail_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fails)


def test_first_sync_also_syncs_the_folder_once(make_spool: MakeSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = make_spool()
    synced: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda _descriptor: synced.append("file"))
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    spool.sync()
    assert synced == ["file", str(spool.path.parent)]
    spool.append(encode(ClientOutput(b"x"), 1))
    spool.sync()
    assert synced == ["file", str(spool.path.parent), "file"]


def test_close_syncs_unsynced_records_of_an_unsealed_spool(
    make_spool: MakeSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda _descriptor: synced.append("file"))
    spool, sealed = make_spool(), make_spool(uuid4())
    sealed.close(sealed=True)
    assert synced == []  # its records are durable elsewhere
    spool.close()
    assert synced == ["file"]
    spool.sync()
    assert synced == ["file"]  # nothing is left to sync


def test_close_that_cannot_sync_fails_and_closes_the_file(
    make_spool: MakeSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = make_spool()
    opened = open_files()
    fail_sync(monkeypatch)
    with pytest.raises(RecordingFailed, match="durable"):
        spool.close()
    assert open_files() == opened - 1
    spool.close()


def test_close_of_a_spool_that_failed_earlier_does_not_fail_again(
    make_spool: MakeSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = make_spool()
    opened = open_files()
    spool.fail("the disk is gone")
    fail_sync(monkeypatch)
    spool.close()
    assert open_files() == opened - 1


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_stopped_spool_accepts_only_its_last_record(make_spool: MakeSpool) -> None:
    spool = make_spool()
    spool.stop("the disk runs full")
    with pytest.raises(RecordingFailed, match="accepts no more records: the disk runs full"):
        spool.append(b"x")
    assert (spool.failed, spool.stopped, spool.dirty) == (True, True, True)
    spool.append_last(encode(ClientOutput(b"last"), 1))
    assert events_of(spool.path) == [ClientOutput(b"last")]


def test_failed_spool_rejects_even_its_last_record(make_spool: MakeSpool) -> None:
    spool = make_spool()
    spool.fail("the disk is gone")
    spool.stop("the disk runs full")
    spool.fail("and the room is on fire")
    assert (spool.stopped, spool.dirty) == (False, False)
    with pytest.raises(RecordingFailed, match="the disk is gone"):
        spool.append_last(encode(ClientOutput(b"last"), 1))


def test_append_on_a_full_disk_fails_and_keeps_earlier_records(make_spool: MakeSpool) -> None:
    """RLIMIT_FSIZE simulates the full disk: the kernel writes a part of the record, then fails."""
    spool = make_spool()
    spool.append(encode(ClientOutput(b"kept"), 1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (spool.path.stat().st_size + 100, hard))
    try:
        with pytest.raises(RecordingFailed, match="cannot be written"):
            spool.append(encode(ClientOutput(bytes(WINDOW + 1000)), 2))
        with pytest.raises(RecordingFailed):
            spool.append(encode(ClientOutput(b"small"), 3))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert events_of(spool.path) == [ClientOutput(b"kept")]
    assert spool.path.stat().st_size == spool.size


def appended_one(spool: Spool, record: bytes) -> bool:
    try:
        spool.append(record)
    except RecordingFailed:
        return False
    return True


def test_small_records_on_a_full_disk_fail_once_the_allocated_space_is_used(make_spool: MakeSpool) -> None:
    spool = make_spool()
    record = encode(ClientOutput(bytes(1000)), 1)
    spool.append(record)
    limit = spool.path.stat().st_size + 10 * len(record)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    appended = 1
    try:
        while appended_one(spool, record):
            appended += 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(events_of(spool.path)) == appended
    assert (limit - 1100) < spool.size == spool.path.stat().st_size <= limit


def test_full_disk_while_the_header_is_written_leaves_no_file(
    tmp_path: Path, header: Header, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int, __: bytes, ___: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(RecordingFailed, match="No space left"):
        Spool.create(tmp_path / "x.rec", header)
    assert not list(tmp_path.iterdir())


def test_file_system_without_allocation_is_written_to(make_spool: MakeSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_files, "_type_of", lambda _device: "zfs")
    spool = make_spool()
    for at in range(100):
        spool.append(encode(ClientOutput(b"x"), at))
        assert spool.path.stat().st_size == spool.size


def test_windows_follow_each_other(make_spool: MakeSpool) -> None:
    """Small records across several windows, with large ones between them."""
    spool = make_spool()
    events: list[Event] = [
        ClientOutput(bytes([number % 251]) * (7_000 if number % 97 == 0 else number % 1_500)) for number in range(1_500)
    ]
    for at, event in enumerate(events):
        spool.append(encode(event, at))
    assert spool.size > 3 * WINDOW
    assert events_of(spool.path) == events
    spool.close()
    assert spool.path.stat().st_size == spool.size
    assert events_of(spool.path) == events


CHILD = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4
from postern.interception.events import Operation
from postern.recording.record_format import Header, encode
from postern.recording.spool import Spool

spool = Spool.create(Path(sys.argv[1]), Header(uuid4(), uuid4(), "postgres", "shop", "ann", datetime.now(UTC)))
number = 0
while True:
    number += 1
    spool.append(encode(Operation(number, "select " + "x" * (number % 5000)), number))
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("reports", [1, 50, 700])
def test_killed_process_loses_no_appended_record(tmp_path: Path, reports: int) -> None:
    path = tmp_path / "x.rec"
    source = Path(__file__).resolve().parents[2] / "src"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert child.stdout
    for _ in range(reports):
        assert child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().splitlines(keepends=True)
    child.stdout.close()
    child.wait()
    reported = reports + sum(line.endswith(b"\n") for line in rest)
    with SegmentReader(path) as reader:
        numbers = [event.exchange for _, event in reader if isinstance(event, Operation)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= reported
