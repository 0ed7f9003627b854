"""One gateway for each store: a second one would close the sessions of the first and falsify their record.

A gateway is its data folder. It claims the store for as long as one of its workers sends heartbeats, so it comes back
at once after a crash, and another gateway has to wait until the claim expires.
"""

from __future__ import annotations

import math
from datetime import timedelta

from postern.errors import Conflict
from postern.store.ports.common_ports import Clock
from postern.store.ports.recording_ports import LeaseStore

LEASE = "gateway"
EXPIRES = timedelta(seconds=60)  # after the last heartbeat; workers send one every 5 s
_MOST_PLACE = 90  # characters


class StoreClaim:
    """A gateway's claim. `gateway` is the identity of the data folder, `place` its path."""

    def __init__(self, leases: LeaseStore, gateway: str, place: str, now: Clock) -> None:
        self._leases = leases
        self._holder = f"{gateway} {place[-_MOST_PLACE:]}"
        self._now = now

    async def take(self) -> None:
        """Claim the store, or renew the claim. Raises Conflict while another gateway has it."""
        now = self._now()
        if await self._leases.take(LEASE, self._holder, now, EXPIRES):
            return
        claim = await self._leases.find(LEASE)
        if claim is None:  # it was just released
            place, age = "unknown", 0
        else:
            place = claim[0].partition(" ")[2]
            age = max(0, math.ceil((now - (claim[1] - EXPIRES)).total_seconds()))
        wait = EXPIRES.total_seconds()
        raise Conflict(
            f"another gateway uses this store: the one with the data folder {place}, last heartbeat {age} s ago. "
            "Postern supports one gateway for each store. Stop that gateway and start this one again. "
            f"If the other gateway no longer runs, start this one again {wait:.0f} s after that heartbeat. "
            "To run both, give this one its own store with POSTERN_DATABASE_URL",
            field="database_url",
        )

    async def release(self) -> None:
        """Let another gateway start at once. Does nothing where another has the claim."""
        await self._leases.release(LEASE, self._holder)
