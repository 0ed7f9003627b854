"""Leases: work that one process at a time does, over all machines that share a store."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

from postern.store.ports.common_ports import Clock
from postern.store.ports.recording_ports import LeaseStore

HELD = timedelta(seconds=30)


class Lease:
    """A lease that this process can hold; renewed when half of its time has passed."""

    def __init__(self, store: LeaseStore, name: str, now: Clock, duration: timedelta = HELD) -> None:
        self._store = store
        self._name = name
        self._now = now
        self._held = duration
        self._holder = str(uuid4())
        self._until: datetime | None = None

    async def have(self) -> bool:
        """Return whether we hold it, for at least half of its time. Takes or renews it."""
        now = self._now()
        if self._until is not None and self._until - now > self._held / 2:
            return True
        is_taken = await self._store.take(self._name, self._holder, now, self._held)
        self._until = now + self._held if is_taken else None
        return self._until is not None

    async def release(self) -> None:
        """Release it, so that another process can take over at once."""
        if self._until is not None:
            self._until = None
            await self._store.release(self._name, self._holder)
