"""What ended sessions of a living worker could not finish, as on a disk that was full: finished once that works."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from postern.domain.sessions.session import EndReason
from postern.recording.recovery import EndMark, recover

log = logging.getLogger(__name__)

INTERVAL = 5.0  # seconds between two looks
GAVE_UP = EndMark("the recording could not be written further, and the session was ended", EndReason.RECORDING_FAILED)


class UnfinishedSpools:
    """In the spool folder of this worker. `busy` tells which files somebody writes or seals. A thread of its own."""

    def __init__(self, folder: Path, busy: Callable[[], set[Path]], *, interval: float = INTERVAL) -> None:
        self._folder = folder
        self._busy = busy
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leftovers", daemon=True)

    def start(self) -> None:
        """After what an earlier life of this worker left has been recovered."""
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def once(self) -> int:
        """Of how many sessions something was found. What was left twice running is nobody's: a file may be made just
        now, between the two looks."""
        before = self._left()
        if not before or self._stop.wait(min(1.0, self._interval)):
            return 0
        left = before & self._left()
        return len(recover(self._folder, mark=GAVE_UP, only=left)) if left else 0

    def _left(self) -> set[Path]:
        # What is busy is asked for last: who begins a file registers it afterwards, and who has sealed one removes it.
        files = set(self._folder.glob("*.rec"))
        return files - self._busy()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self.once()
            except Exception:
                log.exception("what ended sessions left in %s could not be looked at", self._folder)
