"""SHA-256 of files in transit.

On processors without SHA instructions, hashing costs as much as everything else that is done with a byte. It then runs
in a thread, which does not hold the interpreter's lock meanwhile. One file at a time uses the thread. Only that file's
bytes are buffered until there are enough for a turn. Another file can take the thread over between two turns; until
then it is hashed at once, in the event loop.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from typing import Final

_TURN: Final = 512 * 1024  # bytes that make a turn worth its overhead
_MOST: Final = 2 << 20  # bytes that can wait for a turn to end; beyond that the caller waits for it
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
            self._turn = _THREAD.submit(self._hash.update, self._take_parts())

    def hexdigest(self) -> str:
        self.settle()
        return self._hash.hexdigest()

    @property
    def is_busy(self) -> bool:
        return self._turn is not None and not self._turn.done()

    def settle(self) -> None:
        """Wait until the hash covers all bytes."""
        self._wait()
        if self._parts:
            self._hash.update(self._take_parts())

    def _wait(self) -> None:
        if self._turn is not None:
            self._turn.result()
            self._turn = None

    def _take_parts(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return data


class _Holder:
    """The file that uses the thread."""

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
