"""A pool of threads for slow work: parsing templates, and rendering them.

This is pure Python work, which the interpreter runs in one thread at a time. Each thread that waits for the interpreter
delays the event loop. So one thread works while the others sleep.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar
from uuid import UUID

T = TypeVar("T")

_WORK, _REST = 0.002, 0.001  # seconds that a slice of it takes, and that the thread sleeps behind it
_SWITCH = 0.0005  # seconds after which a thread must give the interpreter to a waiting one
_AT_ONCE = 4  # threads of each kind of work, which take turns

_working = threading.Lock()  # of the process, as the interpreter is


class TimeSlices:
    """The context of the working thread."""

    def __enter__(self) -> TimeSlices:
        _working.acquire()
        self._usual = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH)
        self._until = time.monotonic() + _WORK
        return self

    def __exit__(self, *_: object) -> None:
        sys.setswitchinterval(self._usual)
        _working.release()

    def rest(self) -> None:
        """Yield to the event loop and other threads when the slice has ended; call it often."""
        if time.monotonic() >= self._until:
            self.__exit__()
            time.sleep(_REST)
            self.__enter__()


class WorkerPool:
    """A pool for one kind of work. An organisation runs one piece at a time, so that it does not block others."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="runbooks")
        self._all = asyncio.Semaphore(_AT_ONCE)
        self._of: defaultdict[UUID, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def of(self, org_id: UUID) -> AsyncIterator[None]:
        """Hold the organisation's turn around `do`, and around fetching its input."""
        async with self._of[org_id], self._all:
            yield

    async def do(self, work: Callable[[TimeSlices], T]) -> T:
        """Run the work in a thread, and return or raise its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, _in_turn, work)

    async def take(self, org_id: UUID, work: Callable[[TimeSlices], T]) -> T:
        async with self.of(org_id):
            return await self.do(work)


def _in_turn(work: Callable[[TimeSlices], T]) -> T:
    with TimeSlices() as slices:
        return work(slices)
