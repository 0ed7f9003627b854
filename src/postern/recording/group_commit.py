"""Group commit: one thread in a process makes the spools of all its sessions durable, another one seals what ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from postern.errors import RecordingFailed
from postern.recording.sealing import seal_all
from postern.recording.space import Space
from postern.recording.spool import Spool

log = logging.getLogger(__name__)

# An ended session waits for the next round, which seals all that ended since the last one; but no longer than this.
_PATIENCE = 0.1


class _Ended(NamedTuple):
    spool: Spool
    sealed: Path
    done: Callable[[Exception | None], None]


class GroupCommit:
    """Every `interval` seconds, syncs each dirty spool and seals each that ended.

    A spool that cannot be synced is marked failed, so that its session ends at its next append; the
    others go on. When the disk is slower than the interval, rounds follow each other without a pause.
    Where `space` runs short no spool should begin, and those that are written are stopped.

    Sealing has a thread of its own: compressing a long recording does not hold up anybody's sync.
    """

    def __init__(self, interval: float, space: Space | None = None) -> None:
        self._interval = interval
        self._space = space
        self._spools: set[Spool] = set()
        self._ended: list[_Ended] = []
        self._sealed: set[Path] = set()  # that are being sealed
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._sealing = ThreadPoolExecutor(1, thread_name_prefix="seal")
        self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)
        self._thread.start()

    @property
    def refusal(self) -> str:
        """Why no session may begin; empty while it may."""
        return self._space.refusal if self._space is not None else ""

    @property
    def busy(self) -> set[Path]:
        """The files that are written or sealed."""
        with self._lock:
            return {spool.path for spool in self._spools} | {one.spool.path for one in self._ended} | self._sealed

    def register(self, spool: Spool) -> None:
        with self._lock:
            self._spools.add(spool)

    def unregister(self, spool: Spool) -> None:
        """From now on the spool's owner answers for its durability."""
        with self._lock:
            self._spools.discard(spool)

    def finish(
        self, spool: Spool, sealed: Path, done: Callable[[Exception | None], None], *, soon: bool = False
    ) -> None:
        """Seals a spool that takes no more records in the next round; `soon` begins that round now.

        Then `done` is called, in another thread, with what went wrong; the spool is closed and in its place if so.
        """
        with self._lock:
            self._spools.discard(spool)
            self._ended.append(_Ended(spool, sealed, done))
            late = self._stopping
        if late:
            self._round()
        elif soon or self._interval > _PATIENCE:
            self._wake.set()

    def close(self) -> None:
        """Ends the threads and returns after a last round for what is still there."""
        with self._lock:
            self._stopping = True
        self._wake.set()
        self._thread.join()
        self._round()
        self._sealing.shutdown()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self._interval)
            self._wake.clear()
            self._round()

    def _round(self) -> None:
        self._look()
        with self._lock:
            ended, self._ended = self._ended, []
            self._sealed |= {one.spool.path for one in ended}
            dirty = [spool for spool in self._spools if spool.dirty]
        if ended:
            self._sealing.submit(self._seal, ended)
        for spool in dirty:
            try:
                spool.sync()
            except RecordingFailed as error:
                log.error("%s; its session will end", error.message)
            except Exception as error:
                log.exception("the recording %s could not be synced; its session will end", spool.path.name)
                spool.fail(str(error))

    def _seal(self, ended: list[_Ended]) -> None:
        try:
            _seal(ended)
        finally:
            with self._lock:
                self._sealed -= {one.spool.path for one in ended}

    def _look(self) -> None:
        if self._space is None:
            return
        self._space.look()
        if self._space.end:
            with self._lock:
                running = list(self._spools)
            for spool in running:
                spool.stop(self._space.end)


def _seal(ended: list[_Ended]) -> None:
    errors = seal_all([(one.spool.path, one.sealed) for one in ended])
    for one, failure in zip(ended, errors, strict=True):
        error = failure
        try:
            one.spool.close(sealed=error is None)
        except Exception as trouble:
            error = error or trouble
        try:
            one.done(error)
        except Exception:
            log.exception("nobody could be told that the recording %s is finished", one.spool.path.name)
