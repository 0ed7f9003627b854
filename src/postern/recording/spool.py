"""A spool: the append-only file of one live session.

An append is one `write` to the operating system, so killing the process loses nothing that was
appended; `sync` makes it durable against a crash of the machine. A full disk shows as a failed
append, before the bytes it belongs to are forwarded. Why `write` and not a mapping: decision 0005.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from postern.errors import RecordingFailed
from postern.recording.layout import FILE_MODE, make_folder, sync_folder
from postern.recording.record_format import Header, encode_header


class Spool:
    """Appends come from one thread; `sync` may come from another. A spool that failed once stays failed."""

    __slots__ = ("_descriptor", "_failure", "_folder_synced", "_lock", "_synced", "path", "size", "stopped")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size = 0  # bytes that the operating system has
        self.stopped = False
        self._descriptor = descriptor
        self._failure = ""
        self._folder_synced = False
        self._lock = threading.Lock()  # keeps `sync` and `close` apart; appends do not need it
        self._synced = 0

    @classmethod
    def create(cls, path: Path, header: Header) -> Spool:
        """A new file at `path`, for its owner only, opened by `header`. Raises RecordingFailed."""
        try:
            make_folder(path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            spool = cls(path, os.open(path, flags, FILE_MODE))
        except OSError as error:
            raise RecordingFailed(f"the recording {path.name} cannot be created: {error.strerror}") from error
        try:
            spool.append(encode_header(header))
        except RecordingFailed:
            spool.close()
            path.unlink(missing_ok=True)
            raise
        return spool

    @property
    def dirty(self) -> bool:
        """True while the disk may lack something that was appended."""
        return self._synced < self.size and (self.stopped or not self._failure)

    @property
    def failed(self) -> bool:
        return bool(self._failure)

    def append(self, record: bytes) -> None:
        """Hands one whole record to the operating system, or raises RecordingFailed."""
        if self._failure:
            raise RecordingFailed(f"the recording {self.path.name} takes no more records: {self._failure}")
        try:
            written = os.write(self._descriptor, record)
            while written < len(record):  # the disk took a part of it: the next write says why
                written += os.write(self._descriptor, record[written:])
        except OSError as error:
            self.fail(error.strerror or str(error))
            self._cut_back()
            raise RecordingFailed(f"the recording {self.path.name} cannot be written: {error.strerror}") from error
        self.size += len(record)

    def fail(self, reason: str) -> None:
        """Every append from now on raises RecordingFailed, so that the session ends."""
        if not self._failure:
            self._failure = reason

    def stop(self, reason: str) -> None:
        """As `fail`, but there is nothing wrong with it: `append_last` still works."""
        if not self._failure:
            self.stopped = True
            self._failure = reason

    def append_last(self, record: bytes) -> None:
        """As `append`, also once it was stopped."""
        if self.stopped:
            self.stopped = False
            self._failure = ""
        self.append(record)

    def sync(self) -> None:
        """Makes all that was appended before the call durable. May block; safe from any thread.

        A failure marks the spool failed and raises RecordingFailed: after a failed sync nobody can
        know which pages reached the disk.
        """
        with self._lock:
            if self._descriptor >= 0:
                self._sync()

    def close(self, *, sealed: bool = False) -> None:
        """Syncs and ends the file; the descriptor is gone even when RecordingFailed is raised.

        `sealed`: what it holds is durable in a sealed segment by now, so there is nothing to sync.
        May block: call it from a thread. Safe to call twice.
        """
        with self._lock:
            if self._descriptor < 0:
                return
            known = self.failed
            try:
                if not sealed:
                    self._sync()
            except RecordingFailed:
                if not known:
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
            raise RecordingFailed(f"the recording {self.path.name} cannot be made durable: {error.strerror}") from error
        self._synced = size

    def _cut_back(self) -> None:
        """Takes a half-written record away; the reader would stop at it in any case."""
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            return
