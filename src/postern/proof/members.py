"""The members of an export, read from a tar or from a folder: in order, once, in constant memory."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from postern.errors import Malformed
from postern.proof.package import BLOCK, END, GROUPS, PackageDigest, group_of, header, padding

CHUNK = 256 * 1024


class ExportMember(io.RawIOBase):
    """One file of an export. Reading it hashes it; `again` opens it a second time, for who has read it to the end."""

    def __init__(self, name: str, size: int, source: BinaryIO, again: Callable[[], BinaryIO]) -> None:
        self.member_name = name
        self.group = group_of(name)
        self.size = size
        self.again = again
        self._source = source
        self._left = size
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Who reads it through a buffer closes that, and not what it comes from."""

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # as io.RawIOBase has it
        """Raises Malformed when the file is shorter than it says."""
        if not self._left:
            return 0
        data = self._source.read(min(len(buffer), self._left))
        if not data:
            raise Malformed(f"the export ends in the middle of {self.member_name}")
        self._left -= len(data)
        self._hash.update(data)
        buffer[: len(data)] = data
        return len(data)

    def finish(self, digest: PackageDigest) -> None:
        """Reads what is left, and adds it to the digest of the export."""
        while self.read(CHUNK):
            pass
        digest.add(self.member_name, self.size, self._hash.digest())


def members(path: Path) -> Iterator[ExportMember]:
    """Each must be read to its end before the next one is asked for. Raises Malformed, OSError."""
    return _of_folder(path) if path.is_dir() else _of_tar(path)


def _of_folder(folder: Path) -> Iterator[ExportMember]:
    files = [one for one in folder.rglob("*") if not one.is_dir() or one.is_symlink()]
    names = {one.relative_to(folder).as_posix(): one for one in files}
    for name in sorted(names, key=_place):
        file = names[name]
        if file.is_symlink() or not file.is_file():
            raise Malformed(f"{name} is not a file")
        with file.open("rb") as source:
            size = source.seek(0, io.SEEK_END)
            source.seek(0)
            yield ExportMember(name, size, source, lambda file=file: file.open("rb"))  # type: ignore[misc]


def _place(name: str) -> tuple[int, str]:
    group = group_of(name)
    return (GROUPS.index(group) if group else len(GROUPS), name)


def _of_tar(path: Path) -> Iterator[ExportMember]:
    with path.open("rb") as source:
        while True:
            block = source.read(BLOCK)
            if block == END[:BLOCK]:
                if source.read(BLOCK) != END[BLOCK:] or source.read(1):
                    raise Malformed("there is something behind the end of the export")
                return
            name, size = _header(block)
            begin = source.tell()
            yield ExportMember(name, size, source, lambda begin=begin, size=size: _Part(path, begin, size))  # type: ignore[misc]
            if source.read(-size % BLOCK) != padding(size):
                raise Malformed(f"there is something between {name} and what follows it")


def _header(block: bytes) -> tuple[str, int]:
    if len(block) < BLOCK:
        raise Malformed("the export ends early")
    try:
        one = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        same = header(one.name, one.size) == block
    except (tarfile.TarError, ValueError):
        same = False
    if not same:
        raise Malformed("it is not a tar as exports are")
    return one.name, one.size


class _Part(io.BytesIO):
    """A member that is looked at once more, which is done where something is wrong with it."""

    def __init__(self, path: Path, begin: int, size: int) -> None:
        with path.open("rb") as source:
            source.seek(begin)
            super().__init__(source.read(size))
