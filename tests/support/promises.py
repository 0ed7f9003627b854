"""How soon something happens, where the documentation says so.

A run of the tests proves that it happens, on whatever machine and beside whatever else that does. How soon it happens
is a figure of a quiet machine: `POSTERN_TEST_TIMES=1` holds the tests to what is written.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable

TIMED = os.environ.get("POSTERN_TEST_TIMES") == "1"
PATIENT = 120.0  # seconds after which a test gives up


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
