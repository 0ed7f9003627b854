"""Threads that judge statements which would take too long on the event loop, shared fairly.

Whoever has many large statements waits for himself: principals take turns, and none of them has all threads. What waits
is bounded, in all and for each principal; a job that began is not interrupted, and what a parser takes is bounded by
the size of its text. No process waits for such a job in order to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar
from uuid import UUID

from postern.gateway.fair_queue import FairQueue

THREADS: Final = 2
MOST: Final = 256  # jobs that wait
MOST_EACH: Final = 32  # … of one principal

Result = TypeVar("Result")


class Busy(Exception):
    """So much waits already that this would wait too long."""


class _Job(Generic[Result]):
    def __init__(self, work: Callable[[], Result], done: asyncio.Future[Result]) -> None:
        self.work = work
        self.done = done


class ParseThreads(Generic[Result]):
    """Of one event loop. `most` jobs wait, `most_each` of them of one owner."""

    def __init__(self, threads: int = THREADS, *, most: int = MOST, most_each: int = MOST_EACH) -> None:
        self._free = threads
        self._share = max(1, threads - 1)  # threads that one owner may have at a time
        self._most = most
        self._most_each = most_each
        self._waiting: FairQueue[UUID, _Job[Result]] = FairQueue()
        self._running: Counter[UUID] = Counter()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    async def run(self, owner: UUID, work: Callable[[], Result]) -> Result:
        """What `work` answers or raises. Raises Busy where too many wait. Who gives up before a thread has begun takes
        the job back."""
        if self._waiting.count(owner) >= self._most_each or len(self) >= self._most:
            raise Busy
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        job = _Job(work, done)
        self._waiting.put(owner, job)
        self._begin()
        try:
            return await done
        finally:
            self._waiting.remove(owner, job)

    def _begin(self) -> None:
        while self._free and (taken := self._waiting.take(self._may_have_thread)) is not None:
            owner, job = taken
            self._free -= 1
            self._running[owner] += 1
            loop = asyncio.get_running_loop()
            threading.Thread(target=self._work, args=(loop, owner, job), name="parse", daemon=True).start()

    def _work(self, loop: asyncio.AbstractEventLoop, owner: UUID, job: _Job[Result]) -> None:
        """In a thread of its own: an executor's would be waited for when the process ends."""
        try:
            result = job.work()
        except BaseException as error:
            told = partial(_fail, job.done, error)
        else:
            told = partial(_answer, job.done, result)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._finished, owner, told)

    def _may_have_thread(self, owner: UUID) -> bool:
        return self._running[owner] < self._share

    def _finished(self, owner: UUID, tell: Callable[[], None]) -> None:
        self._free += 1
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        tell()
        self._begin()


def _answer(done: asyncio.Future[Result], result: Result) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Result], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
