"""Writer of a backup: under a temporary name, and complete on disk before it gets its own."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from postern.backup.backup_format import (
    BLOCK,
    CHUNK,
    FORMAT,
    MANIFEST,
    MEMBERS,
    RECORDINGS,
    VERSION,
    check_name,
    digest_of,
    encode_header,
    padding,
)
from postern.backup.backup_reader import BackupReader
from postern.errors import BackupFailed, Conflict

_MODE = 0o600
_ENDS = 2 * BLOCK  # bytes of zeros


class BackupWriter:
    """Writes `target`, used as a context; without `finish` nothing is left of it.

    With `folder`, recordings are stored there, each once, instead of in the file. `previous` is the last backup beside
    it, which knows their hashes. `progress` gets the number of bytes. Raises Conflict if the target exists,
    BackupFailed if it cannot be written.
    """

    def __init__(
        self,
        target: Path,
        *,
        folder: Path | None = None,
        previous: Path | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._target = target
        self._folder = folder
        self._progress = progress
        self._draft = target.with_name(f".{target.name}.{os.getpid()}.partial")
        self._list = sqlite3.connect("", check_same_thread=False)  # on disk, and gone when it is closed
        self._list.execute("create table members (number integer primary key, name text unique, size, hash)")
        self._previous = BackupReader(previous) if previous else None
        self.recordings = self.recording_bytes = self.new_recordings = 0
        with self._writing():
            if target.exists():
                raise Conflict(f"{target} exists already; choose a different name, or remove it first")
            self._file = os.fdopen(os.open(self._draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, _MODE), "wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._file.close()
        self._draft.unlink(missing_ok=True)
        self._list.close()
        if self._previous is not None:
            self._previous.close()

    def add(self, name: str, content: bytes) -> None:
        self._add(name, len(content), [content])

    def add_file(self, name: str, file: BinaryIO, size: int) -> None:
        """Add the first `size` bytes of the file. Raises BackupFailed if there are fewer."""
        self._add(name, size, read_exactly(file, size, name))

    def add_recording(self, place: str, file: BinaryIO, size: int) -> None:
        """Add a recording's file, which never changes."""
        self.recordings += 1
        self.recording_bytes += size
        name = RECORDINGS + place
        if self._folder is None:
            self.new_recordings += 1
            self.add_file(name, file, size)
            return
        stored = self._folder / check_name(place)
        known = self._previous.find(name) if self._previous else None
        with self._writing():
            is_there = stored.exists() and stored.stat().st_size == size
        if known is None or known[0] != size or not is_there:
            self.new_recordings += 1
            with self._writing():
                stored.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            known = (size, self._copy(stored, read_exactly(file, size, name)))
        self._remember(name, *known)

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest, read the whole backup back, and give it its name. Raises Conflict, BackupFailed, and
        Malformed if the disk does not return what was written."""
        digest = hashlib.sha256()
        count, size = 0, 0
        for line in self._lines():
            digest.update(line)
            count, size = count + 1, size + len(line)
        self._write_member(MEMBERS, size, self._lines())
        facts = {"format": FORMAT, "version": VERSION, "members": count, "members_sha256": digest.hexdigest()}
        whole = {**facts, **manifest}
        content = json.dumps({**whole, "sha256": digest_of(whole)}, indent=2).encode()
        self._write_member(MANIFEST, len(content), [content])
        with self._writing():
            self._file.write(bytes(_ENDS))
            self._file.flush()
            os.fsync(self._file.fileno())
        with BackupReader(self._draft) as reader:
            reader.verify(beside=False)  # those were there before, or have just been hashed
        with self._writing():
            _publish(self._draft, self._target)

    def _add(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        self._remember(name, size, self._write_member(name, size, pieces))

    def _write_member(self, name: str, size: int, pieces: Iterable[bytes]) -> str:
        """Return the content's SHA-256."""
        digest = hashlib.sha256()
        with self._writing():
            self._file.write(encode_header(name, size, time.time()))
        for piece in pieces:
            with self._writing():
                self._file.write(piece)
            digest.update(piece)
            self._progress(len(piece))
        with self._writing():
            self._file.write(bytes(padding(size)))
        return digest.hexdigest()

    def _copy(self, target: Path, pieces: Iterable[bytes]) -> str:
        """Copy a recording beside the backup; it has its name only once it is complete. Return its SHA-256."""
        draft = target.with_name(f".{target.name}.{os.getpid()}.partial")
        digest = hashlib.sha256()
        try:
            with self._writing():
                copy = os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE), "wb")
            with copy:
                for piece in pieces:
                    with self._writing():
                        copy.write(piece)
                    digest.update(piece)
                    self._progress(len(piece))
                with self._writing():
                    copy.flush()
                    os.fsync(copy.fileno())
            with self._writing():
                os.replace(draft, target)
                sync_folder(target.parent)
        finally:
            draft.unlink(missing_ok=True)
        return digest.hexdigest()

    def _remember(self, name: str, size: int, digest: str) -> None:
        self._list.execute("insert into members (name, size, hash) values (?, ?, ?)", (name, size, digest))

    def _lines(self) -> Iterator[bytes]:
        for row in self._list.execute("select name, size, hash from members order by number"):
            yield json.dumps(row).encode() + b"\n"

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BackupFailed(
                f"the backup {self._target} cannot be written: {error.strerror or error}; nothing was left of it. "
                "Choose a place with enough space that this user can write"
            ) from error


def read_exactly(file: BinaryIO, size: int, name: str) -> Iterator[bytes]:
    """Yield `size` bytes of a file, from its start. Raises BackupFailed if it has fewer, or cannot be read."""
    try:
        file.seek(0)
        while size > 0:
            piece = file.read(min(CHUNK, size))
            if not piece:
                raise BackupFailed(f"{name} became shorter while it was copied; start the backup again")
            size -= len(piece)
            yield piece
    except OSError as error:
        raise BackupFailed(f"{name} cannot be read: {error.strerror or error}") from error


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _publish(draft: Path, target: Path) -> None:
    """Rename the draft, unless another process has created the target meanwhile. Raises Conflict."""
    try:
        os.link(draft, target)
    except FileExistsError:
        raise Conflict(f"{target} exists already; choose a different name, or remove it first") from None
    except OSError:  # a file system without links
        if target.exists():
            raise Conflict(f"{target} exists already; choose a different name, or remove it first") from None
        os.rename(draft, target)
    sync_folder(target.parent)
