"""The stores of retention: settings, holds, and purges that have begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.lists import Page, Position, Stretch
from postern.domain.sessions.ledger import LedgerEntry
from postern.domain.sessions.retention import LegalHold, Preview, Purge, RetainedSession, Retention, RetentionSetting
from postern.domain.sessions.segment import Segment
from postern.store.ports.server_ports import AuditEntry


@dataclass(frozen=True, slots=True)
class Doomed:
    """A purge to carry out, with the stored segments of its recording."""

    purge: Purge
    segments: Sequence[Segment]


class RetentionStore(Protocol):
    async def all(self) -> list[RetentionSetting]:
        """Return the settings of all organisations; they are few."""

    async def of(self, org_id: UUID) -> list[RetentionSetting]:
        """Return that of the organisation first, then by the names of connections."""

    async def set(self, setting: RetentionSetting) -> None:
        """Replace the setting of the same connection, or of the whole organisation."""

    async def preview(
        self,
        org_id: UUID,
        retention: Retention,
        at: datetime,
        *,
        connection_id: UUID | None = None,
        without: Sequence[UUID] = (),
    ) -> Preview:
        """Return the preview for all connections but `without`, or for one."""


class HoldStore(Protocol):
    async def find(self, org_id: UUID, page: Page) -> Stretch[LegalHold]:
        """Return holds, newest first."""

    async def of(self, session_id: UUID) -> list[LegalHold]:
        """Return holds by name."""

    async def add(self, hold: LegalHold, entry: LedgerEntry) -> bool:
        """Add a hold with its entry of the ledger, in one transaction.

        False, and nothing is done, when another writer of the ledger came first. Raises Conflict for a duplicate name,
        or when the session is being purged.
        """

    async def remove(self, hold: LegalHold, entry: LedgerEntry) -> bool:
        """Remove a hold, as `add`. Raises NotFound when it was released before."""


class PurgeStore(Protocol):
    async def find_closed(
        self, org_id: UUID, before: datetime, after: Position | None, most: int
    ) -> list[RetainedSession]:
        """Return sessions that began before then and are closed in the ledger, oldest first, after `after`. Some may
        be held."""

    async def find_retained(self, org_id: UUID, session_id: UUID) -> RetainedSession | None:
        """Return the session; None when it is not closed in the ledger."""

    async def purgeable(self, session_ids: Sequence[UUID]) -> set[UUID]:
        """Return those that are not held, by the store's rows and by the ledger, and of which no purge runs."""

    async def segments(self, session_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Return how many segments are stored."""

    async def begin(self, purges: Sequence[Purge], entries: Sequence[LedgerEntry], audit: AuditEntry | None) -> bool:
        """Begin purges of one organisation, with their entries of the ledger and of the audit log, in one transaction.

        False, and nothing is done, when another writer of the ledger came first or one of them cannot be purged.
        """

    async def find_begun(self, at: datetime, most: int) -> list[Doomed]:
        """Return purges whose next attempt is due."""

    async def find(self, org_id: UUID, page: Page) -> Stretch[Purge]:
        """Return purges that have begun and are not done, oldest first."""

    async def forget(self, session_id: UUID, numbers: Sequence[int]) -> None:
        """Delete the rows of deleted segments."""

    async def mark_failed(self, session_id: UUID, attempts: int, error: str, next_at: datetime) -> None: ...

    async def mark_done(self, purges: Sequence[Purge]) -> None:
        """Delete the rows of purges of which nothing is stored any more."""

    async def tick(self, at: datetime, longest: float, quiet: float) -> datetime:
        """Record the time of a round, and return until when nothing may begin.

        That is `quiet` seconds from `at` when `at` is more than `longest` seconds away from the time of the previous
        round, or when there was no round and the store has sessions. At a first start there are none.
        """
