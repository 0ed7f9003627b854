"""Small disks that fill up, and become read-only: file systems in memory. They need root."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.postgres import free_port
from tests.support.running import PORTS, Gateway

MIB = 1 << 20


@dataclass
class Disk:
    """`size` in bytes."""

    folder: Path
    size: int

    @property
    def free(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int = 0) -> None:
        """With a file, up to `leave` bytes."""
        with (self.folder / "filler").open("ab", buffering=0) as file:
            while (left := self.free - leave) > 0:
                try:
                    file.write(bytes(min(left, MIB)))
                except OSError:
                    return

    def empty(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)

    def resize(self, size: int) -> None:
        self.size = size
        self._remount(f"size={size}")

    def read_only(self, yes: bool) -> None:
        self._remount("ro" if yes else "rw")

    def _remount(self, option: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{option}", str(self.folder)], check=True, capture_output=True)


@contextmanager
def disk(folder: Path, size: int) -> Iterator[Disk]:
    """Mounted at `folder`, which it makes. A visible skip where nobody may mount."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
    if done.returncode != 0:
        pytest.skip("only root may mount")
    try:
        yield Disk(folder, size)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def started_on_disk(
    size: int, *flags: str, again: bool = False, below: str = "", **settings: Any
) -> Iterator[tuple[Gateway, Disk]]:
    """As `running.started`, with a home on a disk of `size` bytes; or only the folder `below` its home."""
    with tempfile.TemporaryDirectory(prefix="postern-") as folder:
        made = Gateway(Path(folder), flags)
        if again:
            settings |= {f"{name}_PORT": str(free_port()) for name in PORTS}
        made.environment |= {f"POSTERN_{name}": value for name, value in settings.items()}
        with disk(made.home / below, size) as small:
            made.home.chmod(0o700)
            try:
                made.start()
                yield made, small
            finally:
                made.remove()
