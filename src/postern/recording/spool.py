"""Spool: the append-only file of one live session.

An append is one `write` to the operating system, so that killing the process loses nothing that was appended. `sync`
makes it durable against a crash of the machine. A full disk fails the append, before the recorded bytes are forwarded.
Decision 0005 explains why this uses `write` and not a mapping.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from postern.errors import RecordingFailed
from postern.recording.layout import FILE_MODE, make_folder, sync_folder
from postern.recording.record_format import Header, encode_header


class Spool:
    """Spool file. One thread appends; `sync` can come from another. A failed spool stays failed."""

    __slots__ = ("_descriptor", "_failure", "_folder_synced", "_lock", "_synced", "path", "size", "stopped")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size = 0  # bytes handed to the operating system
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
            make_folder(path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            spool = cls(path, os.open(path, flags, FILE_MODE))
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
        try:
            written = os.write(self._descriptor, record)
            while written < len(record):  # partial write: the next write raises the reason
                written += os.write(self._descriptor, record[written:])
        except OSError as error:
            self.fail(error.strerror or str(error))
            self._cut_back()
            raise RecordingFailed(f"recording {self.path.name} cannot be written: {error.strerror}") from error
        self.size += len(record)

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
        """Remove a partially written record, at which readers would stop anyway."""
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            return
