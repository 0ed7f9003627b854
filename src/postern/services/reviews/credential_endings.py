"""The end of a credential: its links end, and the reviews that wait for its client are withdrawn."""

from __future__ import annotations

from uuid import UUID

from postern.services.reviews.review_signals import signal_change
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.review_ports import ReviewStore


class CredentialEndings:
    """Announces credentials that were revoked, or expire earlier. The store has the change already."""

    def __init__(self, reviews: ReviewStore, signals: Signals, now: Clock) -> None:
        self._reviews = reviews
        self._signals = signals
        self._now = now

    async def announce(self, credential_id: UUID) -> None:
        """Signal the change to all processes, and withdraw pending reviews if the credential is no longer valid. Can be
        repeated. Raises Unavailable; then the background job for reviews withdraws them."""
        await self._signals.publish(Topic.CREDENTIAL_REVOKED, credential_id=str(credential_id))
        for moved in await self._reviews.withdraw_unusable(self._now(), credential_id):
            await signal_change(self._signals, moved)
