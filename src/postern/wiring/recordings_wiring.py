"""How it stands with the recordings that lie on this machine: asked by the API, its metrics and `postern doctor`."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from postern.archive.archiver import Round
from postern.recording.layout import SEALED_SUFFIX, sealed_folder
from postern.recording.space import free_bytes
from postern.settings import Settings
from postern.wiring import paths

MOST_FILES = 10_000  # sealed segments that are looked at
ARCHIVIST_LATE = 120.0  # seconds without a heart-beat after which the archivist is missed


def trouble_with_recordings(settings: Settings) -> str:
    """Why this machine should be given no sessions now; empty when it may. An archivist that is away is no reason:
    sessions go on, and what they record waits on the disk."""
    try:
        if free_bytes(settings.home) < settings.recording_least_free:
            return "recordings: the disk has too little room for them"
    except OSError as error:
        return f"recordings: {error.strerror}"
    return ""


def archivist_silence(home: Path) -> float:
    """Seconds since it was last heard of."""
    try:
        return time.time() - paths.archivist_beat(home).stat().st_mtime
    except FileNotFoundError:
        return math.inf


@dataclass(frozen=True, slots=True)
class WaitingSegments:
    """Sealed segments that are not stored yet: how many, their bytes, and seconds that the oldest has waited."""

    segments: int = 0
    size: int = 0
    age: float = 0.0


def waiting_for_archivist(home: Path) -> WaitingSegments:
    """Of no more than MOST_FILES."""
    found = []
    for path in itertools.islice(sealed_folder(home).glob(f"*/*/*{SEALED_SUFFIX}"), MOST_FILES):
        with suppress(FileNotFoundError):
            found.append(path.stat())
    if not found:
        return WaitingSegments()
    oldest = min(one.st_mtime for one in found)
    return WaitingSegments(len(found), sum(one.st_size for one in found), max(0.0, time.time() - oldest))


def archivist_trouble(home: Path) -> str:
    """Why nothing could be stored when the archivist last tried; empty when it could."""
    try:
        return _trouble_file(home).read_text(errors="replace")
    except OSError:
        return ""


def trouble_told(home: Path) -> Callable[[Round], None]:
    """To be told of every round of the archivist. On a disk that takes nothing, nothing is left: that is seen
    elsewhere."""
    file = _trouble_file(home)
    known: str | None = None

    def told(done: Round) -> None:
        nonlocal known
        if done.trouble != known:
            with suppress(OSError):
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                file.write_text(done.trouble)
                known = done.trouble

    return told


def _trouble_file(home: Path) -> Path:
    return home / "run" / "archivist.trouble"
