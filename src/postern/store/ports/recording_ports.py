"""The ports of sealed recordings: rows of segments, a blob store, and leases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from postern.domain.sessions.segment import Segment


class SegmentStore(Protocol):
    async def add(self, segment: Segment) -> bool:
        """Add a row; False when the session has a segment of this number, which stays as it is."""

    async def of(self, session_id: UUID) -> Sequence[Segment]:
        """Return stored segments by number."""

    async def origin(self, session_id: UUID) -> tuple[UUID, datetime] | None:
        """Return (organisation, start) of a session; None for an unknown one. Raises Gone when its recording was
        purged."""

    async def is_purged(self, session_id: UUID) -> bool:
        """Return whether the ledger has a purge of its recording."""


class LeaseStore(Protocol):
    """Leases for work that one process at a time does. Times are by the caller's clock: a lease must last far longer
    than clocks differ."""

    async def take(self, name: str, holder: str, at: datetime, lasts: timedelta) -> bool:
        """Take or renew the lease. False while another holder has it."""

    async def find(self, name: str) -> tuple[str, datetime] | None:
        """Return its holder, and until when; None when it is free."""

    async def release(self, name: str, holder: str) -> None:
        """Release it; do nothing when another holder has it."""


class Blobs(Protocol):
    """A store of segments. All methods raise Unavailable when it does not answer in time, is full or denies access."""

    @property
    def name(self) -> str:
        """A name for users; not secret."""

    async def put(self, key: str, content: Iterable[bytes]) -> bool:
        """Store all of `content`, durably when this returns. False when this key exists, which stays as it is.

        `content` is read in a thread, once or not at all; its exceptions pass. Safe to cancel and to repeat.
        """

    async def delete(self, key: str) -> None:
        """Delete a blob; do nothing when there is none. Raises Unavailable also when the store keeps it, as object
        lock does."""

    def size(self, key: str) -> int:
        """Return the size in bytes. Blocks: call it from a thread. Raises NotFound."""

    def read(self, key: str, start: int, length: int) -> bytes:
        """Return at most `length` bytes from `start` on; fewer at its end. Blocks: call it from a thread. Raises
        NotFound."""
