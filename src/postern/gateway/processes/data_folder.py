"""The data folder: private to its user, and locked by one gateway at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from postern.errors import Conflict, Misconfigured


@contextmanager
def lock_data_folder(home: Path) -> Iterator[None]:
    """Lock `home` (created with mode 0700) while the block runs. A crash releases it.

    Raises Conflict when another gateway holds it, Misconfigured when it cannot be written.
    """
    try:
        (home / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
        descriptor = os.open(home / "run" / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Misconfigured(
            f"the data folder {home} cannot be used: {error.strerror}; "
            "make it writable for this user, or choose another with POSTERN_HOME or --home",
            field="home",
        ) from None
    try:
        _lock(descriptor, home)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, home: Path) -> None:
    # The kernel releases this lock when the process ends, in any way: there are no stale locks.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode().strip()
        raise Conflict(
            f"another postern (process {holder or 'unknown'}) runs with the data folder {home}; "
            "stop it, or choose another folder with POSTERN_HOME or --home",
            field="home",
        ) from None
