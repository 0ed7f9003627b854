"""Room for recordings: whether the disk that they are written to has enough of it left."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two looks


def free_bytes(folder: Path) -> int:
    """What may still be written there; of the nearest folder above it that is there. Raises OSError."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


class Space:
    """Below `least` bytes no session begins; below half of it those that run end, while there is room to say so."""

    def __init__(self, folder: Path, least: int, *, free: Callable[[Path], int] = free_bytes) -> None:
        self._folder = folder
        self._least = least
        self._free = free
        self._next = 0.0
        self.refusal = ""  # why no session may begin, empty while it may
        self.end = ""  # why those that run have to end, empty while they need not
        self.look()

    def look(self) -> None:
        """At most once a second; costs one call of the operating system. From one thread."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY
        try:
            free = self._free(self._folder)
        except OSError as error:
            log.error("nobody knows how much room recordings have: %s", error)
            return
        before = self.refusal
        self.refusal = self.end = ""
        if free < self._least:
            self.refusal = (
                f"this gateway's disk has {free >> 20} MiB left, and recordings need {self._least >> 20} MiB "
                "(POSTERN_RECORDING_LEAST_FREE); an administrator has to make room"
            )
        if free < self._least // 2:
            self.end = self.refusal
        if bool(before) != bool(self.refusal):
            log.log(*_said(self.refusal))


def _said(refusal: str) -> tuple[int, str]:
    if refusal:
        return logging.ERROR, f"no session begins: {refusal}"
    return logging.INFO, "there is room for recordings again"
