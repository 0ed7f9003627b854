"""Local remains of purged sessions."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from uuid import UUID

from postern.recording.layout import sealed_folder, sync_folder


def delete_local(home: Path, sessions: Collection[UUID]) -> None:
    """Delete spools and sealed segments of these sessions, also partial ones. Blocks. Raises OSError."""
    names = {str(key) for key in sessions}
    files = [*(home / "spool").glob("*/*"), *sealed_folder(home).glob("*/*/*")]
    folders = set()
    for path in files:
        if path.name.partition(".")[0] in names:
            path.unlink(missing_ok=True)
            folders.add(path.parent)
    for folder in folders:
        sync_folder(folder)
