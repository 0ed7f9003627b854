"""Background jobs: work that a process repeats. `wiring/background_job_wiring.py` lists them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from postern.errors import PosternError

log = logging.getLogger(__name__)

LONGEST = 300.0  # default time limit of a round, in seconds
STOPPING = 5.0  # seconds


async def _nothing() -> None:
    """Stop nothing."""


@dataclass(frozen=True, slots=True)
class Task:
    """A background job. `work` is one round, which can be cut off anywhere.

    The next round begins `every` seconds later, or at once when the job `goes_on` and the round returned that it did
    something, or when it is `woken`.
    """

    name: str
    every: float
    work: Callable[[], Awaitable[object]]
    goes_on: bool = False
    longest: float = LONGEST
    stop: Callable[[], Awaitable[None]] = _nothing
    woken: asyncio.Event | None = None


def _unheard(_name: str, _seconds: float, _failed: bool) -> None:
    """Ignore the report of a task."""


class BackgroundJobs:
    """Runs jobs. A slow or failing job delays no other. `on_round` receives each round: name, seconds,
    whether it failed."""

    def __init__(self, tasks: Sequence[Task], on_round: Callable[[str, float, bool], None] = _unheard) -> None:
        self.tasks = tuple(tasks)
        self._on_round = on_round

    async def forever(self) -> None:
        """Run until cancelled."""
        await asyncio.gather(*(self._rounds(task) for task in self.tasks))

    async def _rounds(self, task: Task) -> None:
        try:
            while True:
                did = await self._round(task)
                await _pause(0 if did and task.goes_on else task.every, task.woken)
        finally:
            await asyncio.shield(self._stop(task))

    async def _round(self, task: Task) -> bool:
        began, did, failed = time.monotonic(), False, True
        try:
            async with asyncio.timeout(task.longest):
                did = bool(await task.work())
            failed = False
        except TimeoutError:
            log.warning(
                "background job stopped after its time limit; the next round continues: job=%s limit=%gs",
                task.name,
                task.longest,
            )
        except PosternError as error:  # the store does not answer: the next round does it
            log.warning("background job failed: job=%s error=%s", task.name, error)
        except Exception:
            log.exception("background job failed: job=%s", task.name)
        self._on_round(task.name, time.monotonic() - began, failed)
        return did

    async def _stop(self, task: Task) -> None:
        try:
            async with asyncio.timeout(STOPPING):
                await task.stop()
        except (PosternError, TimeoutError) as error:  # a lease expires by itself
            log.info("background job did not stop cleanly: job=%s error=%s", task.name, error)


async def _pause(seconds: float, woken: asyncio.Event | None) -> None:
    if woken is None:
        await asyncio.sleep(seconds)
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await woken.wait()
    woken.clear()
