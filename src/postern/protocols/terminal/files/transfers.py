"""Files as they are read and written: how much, and the hash of what went by.

Programs read and write a file from its beginning to its end, several requests ahead of the answers. So a hash is kept
that goes on with what comes next; what comes out of its turn waits, up to `MOST_AHEAD` bytes of all files of a session.
Beyond that, and where a file is not taken from its beginning, there is no hash: it would be one of nothing that anybody
has.
"""

from __future__ import annotations

from typing import Final

from postern.protocols.terminal.files.file_hashing import FileHash

MOST_AHEAD: Final = 4 << 20  # bytes
_PIECE: Final = 200  # bytes that a piece takes besides its own


class Ahead:
    """How much waits for its turn, of all files of a session: bytes."""

    def __init__(self) -> None:
        self.size = 0


class FileDigest:
    """Of the bytes of a file from 0 on. `size` counts all bytes that went by, repeated ones too."""

    def __init__(self, ahead: Ahead) -> None:
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
        while (found := self._ahead.pop(self._next, None)) is not None:
            self._all.size -= len(found) + _PIECE
            self._hash.update(found)
            self._next += len(found)

    def give_up(self) -> None:
        """There is no hash."""
        self._broken = True
        self.drop()

    def drop(self) -> None:
        """What still waits: nothing more comes, or it would be in vain."""
        for data in self._ahead.values():
            self._broken = True
            self._all.size -= len(data) + _PIECE
        self._ahead.clear()

    @property
    def hexadecimal(self) -> str:
        """Empty where there is none."""
        return "" if self._broken or self._ahead else self._hash.hexdigest()


class Transfer:
    """One file that is open, by the exchange that opened it; `path` is what its client called it."""

    def __init__(self, exchange: int, path: bytes, ahead: Ahead) -> None:
        self.exchange = exchange
        self.path = path
        self.read = FileDigest(ahead)
        self.written = FileDigest(ahead)
        self.error = ""

    def tag(self) -> str:
        """What became of it: what was written, or else what was read."""
        parts: list[str] = []
        for what, digest in (("wrote", self.written), ("read", self.read)):
            digest.drop()
            if digest.size or (what == "read" and not parts):
                known = digest.hexadecimal
                parts.append(f"{what} {digest.size} bytes" + (f", sha256 {known}" if known else ""))
        return "; ".join(parts)
