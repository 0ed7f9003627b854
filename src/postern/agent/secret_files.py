"""Secrets as files: 0600, in a folder of their session, deleted when that ends, and also after a crash.

    /dev/shm/postern-secrets-k3v9x2ab/         of one process, mode 0700, locked (flock) while it lives
    └── 1f0c…/CLIENT_KEY                       of one session, mode 0700, and its file, mode 0600

The kernel releases a lock when its process ends, in any way. So a folder that can be locked is a leftover, and the next
process to start removes it. Process ids are not used, because they are reused and have no meaning in another container.
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
    """Return the possible parent folders, best first: those in memory, then the folder for temporary files."""
    paths = [_SHARED_MEMORY, Path(tempfile.gettempdir())]
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and _is_own_folder(Path(runtime), hidden=0o077):
        paths.insert(0, Path(runtime))
    return [place for place in paths if place.is_dir()]


@dataclass(frozen=True, slots=True)
class WrittenSecretFiles:
    """Files with secrets: `paths` by name. `remove` can be called more than once, and never raises."""

    paths: Mapping[str, Path]
    remove: Callable[[], None]


class SecretFiles:
    """The files of all sessions of this process. Removes leftovers of this user's earlier processes at once."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._places = places(environ)
        self._life: _Life | None = None
        for place in self._places:
            _sweep(place)

    def write(self, files: Mapping[str, bytes]) -> WrittenSecretFiles:
        """Write all `files` or none; their names must not be paths. Raises Unavailable."""
        try:
            life = self._current()
            folder = life.folder / uuid4().hex
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise Unavailable(f"no folder is available for files with secrets: {error.strerror}") from None
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
        if self._life is None or not self._life.is_there():  # such folders are deleted when their user logs out
            self._life = _begin(self._places)
        return self._life


class _Life:
    """A folder that is locked as long as this object lives; both go with it, at the latest when Python exits."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock
        weakref.finalize(self, _end, folder, lock)

    def remove(self, folder: Path) -> None:
        """Remove one session's folder. Pending calls keep this object alive, and the folder with it."""
        _remove(folder)

    def is_there(self) -> bool:
        """Return True if the path still leads to the locked folder."""
        try:
            result, locked = os.lstat(self.folder), os.fstat(self._lock)
        except OSError:
            return False
        return (result.st_dev, result.st_ino) == (locked.st_dev, locked.st_ino)


def _begin(where: list[Path]) -> _Life:
    """Create the folder. Raises OSError of the last place when none works."""
    problem: OSError = FileNotFoundError(None, "no folder for temporary files")
    for place in where:
        # a folder is unlocked for a moment after its creation, and another process may remove it just then
        for _ in range(3):
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
        return _Life(folder, _lock_folder(folder))
    except OSError:
        _remove(folder)
        raise


def _lock_folder(folder: Path) -> int:
    """Return a locked descriptor, which no child inherits. Raises OSError, BlockingIOError when another process has the
    lock."""
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
            lock = _lock_folder(folder)
        except OSError:
            continue  # its process lives
        _end(folder, lock)
        log.warning("secrets that an earlier process left in %s were removed", folder)


def _ours(place: Path) -> list[Path]:
    try:
        return [path for path in place.iterdir() if path.name.startswith(PREFIX) and _is_own_folder(path)]
    except OSError as error:
        log.warning("cannot search %s for leftover secrets: %s", place, error.strerror)
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
    """Return True for a real folder of this user, not a link to one. `hidden` are mode bits that must not be set."""
    try:
        result = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(result.st_mode) and result.st_uid == os.geteuid() and not result.st_mode & hidden
