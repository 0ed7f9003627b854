"""Writer of exports. Each call returns the bytes that come next."""

from __future__ import annotations

import hashlib
from datetime import datetime

from postern.domain.sessions.ledger import LedgerKey
from postern.proof.package import END, MANIFEST, SEAL, Manifest, PackageDigest, header, padding, part_name, seal_content

PART = 4 * 1024 * 1024  # bytes of lines per member


class PackageWriter:
    """Writer of one export. Groups come in the order of `package.GROUPS`, segments in the order of their names."""

    def __init__(self, manifest: Manifest, key: LedgerKey, *, part: int = PART) -> None:
        self._manifest = manifest
        self._key = key
        self._part = part
        self._digest = PackageDigest()
        self._group = ""
        self._parts = 0
        self._lines = bytearray()

    def begin(self) -> bytes:
        return self.member(MANIFEST, self._manifest.line())

    def line(self, group: str, line: bytes) -> bytes:
        """Add a line; returns nothing most of the time."""
        before = b"" if group == self._group else self.flush()
        self._group = group
        self._lines += line + b"\n"
        return before + (self._cut() if len(self._lines) >= self._part else b"")

    def flush(self) -> bytes:
        """Return the rest of a group's lines, at the end of the group."""
        data = self._cut() if self._lines else b""
        self._group, self._parts = "", 0
        return data

    def member(self, name: str, data: bytes) -> bytes:
        self._digest.add(name, len(data), hashlib.sha256(data).digest())
        return header(name, len(data)) + data + padding(len(data))

    def stream(self, name: str, size: int, digest: bytes) -> tuple[bytes, bytes]:
        """Return the bytes before and after a member, whose content is sent separately and has that SHA-256."""
        self._digest.add(name, size, digest)
        return header(name, size), padding(size)

    def end(self, at: datetime) -> bytes:
        """Return the seal and the end of the tar file."""
        data = self.flush()
        seal = seal_content(self._key, at, self._digest.digest())
        return data + header(SEAL, len(seal)) + seal + padding(len(seal)) + END

    def _cut(self) -> bytes:
        self._parts += 1
        data = self.member(part_name(self._group, self._parts), bytes(self._lines))
        self._lines.clear()
        return data
