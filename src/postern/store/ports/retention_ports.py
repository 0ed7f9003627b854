"""What retention needs from the store: its settings, holds, and purges that have begun."""

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
    """A purge as it is carried out: what is stored of its recording."""

    purge: Purge
    segments: Sequence[Segment]


class RetentionStore(Protocol):
    async def all(self) -> list[RetentionSetting]:
        """Of all organisations; few."""

    async def of(self, org_id: UUID) -> list[RetentionSetting]:
        """That of the organisation first, then by the names of connections."""

    async def set(self, setting: RetentionSetting) -> None:
        """In the place of what there is for the same connection, or for the whole organisation."""

    async def preview(
        self,
        org_id: UUID,
        retention: Retention,
        at: datetime,
        *,
        connection_id: UUID | None = None,
        without: Sequence[UUID] = (),
    ) -> Preview:
        """Of all connections but `without`, or of one."""


class HoldStore(Protocol):
    async def find(self, org_id: UUID, page: Page) -> Stretch[LegalHold]:
        """Newest first."""

    async def of(self, session_id: UUID) -> list[LegalHold]:
        """By name."""

    async def add(self, hold: LegalHold, entry: LedgerEntry) -> bool:
        """With its entry of the ledger, in one transaction. False, and nothing was done, when another writer of the
        ledger came first. Raises Conflict when there is one of this name, or the session is being purged."""

    async def remove(self, hold: LegalHold, entry: LedgerEntry) -> bool:
        """As `add`. Raises NotFound when it is released already."""


class PurgeStore(Protocol):
    async def find_closed(
        self, org_id: UUID, before: datetime, after: Position | None, most: int
    ) -> list[RetainedSession]:
        """Sessions that began before then and are closed in the ledger, oldest first, from behind `after`. Some that
        are held may be among them."""

    async def find_retained(self, org_id: UUID, session_id: UUID) -> RetainedSession | None:
        """None when it is not closed in the ledger."""

    async def purgeable(self, session_ids: Sequence[UUID]) -> set[UUID]:
        """Of these, the ones that are not held, by the store's rows and by the ledger, and of which no purge runs."""

    async def segments(self, session_ids: Sequence[UUID]) -> dict[UUID, int]:
        """How many are stored."""

    async def begin(self, purges: Sequence[Purge], entries: Sequence[LedgerEntry], audit: AuditEntry | None) -> bool:
        """Of one organisation; with their entries of the ledger and that of the audit log, in one transaction. False,
        and nothing was done, when another writer of the ledger came first or one of them may not be purged."""

    async def find_begun(self, at: datetime, most: int) -> list[Doomed]:
        """Those whose next try is due."""

    async def find(self, org_id: UUID, page: Page) -> Stretch[Purge]:
        """That have begun and are not done, oldest first."""

    async def forget(self, session_id: UUID, numbers: Sequence[int]) -> None:
        """These segments are deleted: takes their rows out."""

    async def mark_failed(self, session_id: UUID, attempts: int, error: str, next_at: datetime) -> None: ...

    async def mark_done(self, purges: Sequence[Purge]) -> None:
        """Nothing lies anywhere any more: takes the rows out."""

    async def tick(self, at: datetime, longest: float, quiet: float) -> datetime:
        """Record the time of a round, and return until when nothing may begin.

        That is moved to `quiet` seconds from `at` when `at` is more than `longest` seconds away from the time of the
        round before, or when there was no round and the store has sessions. At a first start there are none."""
