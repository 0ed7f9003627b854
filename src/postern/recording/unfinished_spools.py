"""Unfinished spools of ended sessions in a living worker, as after a full disk: they are finished once that works."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from postern.domain.sessions.session import EndReason
from postern.recording.recovery import EndMark, recover

log = logging.getLogger(__name__)

INTERVAL = 5.0  # seconds between two checks
GAVE_UP = EndMark("the recording could not be written further, so the session was ended", EndReason.RECORDING_FAILED)


class UnfinishedSpools:
    """Repairs this worker's spool folder, in its own thread. `busy` returns files that are being written or sealed."""

    def __init__(self, folder: Path, busy: Callable[[], set[Path]], *, interval: float = INTERVAL) -> None:
        self._folder = folder
        self._busy = busy
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leftovers", daemon=True)

    def start(self) -> None:
        """Start, after the spools of this worker's earlier life were recovered."""
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def repair(self) -> int:
        """Finish unfinished spools; return their number of sessions.

        Only a file that two checks in a row find is unfinished: another can have been created just now.
        """
        before = self._list_idle()
        if not before or self._stop.wait(min(1.0, self._interval)):
            return 0
        left = before & self._list_idle()
        return len(recover(self._folder, mark=GAVE_UP, only=left)) if left else 0

    def _list_idle(self) -> set[Path]:
        # `busy` comes last: a new file is registered after its creation, and a sealed one removed before it is
        # unregistered.
        files = set(self._folder.glob("*.rec"))
        return files - self._busy()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self.repair()
            except Exception:
                log.exception("unfinished recordings could not be processed: folder=%s", self._folder)
