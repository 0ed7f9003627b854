"""The job that writes the ledger, signs checkpoints and delivers them to their anchors.

One process at a time runs it, by a lease; a second one would be harmless but useless. The lease outlasts a round, so a
killed process delays the others by a minute or two.
"""

from __future__ import annotations

from datetime import timedelta

from postern.services.leases import Lease
from postern.services.recordings.checkpoints import Checkpoints
from postern.services.recordings.recording_ledger import Ledger
from postern.store.ports.common_ports import Clock
from postern.store.ports.recording_ports import LeaseStore

LEASE = "ledger"
LONGEST = 50.0  # seconds of a round
LASTS = timedelta(seconds=2 * LONGEST)  # so that at least one round is left of it when one begins


class LedgerWorker:
    def __init__(self, leases: LeaseStore, ledger: Ledger, checkpoints: Checkpoints, now: Clock) -> None:
        self._ledger = ledger
        self._checkpoints = checkpoints
        self._lease = Lease(leases, LEASE, now, LASTS)

    async def once(self) -> bool:
        """Run a round, of at most LONGEST; return whether it was our turn. Raises Unavailable when the store does not
        answer."""
        if not await self._lease.have():
            return False
        await self._ledger.write()
        await self._checkpoints.sign_due()
        await self._checkpoints.bring()
        return True

    async def stop(self) -> None:
        """Release the lease, so that another process can take over at once."""
        await self._lease.release()
