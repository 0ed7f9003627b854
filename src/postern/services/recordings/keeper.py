"""The rounds in which the ledger is written, checkpoints are signed and brought to their anchors.

One process at a time, by a lease; a second one would do no harm and no good. The lease lasts longer than a round, so
that one that is killed holds the others up for a minute.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from uuid import uuid4

from postern.errors import PosternError
from postern.services.recordings.checkpoints import Checkpoints
from postern.services.recordings.ledger import Ledger
from postern.store.ports import Clock
from postern.store.ports.recordings import LeaseStore

log = logging.getLogger(__name__)

LEASE = "ledger"
LASTS = timedelta(minutes=1)
INTERVAL = 5.0  # seconds between two rounds
LONGEST = 50.0  # seconds of a round


class Keeper:
    def __init__(self, leases: LeaseStore, ledger: Ledger, checkpoints: Checkpoints, now: Clock) -> None:
        self._leases = leases
        self._ledger = ledger
        self._checkpoints = checkpoints
        self._now = now
        self._holder = str(uuid4())

    async def once(self) -> bool:
        """Whether it was our turn. Raises Unavailable when the store does not answer."""
        if not await self._leases.take(LEASE, self._holder, self._now(), LASTS):
            return False
        await self._ledger.write()
        await self._checkpoints.sign_due()
        await self._checkpoints.bring()
        return True

    async def forever(self, interval: float = INTERVAL) -> None:
        """Until cancelled."""
        try:
            while True:
                try:
                    async with asyncio.timeout(LONGEST):
                        await self.once()
                except TimeoutError:
                    log.warning("the ledger's round took longer than %g seconds; the next one goes on", LONGEST)
                except PosternError as error:  # the store does not answer: the next round does it
                    log.warning("the ledger is not written: %s", error)
                await asyncio.sleep(interval)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Another one may go on at once."""
        try:
            await self._leases.release(LEASE, self._holder)
        except PosternError as error:  # it ends by itself
            log.info("the ledger's lease was not given back: %s", error)
