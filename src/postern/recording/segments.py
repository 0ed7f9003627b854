"""Segments of one live session: one is written, earlier ones are sealed meanwhile.

A segment that is too large or too old is followed by a new one before the next record is appended. A long session can
thus be sealed, moved and searched while it runs, and damage to one file does not affect the others.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from postern.errors import RecordingFailed
from postern.interception.events import End
from postern.recording.group_commit import GroupCommit
from postern.recording.layout import sealed_path, spool_path
from postern.recording.record_format import Header, encode
from postern.recording.spool import Spool

log = logging.getLogger(__name__)

MOST = 16 * 1024 * 1024  # bytes after which a new segment starts
LONGEST = 300_000_000  # microseconds, the same


class Segments:
    """Writer of a session's segments, for one thread. Creates the first one, or raises RecordingFailed."""

    def __init__(
        self, commits: GroupCommit, home: Path, worker: str, header: Header, *, most: int = MOST, longest: int = LONGEST
    ) -> None:
        self._commits = commits
        self._home = home
        self._worker = worker
        self._header = header
        self._most = most
        self._longest = longest
        self._before = 0  # bytes of finished segments
        self._since = 0
        if commits.refusal:
            raise RecordingFailed(f"the recording cannot start: {commits.refusal}")
        self.spool = self._begin(header)
        self._empty = self.spool.size
        commits.register(self.spool)

    @property
    def size(self) -> int:
        """Return the uncompressed size of all segments so far, in bytes."""
        return self._before + self.spool.size

    def append(self, record: bytes, micros: int) -> None:
        """Append a record. Raises RecordingFailed, and then on every further call."""
        size = self.spool.size
        if size > self._empty and (size >= self._most or micros - self._since >= self._longest):
            self._start_next(micros)
        self.spool.append(record)

    def fail(self, reason: str) -> None:
        """Make every further append raise RecordingFailed, so that the session ends."""
        self.spool.fail(reason)

    def finish(self, reason: str, micros: int, done: Callable[[Exception | None], None], *, soon: bool) -> None:
        """End the recording and have its last segment sealed; then call `done`, in another thread."""
        if self.spool.stopped or not self.spool.failed:
            try:
                self.spool.append_last(encode(End(reason), micros))
            except RecordingFailed as error:
                log.error(
                    "the end of a recording could not be written: recording=%s error=%s",
                    self.spool.path.name,
                    error.message,
                )
        self.spool.end()
        self._commits.finish(self.spool, self._sealed_path(), done, soon=soon)

    def _start_next(self, micros: int) -> None:
        done, sealed = self.spool, self._sealed_path()
        header = replace(self._header, segment=self._header.segment + 1)
        try:
            spool = self._begin(header)
        except RecordingFailed as error:
            done.fail(error.message)
            raise
        try:
            done.append(encode(End("", continues=True), micros))
        except RecordingFailed:
            spool.close(sealed=True)
            spool.path.unlink()
            raise
        done.end()
        self.spool, self._header, self._since = spool, header, micros
        self._empty = spool.size
        self._before += done.size
        self._commits.register(spool)
        self._commits.finish(done, sealed, functools.partial(_log_seal_error, done.path.name))

    def _begin(self, header: Header) -> Spool:
        return Spool.create(spool_path(self._home, self._worker, header.session, header.segment), header)

    def _sealed_path(self) -> Path:
        return sealed_path(self._home, self._header.session, self._header.started_at, self._header.segment)


def _log_seal_error(name: str, error: Exception | None) -> None:
    if error is not None:  # its spool is whole, and is sealed at the next start of the worker
        log.error("a segment could not be sealed; it is sealed at the next start: segment=%s error=%s", name, error)
