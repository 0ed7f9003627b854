"""Where recordings lie below the gateway's home, and how their folders are made.

home/spool/<worker>/<session>.rec               being written, one folder for each worker process
home/recordings/<yyyy>/<mm>/<session>.rec.zst   sealed
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from uuid import UUID

SPOOL_SUFFIX = ".rec"
ARCHIVE_SUFFIX = ".rec.zst"
FILE_MODE = 0o600
FOLDER_MODE = 0o700


def spool_folder(home: Path, worker: str) -> Path:
    return home / "spool" / worker


def spool_path(home: Path, worker: str, session: UUID) -> Path:
    return spool_folder(home, worker) / f"{session}{SPOOL_SUFFIX}"


def archive_path(home: Path, session: UUID, started_at: datetime) -> Path:
    return home / "recordings" / f"{started_at:%Y}" / f"{started_at:%m}" / f"{session}{ARCHIVE_SUFFIX}"


def home_of(folder: Path) -> Path:
    """The home that a worker's spool folder belongs to."""
    return folder.parent.parent


def make_folder(folder: Path) -> None:
    """Makes it and its missing parents, for the owner only, durably."""
    if folder.is_dir():
        return
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=FOLDER_MODE, exist_ok=True)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes names that were added to or taken from a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
