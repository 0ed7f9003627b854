"""SHA-256 of files while they go by. Where the processor has no instructions for it, that costs as much as all else of
a byte, so it is left to a thread, which does not hold the interpreter's lock meanwhile.

One file at a time has that thread, and only that one's bytes are kept until there are enough for a turn. Another one
takes it over between two turns; while that cannot be it is hashed at once, where it is.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from typing import Final

_TURN: Final = 512 * 1024  # bytes that are worth one
_MOST: Final = 2 << 20  # bytes that wait for the end of one; then it is waited for
_THREAD: Final = ThreadPoolExecutor(1, "file-hashes")


class FileHash:
    def __init__(self) -> None:
        self._hash = sha256()
        self._parts: list[bytes] = []
        self._size = 0
        self._turn: Future[None] | None = None

    def update(self, data: bytes) -> None:
        if _HOLDER.file is not self and not _HOLDER.take(self):
            self._hash.update(data)
            return
        self._parts.append(data)
        self._size += len(data)
        if self._size >= _MOST or (self._size >= _TURN and not self.is_busy):
            self._wait()
            self._turn = _THREAD.submit(self._hash.update, self._taken())

    def hexdigest(self) -> str:
        self.settle()
        return self._hash.hexdigest()

    @property
    def is_busy(self) -> bool:
        return self._turn is not None and not self._turn.done()

    def settle(self) -> None:
        """All that has come is in the hash."""
        self._wait()
        if self._parts:
            self._hash.update(self._taken())

    def _wait(self) -> None:
        if self._turn is not None:
            self._turn.result()
            self._turn = None

    def _taken(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return data


class _Holder:
    """Which file has the thread."""

    def __init__(self) -> None:
        self.file: FileHash | None = None

    def take(self, file: FileHash) -> bool:
        if self.file is not None:
            if self.file.is_busy:
                return False
            self.file.settle()
        self.file = file
        return True


_HOLDER: Final = _Holder()
