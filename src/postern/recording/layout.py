"""Layout of recordings in the gateway's data folder, and creation of their folders.

home/spool/<worker>/<session>.<segment>.rec           being written, one folder per worker process
home/sealed/<yyyy>/<mm>/<session>.<segment>.rec.zst   sealed, for the archiver; year and month of the session's start
home/recordings/                                      stored, unless another blob store is configured
"""

from __future__ import annotations

import functools
import os
from datetime import datetime
from pathlib import Path
from uuid import UUID

SPOOL_SUFFIX = ".rec"
SEALED_SUFFIX = ".rec.zst"
FILE_MODE = 0o600
FOLDER_MODE = 0o700


@functools.lru_cache(maxsize=64)
def spool_folder(home: Path, worker: str) -> Path:
    return home / "spool" / worker


def spool_path(home: Path, worker: str, session: UUID, segment: int = 1) -> Path:
    return spool_folder(home, worker) / f"{_stem(session, segment)}{SPOOL_SUFFIX}"


def sealed_path(home: Path, session: UUID, started_at: datetime, segment: int = 1) -> Path:
    return _month_folder(home, started_at.year, started_at.month) / f"{_stem(session, segment)}{SEALED_SUFFIX}"


@functools.lru_cache(maxsize=64)
def _month_folder(home: Path, year: int, month: int) -> Path:
    return sealed_folder(home) / f"{year:04}" / f"{month:02}"


def sealed_folder(home: Path) -> Path:
    return home / "sealed"


def recordings_folder(home: Path) -> Path:
    return home / "recordings"


def read_spool_name(name: str) -> tuple[UUID, int] | None:
    """Return (session, segment), or None if it is not the name of a spool."""
    return _read_name(name, SPOOL_SUFFIX)


def read_sealed_name(name: str) -> tuple[UUID, int] | None:
    """Return (session, segment), or None if it is not the name of a sealed segment."""
    return _read_name(name, SEALED_SUFFIX)


def _read_name(name: str, suffix: str) -> tuple[UUID, int] | None:
    session, _, segment = name.removesuffix(suffix).partition(".")
    try:
        parsed = UUID(session), int(segment)
    except ValueError:
        return None
    return parsed if name == f"{_stem(*parsed)}{suffix}" else None


def home_of(folder: Path) -> Path:
    """Return the data folder of a worker's spool folder."""
    return folder.parent.parent


def _stem(session: UUID, segment: int) -> str:
    return f"{session}.{segment:06}"


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, for the owner only, durably."""
    if folder.is_dir():
        return
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=FOLDER_MODE, exist_ok=True)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make added and removed names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
