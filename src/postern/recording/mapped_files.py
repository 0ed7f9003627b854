"""Which file systems let a recording be appended through a mapping (decision 0115)."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Final

# Here space that was allocated stays the file's own, so that a write to it cannot fail for want of space.
_ALLOCATING: Final = frozenset({"ext4", "xfs", "tmpfs"})
_MOUNTS: Final = Path("/proc/self/mountinfo")


def can_map(descriptor: int) -> bool:
    """Return whether this file may be mapped: no write to an allocated part of it fails."""
    try:
        return _type_of(os.fstat(descriptor).st_dev) in _ALLOCATING
    except OSError:
        return False


@functools.lru_cache(maxsize=64)
def _type_of(device: int) -> str:
    """Return the type of the file system on a device. Raises OSError where the system does not say."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in _MOUNTS.read_text().splitlines():
        of_mount, _, of_file_system = line.partition(" - ")
        if of_mount.split()[2] == number:
            return of_file_system.split()[0]
    return ""
