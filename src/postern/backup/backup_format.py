"""Format of a backup: an uncompressed tar file (ustar) of regular files, which other tools can list and extract.

`manifest.json` is the last member, `members.jsonl` the one before it: name, size and SHA-256 of each member, and of
each recording that lies beside the file in a backup folder. The manifest has that of
`members.jsonl`, and its own.

Headers are read and written one by one instead of by `tarfile.TarFile`, which keeps all of them in memory, and reads
extended headers of any size before one can look at them.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from postern.errors import Malformed

FORMAT, VERSION = "postern-backup", 1
MANIFEST, MEMBERS = "manifest.json", "members.jsonl"
RECORDINGS = "recordings/"
BLOCK = tarfile.BLOCKSIZE
CHUNK = 1024 * 1024
MAX_MANIFEST = 16 * 1024 * 1024  # bytes
MAX_LINE = 4096  # bytes of a line of `members.jsonl`
_MAX_NAME = 250  # characters; ustar has 255
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


@dataclass(frozen=True, slots=True)
class BackupMember:
    """A file in a backup. `offset` is where its content begins; -1 if it lies beside the backup."""

    name: str
    size: int
    offset: int = -1


def check_name(name: str) -> str:
    """Return the name. Raises Malformed for one that could lead out of a folder."""
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise Malformed(f"it contains a file with the name {name[:_MAX_NAME]!r}, which no backup has")
    return name


def digest_of(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest, which it has itself as `sha256`."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def encode_header(name: str, size: int, at: float) -> bytes:
    info = tarfile.TarInfo(check_name(name))
    info.size, info.mode, info.mtime = size, 0o600, int(at)
    return info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")


def decode_header(block: bytes, offset: int) -> BackupMember | None:
    """Return the member whose header this is; None at the end of the archive. Raises Malformed."""
    if not block.strip(b"\0") and len(block) == BLOCK:
        return None
    try:
        info = tarfile.TarInfo.frombuf(block, "ascii", "strict")
    except (tarfile.HeaderError, UnicodeError, ValueError):
        raise Malformed("it is not a backup, or it was cut off or changed") from None
    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise Malformed(f"it contains {info.name[:_MAX_NAME]!r}, which is not a regular file")
    if info.size < 0:
        raise Malformed(f"it contains {info.name[:_MAX_NAME]!r} with a negative size")
    return BackupMember(check_name(info.name), info.size, offset + BLOCK)


def padding(size: int) -> int:
    return -size % BLOCK
