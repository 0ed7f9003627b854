"""Files in transit: sizes and hashes of the bytes that are read or written.

Programs read and write a file from start to end, with several requests pending. So the hash is computed in order, and
bytes that arrive out of order wait, up to `MOST_AHEAD` bytes for all files of a session. Beyond that, or if a file is
not transferred from its start, there is no hash: it would not match any file.
"""

from __future__ import annotations

from typing import Final

from postern.protocols.terminal.files.file_hashing import FileHash

MOST_AHEAD: Final = 4 << 20  # bytes
_PIECE: Final = 200  # overhead of a piece besides its bytes


class OutOfOrderBytes:
    """Counter of the bytes that wait out of order, over all files of a session."""

    def __init__(self) -> None:
        self.size = 0


class FileDigest:
    """Hash of a file's bytes from offset 0 on. `size` counts all transferred bytes, including repeated ones."""

    def __init__(self, ahead: OutOfOrderBytes) -> None:
        self.size = 0
        self._all = ahead
        self._hash = FileHash()
        self._next = 0
        self._ahead: dict[int, bytes] = {}
        self._broken = False

    def add(self, offset: int, data: bytes) -> None:
        self.size += len(data)
        if self._broken or not data:
            return
        if offset == self._next and not self._ahead:  # nearly always
            self._hash.update(data)
            self._next += len(data)
            return
        waits = offset != self._next
        if offset < self._next or offset in self._ahead or (waits and self._all.size + len(data) + _PIECE > MOST_AHEAD):
            self.give_up()
            return
        self._ahead[offset] = data
        self._all.size += len(data) + _PIECE
        while (found_data := self._ahead.pop(self._next, None)) is not None:
            self._all.size -= len(found_data) + _PIECE
            self._hash.update(found_data)
            self._next += len(found_data)

    def give_up(self) -> None:
        """Give up the hash."""
        self._broken = True
        self.drop()

    def drop(self) -> None:
        """Drop the waiting bytes: the transfer has ended, or there will be no hash."""
        for data in self._ahead.values():
            self._broken = True
            self._all.size -= len(data) + _PIECE
        self._ahead.clear()

    @property
    def hexadecimal(self) -> str:
        """Return the hash; empty if there is none."""
        return "" if self._broken or self._ahead else self._hash.hexdigest()


class Transfer:
    """One open file, identified by the exchange that opened it. `path` is the client's name of it."""

    def __init__(self, exchange: int, path: bytes, ahead: OutOfOrderBytes) -> None:
        self.exchange = exchange
        self.path = path
        self.read = FileDigest(ahead)
        self.written = FileDigest(ahead)
        self.error = ""

    def tag(self) -> str:
        """Return the summary of the transfer: what was written, or else what was read."""
        parts: list[str] = []
        for what, digest in (("wrote", self.written), ("read", self.read)):
            digest.drop()
            if digest.size or (what == "read" and not parts):
                sha256 = digest.hexadecimal
                parts.append(f"{what} {digest.size} bytes" + (f", sha256 {sha256}" if sha256 else ""))
        return "; ".join(parts)
