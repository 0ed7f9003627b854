"""Recordings that are not in the blob store yet, held open for a backup.

A segment moves from `spool/` to `sealed/` to the blob store, whose row is written before the sealed file is deleted. A
backup has to catch every segment once, with the rows of one moment D:

1. It takes the deletion lock, so that the archiver deletes no sealed file.
2. It begins to read the store: that is D.
3. It opens all spools, then all sealed files, and releases the lock.

A segment without a row at D was then in `spool/` or `sealed/`, and from D to 3 it can only have moved from the former
to the latter. Open files outlive their deletion, so they can be copied later. A spool has at least what it had at D.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from postern.errors import BackupFailed, Malformed
from postern.interception.events import End
from postern.recording.layout import FILE_MODE, make_folder, read_sealed_name, read_spool_name, sealed_folder
from postern.recording.reader import SegmentReader

_LOCK = ".deletions.lock"
_SETTLES = 0.05  # seconds after which a record that was being written is complete


@dataclass(frozen=True, slots=True)
class UnstoredSegment:
    """An open file of a segment. `place` is its path in the data folder."""

    place: str
    session: UUID
    number: int
    file: BinaryIO

    @property
    def is_spool(self) -> bool:
        return self.place.startswith("spool/")


@contextmanager
def deleting_sealed(home: Path) -> Iterator[None]:
    """Wait until no backup opens files, and keep one from beginning to."""
    with _hold_lock(home, fcntl.LOCK_SH):
        yield


@contextmanager
def no_deletions(home: Path) -> Iterator[None]:
    """Keep the archiver from deleting sealed files. It waits meanwhile, so this must not take long."""
    with _hold_lock(home, fcntl.LOCK_EX):
        yield


@contextmanager
def _hold_lock(home: Path, kind: int) -> Iterator[None]:
    make_folder(sealed_folder(home))
    descriptor = os.open(sealed_folder(home) / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def open_unstored(home: Path) -> list[UnstoredSegment]:
    """Open the files of all segments that are not stored yet: one for each segment, sealed if there is one.

    Raises BackupFailed at the limit of open files.
    """
    found: dict[tuple[UUID, int], UnstoredSegment] = {}
    try:
        for path in sorted((home / "spool").glob("*/*.rec")):
            _open(found, home, path, read_spool_name(path.name))
        for path in sorted(sealed_folder(home).glob("*/*/*.rec.zst")):
            _open(found, home, path, read_sealed_name(path.name))
    except BaseException:
        close_all(list(found.values()))
        raise
    return list(found.values())


def _open(found: dict[tuple[UUID, int], UnstoredSegment], home: Path, path: Path, key: tuple[UUID, int] | None) -> None:
    if key is None:
        return
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:  # a spool that was sealed meanwhile, and is found there
        return
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise BackupFailed(
            f"more recordings wait to be stored than this command can open files ({len(found)}); raise its limit of "
            "open files with `ulimit -n`, or wait until the archiver has stored them"
        ) from None
    if key in found:
        found[key].file.close()
    found[key] = UnstoredSegment(path.relative_to(home).as_posix(), *key, file)


def close_all(segments: Sequence[UnstoredSegment]) -> None:
    for segment in segments:
        segment.file.close()


def complete_size(segment: UnstoredSegment, *, has_next: bool) -> int:
    """Return how many bytes of the file to copy.

    Of a spool these are its complete records. Without its successor in the backup, the record that announces one is
    left out, so that the copy is that of an interrupted session.
    """
    size = os.fstat(segment.file.fileno()).st_size
    if not segment.is_spool:
        return size
    complete, is_damaged = _survey(segment, has_next)
    if is_damaged:
        time.sleep(_SETTLES)  # the last record can have been read half-way
        again, is_damaged = _survey(segment, has_next)
        # What cannot be read is copied as it is: recovery reports it.
        return size if is_damaged and again == complete else again
    return complete


def _survey(segment: UnstoredSegment, has_next: bool) -> tuple[int, bool]:
    """Return the size of the complete records, and whether something else than space for more follows."""
    file = os.fdopen(os.dup(segment.file.fileno()), "rb")
    file.seek(0)
    try:
        with SegmentReader(file, name=segment.place) as reader:
            before = reader.intact
            for _, event in reader:
                if isinstance(event, End) and event.continues and not has_next:
                    return before, False
                before = reader.intact
            return reader.intact, bool(reader.damage)
    except Malformed:
        file.close()
        return 0, True
