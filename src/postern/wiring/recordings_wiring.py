"""The state of the recordings on this machine, for the API, its metrics and `postern doctor`."""

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

MOST_FILES = 10_000  # sealed segments that are counted
ARCHIVER_LATE = 120.0  # seconds without a heartbeat after which the archiver counts as missing


def trouble_with_recordings(settings: Settings) -> str:
    """Return why this machine should get no new sessions; empty if it should. A missing archiver is no reason: sessions
    continue, and their recordings wait on the disk."""
    try:
        if free_bytes(settings.home) < settings.recording_least_free:
            return "recordings: the disk has too little free space"
    except OSError as error:
        return f"recordings: {error.strerror}"
    return ""


def archiver_silence(home: Path) -> float:
    """Return the seconds since its last heartbeat."""
    try:
        return time.time() - paths.archiver_beat(home).stat().st_mtime
    except FileNotFoundError:
        return math.inf


@dataclass(frozen=True, slots=True)
class WaitingSegments:
    """Sealed segments that are not stored yet: how many, their bytes, and the age of the oldest in seconds."""

    segments: int = 0
    size: int = 0
    age: float = 0.0


def waiting_for_archiver(home: Path) -> WaitingSegments:
    """Count at most MOST_FILES of them."""
    results = []
    for path in itertools.islice(sealed_folder(home).glob(f"*/*/*{SEALED_SUFFIX}"), MOST_FILES):
        with suppress(FileNotFoundError):
            results.append(path.stat())
    if not results:
        return WaitingSegments()
    oldest = min(result.st_mtime for result in results)
    return WaitingSegments(
        len(results), sum(stat_result.st_size for stat_result in results), max(0.0, time.time() - oldest)
    )


def archiver_trouble(home: Path) -> str:
    """Return why the archiver's last attempt failed; empty if it succeeded."""
    try:
        return _trouble_file(home).read_text(errors="replace")
    except OSError:
        return ""


def make_trouble_observer(home: Path) -> Callable[[Round], None]:
    """Return an observer of every round of the archiver. On a read-only disk it stores nothing; that is noticed
    elsewhere."""
    file = _trouble_file(home)
    last_trouble: str | None = None

    def record_trouble(finished_round: Round) -> None:
        nonlocal last_trouble
        if finished_round.trouble != last_trouble:
            with suppress(OSError):
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                file.write_text(finished_round.trouble)
                last_trouble = finished_round.trouble

    return record_trouble


def _trouble_file(home: Path) -> Path:
    return home / "run" / "archiver.trouble"
