"""Group commit: one thread in a process makes the spools of all its sessions durable."""

from __future__ import annotations

import logging
import threading

from postern.errors import RecordingFailed
from postern.recording.spool import Spool

log = logging.getLogger(__name__)


class GroupCommit:
    """Syncs every dirty spool each `interval` seconds.

    A spool that cannot be synced is marked failed, so that its session ends at its next append; the
    others go on. When the disk is slower than the interval, rounds follow each other without a pause.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._spools: set[Spool] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)
        self._thread.start()

    def register(self, spool: Spool) -> None:
        with self._lock:
            self._spools.add(spool)

    def unregister(self, spool: Spool) -> None:
        """From now on the spool's owner answers for its durability; sealing it does."""
        with self._lock:
            self._spools.discard(spool)

    def close(self) -> None:
        """Ends the thread and returns after one last sync of what is still registered."""
        self._stop.set()
        self._thread.join()
        self._sync_all()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self._sync_all()

    def _sync_all(self) -> None:
        with self._lock:
            dirty = [spool for spool in self._spools if spool.dirty]
        for spool in dirty:
            try:
                spool.sync()
            except RecordingFailed as error:
                log.error("%s; its session will end", error.message)
            except Exception as error:
                log.exception("the recording %s could not be synced; its session will end", spool.path.name)
                spool.fail(str(error))
