"""How soon something happens, where the documentation says so.

A run of the tests proves that it happens, on whatever machine and beside whatever else that does. How soon it happens
is a figure of a quiet machine: `POSTERN_TEST_TIMES=1` holds the tests to what is written.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TIMED = os.environ.get("POSTERN_TEST_TIMES") == "1"
PATIENT = 120.0  # seconds after which a test gives up
IN_TIME = (5, 20, 80)  # seconds: tried one after the other where a client has to be in before that time is over


def within(seconds: float) -> float:
    """How long to wait for what is promised within `seconds`."""
    return seconds if TIMED else max(PATIENT, seconds)


async def until(true: Callable[[], object], seconds: float = PATIENT) -> None:
    """For what sets no event: a log, a file, a count, another process. `true` may be a coroutine function."""
    async with asyncio.timeout(seconds):
        while True:
            found = true()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.01)


def wait_until(true: Callable[[], T | None], timeout: float = PATIENT, every: float = 0.02) -> T:
    """The first truthy answer of `true`, asked again and again. Fails the test when none comes within `timeout` s."""
    deadline = time.monotonic() + timeout
    while True:
        answer = true()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {timeout:g} s: {answer!r}")
        time.sleep(every)
