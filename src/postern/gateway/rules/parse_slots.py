"""Fairly shared slots for evaluating statements: processes for long ones, the event loop for many short ones.

In a thread a long statement would block the event loop as well, because the parsers run for a long time without
releasing the interpreter's lock. A process can also be ended when an evaluation takes too long. Processes start on
demand, and one stays.

Principals take turns. With several slots, no principal uses all of them. The number of waiting tasks is limited, in
total and per principal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from anyio import CapacityLimiter, to_process

from postern.gateway.rules.fair_queue import FairQueue

PROCESSES: Final = 2
LONGEST: Final = 20.0  # maximum seconds of a process for one statement
MOST: Final = 256  # waiting tasks
MOST_EACH: Final = 32  # … of one principal
_NICENESS: Final = 10  # relaying has precedence when processors are scarce

Task = Callable[[], object]
Run = Callable[[Task], Awaitable[object]]


class QueueFull(Exception):
    """Too many tasks wait already."""


class ParseSlots:
    """The slots of one event loop. `most` tasks can wait, `most_each` of them of one owner. `run` runs one.

    A started task runs to its end and keeps its slot even if its owner cancels. Otherwise a client that reconnects
    again and again would make the gateway start one process after another.
    """

    def __init__(self, slots: int, run: Run, *, most: int = MOST, most_each: int = MOST_EACH) -> None:
        self._free = slots
        self._share = max(1, slots - 1)  # slots that one owner can use at a time
        self._most = most
        self._most_each = most_each
        self._run = run
        self._waiting: FairQueue[UUID, asyncio.Future[None]] = FairQueue()
        self._running: Counter[UUID] = Counter()
        self._tasks: set[asyncio.Future[object]] = set()

    def __len__(self) -> int:
        """Return how many tasks wait."""
        return len(self._waiting)

    async def run(self, owner: UUID, task: Task) -> object:
        """Return the result of `task`, or raise its error. Raises Busy if too many tasks wait."""
        if self._waiting.count(owner) >= self._most_each or len(self) >= self._most:
            raise QueueFull
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(owner, turn)
        self._begin()
        try:
            await turn
        except asyncio.CancelledError:
            if not self._waiting.remove(owner, turn):  # its turn came at the same time
                self._leave(owner)
            raise
        running = asyncio.ensure_future(self._run(task))
        self._tasks.add(running)

        def handle_task_done(_: object) -> None:
            self._tasks.discard(running)
            self._leave(owner)
            if not running.cancelled():
                running.exception()  # the caller may have gone

        running.add_done_callback(handle_task_done)
        return await asyncio.shield(running)

    def _begin(self) -> None:
        while self._free and (entry := self._waiting.take(self._may_run)) is not None:
            owner, turn = entry
            self._free -= 1
            self._running[owner] += 1
            if not turn.done():
                turn.set_result(None)

    def _may_run(self, owner: UUID) -> bool:
        return self._running[owner] < self._share

    def _leave(self, owner: UUID) -> None:
        self._free += 1
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        self._begin()


def process_slots() -> ParseSlots:
    """Return slots in other processes: tasks and their results are pickled."""
    limiter: list[CapacityLimiter] = []  # created within the event loop

    async def run(task: Task) -> object:
        if not limiter:
            limiter.append(CapacityLimiter(PROCESSES))
        async with asyncio.timeout(LONGEST):
            return await to_process.run_sync(_run_in_child, task, cancellable=True, limiter=limiter[0])

    return ParseSlots(PROCESSES, run)


def loop_slot() -> ParseSlots:
    """Return one slot on the event loop, which does other work between two tasks. The queue needs no limit: a session
    waits with one task at a time."""

    async def run(task: Task) -> object:
        await asyncio.sleep(0)
        return task()

    return ParseSlots(1, run, most=sys.maxsize, most_each=sys.maxsize)


_is_nice = False


def _run_in_child(task: Task) -> object:
    global _is_nice
    if not _is_nice:
        _is_nice = True
        with contextlib.suppress(OSError):
            os.nice(_NICENESS)
    return task()
