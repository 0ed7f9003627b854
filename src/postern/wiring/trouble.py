"""Why the archivist can store nothing: left in a file, for whoever asks what is wrong with a gateway."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from postern.archive.archivist import Round


def file_of(home: Path) -> Path:
    return home / "run" / "archivist.trouble"


def teller(home: Path) -> Callable[[Round], None]:
    """To be told of every round. On a disk that takes nothing, nothing is left: that is seen elsewhere."""
    file = file_of(home)
    known: str | None = None

    def told(done: Round) -> None:
        nonlocal known
        if done.trouble != known:
            with suppress(OSError):
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                file.write_text(done.trouble)
                known = done.trouble

    return told


def trouble(home: Path) -> str:
    """Why nothing could be stored when it was last tried; empty when it could."""
    try:
        return file_of(home).read_text(errors="replace")
    except OSError:
        return ""
