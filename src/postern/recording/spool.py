"""Spool: the append-only file of one live session.

An append hands the record to the operating system, so that killing the process loses nothing that was appended. `sync`
makes it durable against a crash of the machine. A full disk fails the append, before the recorded bytes are forwarded.

A spool with many small records writes them through a mapping of its end, without a system call each (decision 0115).
The space for it is allocated first, so that a full disk is noticed by then. The file is longer than its records
meanwhile: zeros follow them until `end`.
"""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path
from typing import Final

from mypy_extensions import i64

from postern.errors import RecordingFailed
from postern.recording.layout import FILE_MODE, make_folder, sync_folder
from postern.recording.mapped_files import can_map
from postern.recording.record_format import Header, encode_header

MAPPED_AFTER = 64  # small records; short sessions need no mapping
SMALL: Final = 4096  # bytes; a mapping is slower for larger records
WINDOW: Final = 256 * 1024  # bytes that are mapped at a time
_PAGE: Final = mmap.ALLOCATIONGRANULARITY


class Spool:
    """Spool file. One thread appends; `sync` can come from another. A failed spool stays failed."""

    __slots__ = (
        "_descriptor",
        "_failure",
        "_folder_synced",
        "_lock",
        "_small",
        "_synced",
        "_window",
        "_window_end",
        "_window_start",
        "path",
        "size",
        "stopped",
    )

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size: i64 = 0  # bytes handed to the operating system
        self._window: mmap.mmap | None = None  # a mapped part of the file
        self._window_start: i64 = 0
        self._window_end: i64 = 0
        self._small: i64 = 0  # small records so far without a mapping; negative if there can be none
        self.stopped = False
        self._descriptor = descriptor
        self._failure = ""
        self._folder_synced = False
        self._lock = threading.Lock()  # separates `sync` and `close`; appends do not need it
        self._synced = 0

    @classmethod
    def create(cls, path: Path, header: Header) -> Spool:
        """Create the file at `path`, for its owner only, with this header. Raises RecordingFailed."""
        try:
            spool = cls(path, _create_file(path))
        except OSError as error:
            raise RecordingFailed(f"recording {path.name} cannot be created: {error.strerror}") from error
        try:
            spool.append(encode_header(header))
        except RecordingFailed:
            spool.close()
            path.unlink(missing_ok=True)
            raise
        return spool

    @property
    def dirty(self) -> bool:
        """True while appended bytes might not be on disk."""
        return self._synced < self.size and (self.stopped or not self._failure)

    @property
    def failed(self) -> bool:
        return bool(self._failure)

    def append(self, record: bytes) -> None:
        """Hand one whole record to the operating system, or raise RecordingFailed."""
        if self._failure:
            raise RecordingFailed(f"recording {self.path.name} accepts no more records: {self._failure}")
        after: i64 = self.size + len(record)
        if len(record) > SMALL:
            self._write(record)
        elif after <= self._window_end or self._is_mapped_until(after):
            assert self._window is not None
            self._window[self.size - self._window_start : after - self._window_start] = record
        else:
            self._write(record)
        self.size = after

    def _write(self, record: bytes) -> None:
        try:
            written = os.pwrite(self._descriptor, record, self.size)
            while written < len(record):  # partial write: the next write raises the reason
                written += os.pwrite(self._descriptor, record[written:], self.size + written)
        except OSError as error:
            self.fail(error.strerror or str(error))
            self._cut_back()
            raise RecordingFailed(f"recording {self.path.name} cannot be written: {error.strerror}") from error

    def _is_mapped_until(self, after: i64) -> bool:
        """Map the end of the file if that is worth it. Return whether a small record up to `after` is then mapped."""
        if self._small < 0:
            return False
        if self._small < MAPPED_AFTER:
            self._small += 1
            return False
        if self._window is None and not can_map(self._descriptor):
            self._small = -1
            return False
        self._unmap()
        start: i64 = self.size // _PAGE * _PAGE
        try:
            os.posix_fallocate(self._descriptor, start, WINDOW)
            self._window = mmap.mmap(self._descriptor, WINDOW, offset=start)
        except (OSError, ValueError):  # no space, or a limit: the next write says which
            self._small = -1
            self._cut_back()
            return False
        self._window_start = start
        self._window_end = start + WINDOW
        return after <= self._window_end

    def _unmap(self) -> None:
        self._window_start = self._window_end = 0
        if self._window is not None:
            self._window.close()
            self._window = None

    def end(self) -> None:
        """Cut the file to its records, after the last one."""
        is_longer = self._window is not None
        self._unmap()
        if is_longer:
            self._cut_back()

    def fail(self, reason: str) -> None:
        """Make every further append raise RecordingFailed, so that the session ends."""
        if not self._failure:
            self._failure = reason

    def stop(self, reason: str) -> None:
        """Fail a spool that is intact: `append_last` still works."""
        if not self._failure:
            self.stopped = True
            self._failure = reason

    def append_last(self, record: bytes) -> None:
        """Append a record, also to a stopped spool."""
        if self.stopped:
            self.stopped = False
            self._failure = ""
        self.append(record)

    def sync(self) -> None:
        """Make everything appended before the call durable. Can block; safe from any thread.

        An error marks the spool as failed and raises RecordingFailed: after a failed sync, it is unknown which pages
        reached the disk.
        """
        with self._lock:
            if self._descriptor >= 0:
                self._sync()

    def close(self, *, sealed: bool = False) -> None:
        """Sync and close the file; it is closed even if RecordingFailed is raised.

        `sealed`: the content is already durable in a sealed segment, so that no sync is needed. Can block: call it from
        a thread. Safe to call twice.
        """
        with self._lock:
            if self._descriptor < 0:
                return
            was_failed = self.failed
            self.end()
            try:
                if not sealed:
                    self._sync()
            except RecordingFailed:
                if not was_failed:
                    raise
            finally:
                self.fail("it is closed")
                os.close(self._descriptor)
                self._descriptor = -1

    def _sync(self) -> None:
        size = self.size
        if self._synced == size:
            return
        try:
            os.fdatasync(self._descriptor)
            if not self._folder_synced:
                sync_folder(self.path.parent)
                self._folder_synced = True
        except OSError as error:
            self.fail(f"it cannot be made durable: {error.strerror}")
            raise RecordingFailed(f"recording {self.path.name} cannot be made durable: {error.strerror}") from error
        self._synced = size

    def _cut_back(self) -> None:
        """Remove what follows the records: a part of one, or space for more. Readers stop there anyway."""
        self._unmap()
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            return


def _create_file(path: Path) -> int:
    """Create a file and its folder, which is usually there. Return its descriptor. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, FILE_MODE)
    except FileNotFoundError:
        make_folder(path.parent)
        return os.open(path, flags, FILE_MODE)
