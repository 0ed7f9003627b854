"""An anchor that is a file with one line per checkpoint. Best on a disk that this machine can only append to."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from postern.domain.sessions.ledger import Checkpoint
from postern.errors import Unavailable

_DEADLINE = 10.0  # seconds; a network disk may hang


class FileAnchor:
    name = "file"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def put(self, checkpoint: Checkpoint, line: bytes) -> None:
        """Append a line, which is durable on return. Repeated lines do not disturb verification. Raises Unavailable."""
        try:
            async with asyncio.timeout(_DEADLINE):
                await asyncio.to_thread(_append, self._path, line + b"\n")
        except TimeoutError:
            raise Unavailable(
                f"writing the checkpoint to {self._path} took longer than {_DEADLINE:g} seconds"
            ) from None
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be written: {error.strerror}") from None


def _append(path: Path, line: bytes) -> None:
    new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        written = os.write(descriptor, line)
        if written < len(line):  # the disk is full: the next attempt begins a new line
            os.write(descriptor, b"\n")
            raise OSError(0, "only a part of the line was written; the disk may be full")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if new:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
