"""Free disk space for recordings."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two checks


def free_bytes(folder: Path) -> int:
    """Return the free bytes at a folder, or at its nearest existing parent. Raises OSError."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


class Space:
    """Monitor of free space. Below `least` bytes no session starts; below half of it running sessions end, while they
    can still record their end.
    """

    def __init__(self, folder: Path, least: int, *, free: Callable[[Path], int] = free_bytes) -> None:
        self._folder = folder
        self._least = least
        self._free = free
        self._next = 0.0
        self.refusal = ""  # why no session can start, empty if one can
        self.end = ""  # why running sessions must end, empty if they need not
        self.check()

    def check(self) -> None:
        """Check the space, at most once a second, by one system call. For one thread."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY
        try:
            free = self._free(self._folder)
        except OSError as error:
            log.error("the free space for recordings cannot be determined: error=%s", error)
            return
        before = self.refusal
        self.refusal = self.end = ""
        if free < self._least:
            self.refusal = (
                f"this gateway's disk has {free >> 20} MiB left, but recordings need {self._least >> 20} MiB "
                "(POSTERN_RECORDING_LEAST_FREE); an administrator must free disk space"
            )
        if free < self._least // 2:
            self.end = self.refusal
        if bool(before) != bool(self.refusal):
            log.log(*_log_entry(self.refusal))


def _log_entry(refusal: str) -> tuple[int, str]:
    if refusal:
        return logging.ERROR, f"no session can start: {refusal}"
    return logging.INFO, "there is enough space for recordings again"
