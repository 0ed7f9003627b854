"""What has lost its meaning is forgotten, now and then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from postern.errors import PosternError
from postern.services.errands import Errands
from postern.services.identity.logins import Logins
from postern.services.identity.vouchers import Vouchers
from postern.services.recordings.texts import SessionTexts
from postern.services.relay_workers import RelayWorkers
from postern.store.ports import Clock, IdempotencyStore

log = logging.getLogger(__name__)

INTERVAL = 600.0  # seconds
READING = 2.0  # seconds between looks for sessions that have ended
ANSWERS_STAY = timedelta(days=1)  # for requests that carried an idempotency key


class Upkeep:
    def __init__(
        self,
        logins: Logins,
        vouchers: Vouchers,
        workers: RelayWorkers,
        errands: Errands,
        texts: SessionTexts,
        answers: IdempotencyStore,
        now: Clock,
    ) -> None:
        self._texts = texts
        self._answers = answers
        self._now = now
        self._tasks: tuple[Callable[[], Awaitable[None]], ...] = (
            logins.prune,
            vouchers.prune,
            workers.prune,
            errands.prune,
            self._prune_answers,
        )

    async def once(self) -> None:
        for task in self._tasks:
            try:
                await task()
            except PosternError as error:  # the store does not answer: the next round does it
                log.warning("upkeep: %s", error)

    async def forever(self, interval: float = INTERVAL) -> None:
        """Until cancelled."""
        await asyncio.gather(self._pruning(interval), self._reading(min(interval, READING)))

    async def _pruning(self, interval: float) -> None:
        while True:
            await self.once()
            await asyncio.sleep(interval)

    async def _reading(self, interval: float) -> None:
        """So that sessions can be searched soon after they ended."""
        while True:
            try:
                await self._texts.catch_up()
            except PosternError as error:
                log.warning("upkeep: %s", error)
            await asyncio.sleep(interval)

    async def _prune_answers(self) -> None:
        await self._answers.prune(self._now() - ANSWERS_STAY)
