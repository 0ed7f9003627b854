"""Reader of a backup, which trusts nothing in it: names, types, sizes and hashes are checked, in constant memory."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from postern.backup.backup_format import (
    BLOCK,
    CHUNK,
    FORMAT,
    MANIFEST,
    MAX_LINE,
    MAX_MANIFEST,
    MEMBERS,
    RECORDINGS,
    VERSION,
    BackupMember,
    check_name,
    decode_header,
    digest_of,
    padding,
)
from postern.errors import BackupFailed, Malformed, NotFound


class BackupReader:
    """A backup at `path`, used as a context. Opening checks its structure, but no content.

    Raises NotFound, BackupFailed, and Malformed if it is not a whole backup of a version that this code reads.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._list = sqlite3.connect("", check_same_thread=False)  # on disk, and gone when it is closed
        try:
            self._file: BinaryIO = path.open("rb")
        except FileNotFoundError:
            raise NotFound(f"there is no backup {path}") from None
        except OSError as error:
            raise BackupFailed(f"the backup {path} cannot be read: {error.strerror}") from error
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self.manifest = self._open()
        except Malformed as error:
            self.close()
            raise self._make_error(error.message) from None
        except OSError as error:
            self.close()
            raise BackupFailed(f"the backup {path} cannot be read: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self._list.close()

    @property
    def folder(self) -> Path:
        """Return where recordings lie that are not in the file."""
        return self.path.parent / RECORDINGS

    @property
    def total(self) -> int:
        """Return the bytes of all members."""
        return int(self._list.execute("select coalesce(sum(size), 0) from members").fetchone()[0])

    def find(self, name: str) -> tuple[int, str] | None:
        """Return a member's size and SHA-256."""
        row = self._list.execute("select size, hash from members where name = ?", (name,)).fetchone()
        return None if row is None else (int(row[0]), str(row[1]))

    def members(self) -> Iterator[BackupMember]:
        """Yield what is in the backup, in its order, and then the recordings beside it. One loop at a time."""
        yield from (member for member in self._headers() if member.name not in (MANIFEST, MEMBERS))
        for name, size in self._list.execute("select name, size from members where place < 0 order by number"):
            yield BackupMember(name, size)

    def read(self, member: BackupMember) -> Iterator[bytes]:
        """Yield the content, piece by piece. Raises Malformed at the end if it is not what was backed up; use nothing
        of it before."""
        digest, left = hashlib.sha256(), member.size
        for piece in self._pieces(member):
            digest.update(piece)
            left -= len(piece)
            yield piece
        expected = self.find(member.name)
        if left or expected is None or digest.hexdigest() != expected[1]:
            raise self._make_error(f"{member.name} was changed or damaged")

    def read_all(self, member: BackupMember, most: int) -> bytes:
        """Return the content of a small member. Raises Malformed."""
        if member.size > most:
            raise self._make_error(f"{member.name} is too large")
        return b"".join(self.read(member))

    def verify(self, progress: Callable[[int], None] = lambda _: None, *, beside: bool = True) -> None:
        """Read everything, also the recordings `beside` it. Raises Malformed, which names what is damaged."""
        for member in self.members():
            if beside or member.offset >= 0:
                for piece in self.read(member):
                    progress(len(piece))

    def _pieces(self, member: BackupMember) -> Iterator[bytes]:
        try:
            if member.offset >= 0:
                yield from _read_part(self._file, member.offset, member.size)
                return
            with (self.path.parent / member.name).open("rb") as file:
                if os.fstat(file.fileno()).st_size == member.size:
                    yield from _read_part(file, 0, member.size)
        except FileNotFoundError:
            raise self._make_error(f"{member.name} is missing beside it") from None
        except OSError as error:
            raise BackupFailed(f"{member.name} of the backup {self.path} cannot be read: {error.strerror}") from error

    def _headers(self) -> Iterator[BackupMember]:
        at = 0
        while True:
            self._file.seek(at)
            member = decode_header(self._file.read(BLOCK), at)
            if member is None:
                return
            at = member.offset + member.size + padding(member.size)
            if at > self._size:
                raise Malformed(f"it was cut off: {member.name} is not complete")
            yield member

    def _open(self) -> dict[str, Any]:
        self._list.execute("create table seen (name text primary key, size)")
        tail: list[BackupMember] = []
        for member in self._headers():
            if tail and tail[-1].name == MANIFEST:
                raise Malformed(f"it contains {member.name} after its manifest")
            if not self._add("insert into seen values (?, ?)", (member.name, member.size)):
                raise Malformed(f"it contains {member.name} twice")
            tail = [*tail[-1:], member]
        if [member.name for member in tail] != [MEMBERS, MANIFEST]:
            raise Malformed("it is not a backup, or it was cut off: its manifest is missing")
        manifest = self._read_manifest(tail[1])
        self._read_list(tail[0], manifest)
        return manifest

    def _add(self, statement: str, values: tuple[Any, ...]) -> bool:
        try:
            self._list.execute(statement, values)
        except sqlite3.IntegrityError:
            return False
        return True

    def _read_manifest(self, member: BackupMember) -> dict[str, Any]:
        if member.size > MAX_MANIFEST:
            raise Malformed("its manifest is too large")
        try:
            manifest = json.loads(b"".join(_read_part(self._file, member.offset, member.size)))
        except ValueError:
            manifest = None
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise Malformed("its manifest is not that of a backup")
        if manifest.pop("sha256", None) != digest_of(manifest):
            raise Malformed("its manifest was changed or damaged")
        if manifest.get("version") != VERSION:
            raise Malformed(
                f"it has format version {manifest.get('version')!r}, and this version of Postern reads {VERSION}; use "
                f"the version that wrote it ({manifest.get('postern', 'unknown')})"
            )
        return manifest

    def _read_list(self, member: BackupMember, manifest: dict[str, Any]) -> None:
        """Read names, sizes and hashes, and compare them with the headers."""
        self._list.execute("create table members (number integer primary key, name text unique, size, hash, place)")
        digest, left = hashlib.sha256(), member.size
        self._file.seek(member.offset)
        while left:
            line = self._file.readline(min(left, MAX_LINE))
            digest.update(line)
            left -= len(line)
            self._add_line(line)
        if digest.hexdigest() != manifest.get("members_sha256"):
            raise Malformed("its list of files was changed or damaged")
        self._require_none(
            "select name from seen where name not in (select name from members) and name not in (?, ?)",
            (MANIFEST, MEMBERS),
            "it contains {}, which its list of files does not have",
        )
        self._require_none(
            "select name from members where place < 0 and name not like ?", (f"{RECORDINGS}%",), "{} is missing"
        )

    def _require_none(self, query: str, values: tuple[str, ...], reason: str) -> None:
        row = self._list.execute(query, values).fetchone()
        if row is not None:
            raise Malformed(reason.format(row[0]))

    def _add_line(self, line: bytes) -> None:
        try:
            name, size, digest = json.loads(line)
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise ValueError
            check_name(name)
        except (ValueError, TypeError):
            raise Malformed("its list of files cannot be read") from None
        found = self._list.execute("select size from seen where name = ?", (name,)).fetchone()
        if found is not None and found[0] != size:
            raise Malformed(f"{name} does not have the size that its list of files says")
        values = (name, size, str(digest), -1 if found is None else 1)
        if not self._add("insert into members (name, size, hash, place) values (?, ?, ?, ?)", values):
            raise Malformed(f"its list of files has {name} twice")

    def _make_error(self, reason: str) -> Malformed:
        return Malformed(f"the backup {self.path} cannot be used: {reason}")


def _read_part(file: BinaryIO, offset: int, size: int) -> Iterator[bytes]:
    """Yield a part of a file. Its position is restored before each piece, so that others can read in between."""
    while size > 0:
        file.seek(offset)
        piece = file.read(min(CHUNK, size))
        if not piece:
            return
        offset, size = offset + len(piece), size - len(piece)
        yield piece
