"""Blob store in a folder, on this machine or on a shared file system."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import functools
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from postern.errors import NotFound, Unavailable
from postern.recording.layout import FILE_MODE, make_folder, sync_folder

# Errors of file systems that do not support or allow hard links.
_NO_LINK = {errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EACCES}
_AT_ONCE = 4  # parallel puts and deletes


class FolderBlobs:
    """Blob store in a folder. A file appears under its name only once all of it is on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Own threads: the common ones can be blocked by name resolution or slow disks.
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="blobs")
        self.name = f"the folder {folder}"

    async def put(self, key: str, content: Iterable[bytes]) -> bool:
        try:
            put = functools.partial(self._put, self._path(key), content)
            return await asyncio.get_running_loop().run_in_executor(self._threads, put)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._unavailable(error) from error

    def _put(self, target: Path, content: Iterable[bytes]) -> bool:
        make_folder(target.parent)
        _sweep(target)
        # A file that exists can come from an attempt that was killed before it synced the folder.
        put = not target.exists() and self._write(target, content)
        sync_folder(target.parent)
        return put

    @staticmethod
    def _write(target: Path, content: Iterable[bytes]) -> bool:
        """Write to a temporary name first, so that no reader sees a partial file."""
        partial = target.with_name(f".{target.name}.{uuid4().hex}")
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
            with os.fdopen(descriptor, "wb") as copy:
                with suppress(OSError):  # without locks, partial files are never taken for abandoned
                    fcntl.flock(copy, fcntl.LOCK_EX)  # held until this process ends, even by a kill
                copy.writelines(content)
                copy.flush()
                os.fsync(copy.fileno())
                return _publish(partial, target)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    async def delete(self, key: str) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._delete, self._folder / key)
        except OSError as error:
            raise self._unavailable(error) from error

    def _delete(self, target: Path) -> None:
        """Delete a file durably, and the session's folder once it is empty."""
        if not target.resolve().is_relative_to(self._folder.resolve()):
            raise Unavailable(f"the blob store ({self.name}) does not delete files outside of its folder")
        _sweep(target)
        try:
            target.unlink()
        except FileNotFoundError:
            return
        changed = target.parent
        if target.parent != self._folder:
            with suppress(OSError):  # the folder is not empty
                target.parent.rmdir()
                changed = target.parent.parent
        with suppress(FileNotFoundError):  # another call deleted the last file and the folder
            sync_folder(changed)

    def size(self, key: str) -> int:
        try:
            return self._path(key).stat().st_size
        except FileNotFoundError:
            raise NotFound(f"there is no {key} in {self.name}") from None
        except OSError as error:
            raise self._unavailable(error) from error

    def read(self, key: str, start: int, length: int) -> bytes:
        try:
            descriptor = os.open(f"{self._folder}/{self._check_key(key)}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.pread(descriptor, length, start)
            finally:
                os.close(descriptor)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):  # the last two: the key was changed
            raise NotFound(f"there is no {key} in {self.name}") from None
        except OSError as error:
            raise self._unavailable(error) from error

    def _path(self, key: str) -> Path:
        return self._folder / self._check_key(key)

    def _check_key(self, key: str) -> str:
        """Return the key. Raises NotFound if it leads outside of the folder, as a tampered row could."""
        if key.startswith("/") or ".." in key.split("/"):
            raise NotFound(f"{key} is not in {self.name}")
        return key

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(f"the blob store ({self.name}) cannot be used: {error.strerror or error}")


def _publish(partial: Path, target: Path) -> bool:
    try:
        os.link(partial, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        if target.exists():
            return False
        os.rename(partial, target)
    return True


def _sweep(target: Path) -> None:
    """Delete partial files of killed archivers: nothing holds their locks."""
    for left in target.parent.glob(f".{target.name}.*"):
        with suppress(OSError), left.open("r+b") as copy:
            fcntl.flock(copy, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()
