"""Buffered writing to a program's standard input, as fast as the program reads."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable


class StdinWriter:
    """The writer, which closes `fd` with itself. `on_taken` is called when the program has read something, or reads no
    more."""

    def __init__(self, fd: int, on_taken: Callable[[], None]) -> None:
        self.fd = fd
        self.waiting = 0  # bytes
        self._taken = on_taken
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes] = deque()
        self._ended = False
        self._open = True
        os.set_blocking(fd, False)

    def write(self, data: bytes) -> None:
        if not self._open or self._ended:
            return
        if not self._queue:
            data = data[self._write_some(data) :]
        if data and self._open:
            if not self._queue:
                self._loop.add_writer(self.fd, self._writable)
            self._queue.append(data)
            self.waiting += len(data)

    def close_when_taken(self) -> None:
        self._ended = True
        if not self._queue:
            self.close()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._queue.clear()
            self.waiting = 0
            self._loop.remove_writer(self.fd)
            os.close(self.fd)

    def _write_some(self, data: bytes) -> int:
        try:
            return os.write(self.fd, data)
        except BlockingIOError:
            return 0
        except OSError:  # the program reads no more; it may continue to run
            self.close()
            return len(data)

    def _writable(self) -> None:
        while self._queue:
            data = self._queue[0]
            written = self._write_some(data)
            if not self._open:
                break
            self.waiting -= written
            if written < len(data):
                self._queue[0] = data[written:]
                break
            self._queue.popleft()
        if self._open and not self._queue:
            self._loop.remove_writer(self.fd)
            if self._ended:
                self.close()
        self._taken()
