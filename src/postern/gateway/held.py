"""What becomes of a request that is held: parsed in a thread, or refused where nobody can be asked."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from postern.interception.verdicts import Refuse, Verdict
from postern.relay.driver import Driver
from postern.relay.link import Park
from postern.relay.parked import Parked

log = logging.getLogger(__name__)

PARSE_WITHIN = 20.0  # seconds, the wait for a thread included
_THREADS = 2

_TOO_LONG = Refuse(
    "guard rails",
    f"this could not be judged within {PARSE_WITHIN:g} seconds, so it was refused",
    "Send it in smaller parts, or try again when the gateway has less to do.",
)
_FAILED = Refuse(
    "guard rails", "this could not be judged, so it was refused", "Ask an administrator to look at the log."
)
_NOBODY = Refuse("guard rails", "this needs a review, and nobody can be asked for one here, so it was refused")


class HeldRequests:
    """Of all links of one worker. A request is settled once, and never behind the end of its link."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="parse")
        self._tasks: set[asyncio.Task[None]] = set()

    def on_park(self, driver: Driver, park: Park) -> None:
        parked = driver.link.parked
        if parked is None or parked.ticket != park.ticket:
            return
        # Not at once: whoever is told of it is in the middle of performing effects.
        task = asyncio.get_running_loop().create_task(self._settle(driver, parked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        driver.done.add_done_callback(lambda _done: task.cancel())

    async def _settle(self, driver: Driver, parked: Parked) -> None:
        driver.resume(parked.ticket, await self._verdict(parked))

    async def _verdict(self, parked: Parked) -> Verdict:
        work = parked.hold.work
        if work is None:
            return _NOBODY
        try:
            async with asyncio.timeout(PARSE_WITHIN):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError:
            log.error("a statement could not be parsed within %g seconds, so it was refused", PARSE_WITHIN)
            return _TOO_LONG
        except Exception:
            log.exception("a statement could not be judged, so it was refused")
            return _FAILED
