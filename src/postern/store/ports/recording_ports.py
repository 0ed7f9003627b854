"""What recordings need from the outside once they are sealed: rows of their segments, a blob store, and leases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from postern.domain.sessions.segment import Segment


class SegmentStore(Protocol):
    async def add(self, segment: Segment) -> bool:
        """False when there is a segment of this session and number already; that one stays as it is."""

    async def of(self, session_id: UUID) -> Sequence[Segment]:
        """By number; those that are stored."""

    async def origin(self, session_id: UUID) -> tuple[UUID, datetime] | None:
        """(organisation, start) of a session; None when the store does not know it. Raises Gone when its
        recording was purged."""

    async def is_purged(self, session_id: UUID) -> bool:
        """Whether the ledger says that its recording was purged."""


class LeaseStore(Protocol):
    """Work that one process at a time does. Times are of the caller's clock: let a lease last far longer than clocks
    differ."""

    async def take(self, name: str, holder: str, at: datetime, lasts: timedelta) -> bool:
        """Gets it, or renews it. False while another holder has it."""

    async def find(self, name: str) -> tuple[str, datetime] | None:
        """Return who has it, and until when; None when nobody does."""

    async def release(self, name: str, holder: str) -> None:
        """Gives it back; does nothing when another holder has it."""


class Blobs(Protocol):
    """Where stored segments lie. All raise Unavailable when it does not answer in time, has no room or refuses us."""

    @property
    def name(self) -> str:
        """For people; holds no secret."""

    async def put(self, key: str, content: Iterable[bytes]) -> bool:
        """All of `content`, durable when this returns. False when something lies under this key; that stays as it is.

        `content` is read in a thread, once or not at all; what it raises passes. Safe to cancel and to repeat."""

    async def delete(self, key: str) -> None:
        """Does nothing when there is nothing under this key. Raises Unavailable also when the store keeps it, as object
        lock does."""

    def size(self, key: str) -> int:
        """In bytes. Blocks: call it from a thread. Raises NotFound."""

    def read(self, key: str, start: int, length: int) -> bytes:
        """At most `length` bytes from `start` on; fewer at its end. Blocks: call it from a thread. Raises NotFound."""
