"""Secrets as files: 0600, in a folder of their session's own, gone when that ends, and after a crash, too.

    /dev/shm/postern-secrets-k3v9x2ab/         one process's, mode 0700, locked (flock) for as long as that lives
    └── 1f0c…/CLIENT_KEY                       one session's, mode 0700, and a file of it, mode 0600

The kernel lets go of a lock when its process is gone, however that went. So a folder that can be locked is left over,
and whoever starts next removes it; process ids, which are used again and mean nothing in another container, are not
looked at.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from postern.errors import Unavailable

log = logging.getLogger(__name__)

PREFIX = "postern-secrets-"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made there has a random name and is ours alone


def places(environ: Mapping[str, str]) -> list[Path]:
    """Where such folders may be, best first: those in memory, which no disk keeps anything of, then the folder for
    temporary files."""
    found = [_SHARED_MEMORY, Path(tempfile.gettempdir())]
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and _is_own_folder(Path(runtime), hidden=0o077):
        found.insert(0, Path(runtime))
    return [place for place in found if place.is_dir()]


@dataclass(frozen=True, slots=True)
class WrittenSecretFiles:
    """`paths` by the names of the files. `remove` may be called more than once, and never raises."""

    paths: Mapping[str, Path]
    remove: Callable[[], None]


class SecretFiles:
    """Files of all sessions of this process. Removes at once what earlier processes of this user left behind."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._places = places(environ)
        self._life: _Life | None = None
        for place in self._places:
            _sweep(place)

    def write(self, files: Mapping[str, bytes]) -> WrittenSecretFiles:
        """`files` by names that are no paths. All of them or none. Raises Unavailable."""
        try:
            life = self._current()
            folder = life.folder / uuid4().hex
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise Unavailable(f"there is no place for files with secrets: {error.strerror}") from None
        written = WrittenSecretFiles({name: folder / name for name in files}, partial(life.remove, folder))
        try:
            for name, content in files.items():
                _write(folder / name, content)
        except OSError as error:
            written.remove()
            raise Unavailable(f"a secret cannot be written to a file below {folder.parent}: {error.strerror}") from None
        except BaseException:
            written.remove()
            raise
        return written

    def _current(self) -> _Life:
        if self._life is None or not self._life.is_there():  # such places are cleared when their user logs out
            self._life = _begin(self._places)
        return self._life


class _Life:
    """A folder that is locked as long as this object lives; both go with it, at the latest when Python ends."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock
        weakref.finalize(self, _end, folder, lock)

    def remove(self, folder: Path) -> None:
        """One session's folder. Who may still call this keeps this object alive, and the folder with it."""
        _remove(folder)

    def is_there(self) -> bool:
        """Whether the path still leads to the folder that is locked."""
        try:
            found, locked = os.lstat(self.folder), os.fstat(self._lock)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (locked.st_dev, locked.st_ino)


def _begin(where: list[Path]) -> _Life:
    """Raises OSError of the last place when none can be had."""
    problem: OSError = FileNotFoundError(None, "no folder for temporary files")
    for place in where:
        for _ in range(3):  # a folder is not locked for a moment after it was made, and may just then be swept
            try:
                life = _new_life(place)
            except OSError as error:
                problem = error
                continue
            if life.is_there():
                return life
    raise problem


def _new_life(place: Path) -> _Life:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    try:
        return _Life(folder, _locked(folder))
    except OSError:
        _remove(folder)
        raise


def _locked(folder: Path) -> int:
    """A descriptor, which no child inherits. Raises OSError, BlockingIOError when another process has the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _end(folder: Path, lock: int) -> None:
    _remove(folder)
    os.close(lock)


def _sweep(place: Path) -> None:
    for folder in _ours(place):
        try:
            lock = _locked(folder)
        except OSError:
            continue  # its process lives
        _end(folder, lock)
        log.warning("secrets that a process left behind in %s are removed", folder)


def _ours(place: Path) -> list[Path]:
    try:
        return [found for found in place.iterdir() if found.name.startswith(PREFIX) and _is_own_folder(found)]
    except OSError as error:
        log.warning("left over secrets cannot be looked for in %s: %s", place, error.strerror)
        return []


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)
        file.write(content)


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.error("secrets in %s cannot be removed: %s", folder, error.strerror)


def _is_own_folder(path: Path, *, hidden: int = 0) -> bool:
    """A folder itself, not a link to one. `hidden` are the bits that its mode must not have."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & hidden
