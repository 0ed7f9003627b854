"""Group commit: one thread per process syncs the spools of all sessions, another one seals those that ended.

A sync of the disk costs milliseconds, whether it covers one record or many. All sessions therefore share one round of
syncs per interval. A client can receive output that is appended but not yet synced: a crash of the process loses
nothing, and a crash of the machine loses at most what was appended since the last round of syncs began.

The interval is the pause between two rounds. After a long round, as with many busy sessions or a slow disk, the pause
is longer, at most LONGEST_PAUSE, so that the syncs leave the processor to the sessions.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from postern.errors import RecordingFailed
from postern.recording.sealing import seal_all
from postern.recording.space import Space
from postern.recording.spool import Spool

log = logging.getLogger(__name__)

# An ended session waits for the next round, which seals all ended spools together, but no longer than this.
_PATIENCE = 0.1

PAUSES = 4  # a pause is so many times as long as the round of syncs before it …
LONGEST_PAUSE = 0.5  # … but no longer than so many seconds


class _Ended(NamedTuple):
    spool: Spool
    sealed: Path
    done: Callable[[Exception | None], None]


class GroupCommit:
    """Every `interval` seconds, syncs each dirty spool and seals each ended one.

    A spool that cannot be synced is marked as failed, so that its session ends at its next append; the others continue.
    When `space` runs short, no session should start, and the open spools are stopped.

    Sealing has its own thread, so that compressing a long recording does not delay syncs.
    """

    def __init__(self, interval: float, space: Space | None = None) -> None:
        self._interval = interval
        self._pause = interval  # before the next round of syncs
        self._space = space
        self._spools: set[Spool] = set()
        self._ended: list[_Ended] = []
        self._sealed: set[Path] = set()  # those being sealed
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._sealing = ThreadPoolExecutor(1, thread_name_prefix="seal")
        self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)
        self._thread.start()

    @property
    def refusal(self) -> str:
        """Return why no session can start; empty if one can."""
        return self._space.refusal if self._space is not None else ""

    @property
    def busy(self) -> set[Path]:
        """Return the files that are being written or sealed."""
        with self._lock:
            return (
                {spool.path for spool in self._spools}
                | {recording.spool.path for recording in self._ended}
                | self._sealed
            )

    def register(self, spool: Spool) -> None:
        with self._lock:
            self._spools.add(spool)

    def unregister(self, spool: Spool) -> None:
        """Remove a spool, whose owner is then responsible for its durability."""
        with self._lock:
            self._spools.discard(spool)

    def finish(
        self, spool: Spool, sealed: Path, done: Callable[[Exception | None], None], *, soon: bool = False
    ) -> None:
        """Seal a complete spool in the next round; `soon` starts that round now.

        Then `done` is called in another thread, with the error if there was one. After an error the spool is closed and
        kept.
        """
        with self._lock:
            self._spools.discard(spool)
            self._ended.append(_Ended(spool, sealed, done))
            late = self._stopping
        if late:
            self._round()
        elif soon or self._pause > _PATIENCE:
            self._wake.set()

    def close(self) -> None:
        """Stop the threads, after a last round."""
        with self._lock:
            self._stopping = True
        self._wake.set()
        self._thread.join()
        self._round()
        self._sealing.shutdown()

    def _run(self) -> None:
        due = time.monotonic() + self._pause
        while not self._stopping:
            self._wake.wait(max(0.0, due - time.monotonic()))
            self._wake.clear()
            started = time.monotonic()
            if started < due and not self._stopping:
                self._seal_ended()
                continue
            self._round()
            ended = time.monotonic()
            self._pause = max(self._interval, min(PAUSES * (ended - started), LONGEST_PAUSE))
            due = ended + self._pause

    def _round(self) -> None:
        self._check_space()
        self._seal_ended()
        self._sync_dirty()

    def _seal_ended(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, []
            self._sealed |= {recording.spool.path for recording in ended}
        if ended:
            self._sealing.submit(self._seal, ended)

    def _sync_dirty(self) -> None:
        with self._lock:
            dirty = [spool for spool in self._spools if spool.dirty]
        for spool in dirty:
            try:
                spool.sync()
            except RecordingFailed as error:
                log.error("%s; its session ends", error.message)
            except Exception as error:
                log.exception("a recording could not be synced; its session ends: recording=%s", spool.path.name)
                spool.fail(str(error))

    def _seal(self, ended: list[_Ended]) -> None:
        try:
            _seal(ended)
        finally:
            with self._lock:
                self._sealed -= {recording.spool.path for recording in ended}

    def _check_space(self) -> None:
        if self._space is None:
            return
        self._space.check()
        if self._space.end:
            with self._lock:
                running = list(self._spools)
            for spool in running:
                spool.stop(self._space.end)


def _seal(ended: list[_Ended]) -> None:
    errors = seal_all([(recording.spool.path, recording.sealed) for recording in ended])
    for recording, failure in zip(ended, errors, strict=True):
        error = failure
        try:
            recording.spool.close(sealed=error is None)
        except Exception as trouble:
            error = error or trouble
        try:
            recording.done(error)
        except Exception:
            log.exception("the completion callback of a recording failed: recording=%s", recording.spool.path.name)
