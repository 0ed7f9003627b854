"""What is told about sessions after the fact: counts for reports.

A session's row says itself what is yet to be done about it (`pending`), so that opening and ending one writes nothing
more than before, and nothing is forgotten when a process dies: what was done and that it was done are one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.lists import Listed, Page
from postern.domain.report import Counts, GroupBy, Interval, Masked, ReportFilter, Span
from postern.domain.session import Session

# Bits of `sessions.pending`.
OPENED, ENDED, UNCOUNTED = 1, 2, 4


class LeaseStore(Protocol):
    """Work that one process at a time does, whichever machine it is on."""

    async def take(self, name: str, holder: str, now: datetime, until: datetime) -> bool:
        """Takes it, or holds it longer. False while somebody else has it."""

    async def release(self, name: str, holder: str) -> None:
        """Does nothing when somebody else has it."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A session about which `bits` are to be done. `session` is without its script."""

    session: Session
    principal_id: UUID
    end_reason: str | None
    bits: int


@dataclass(frozen=True, slots=True)
class CountKey:
    org_id: UUID
    slot: int
    connection_id: UUID
    principal_id: UUID
    verb: str
    info_type: str
    connection: str
    type: str
    subtype: str
    user: str


@dataclass(frozen=True, slots=True)
class Settled:
    """What is done about one pending session."""

    pending: Pending
    counts: Sequence[tuple[CountKey, Counts]] = ()


class FollowUpStore(Protocol):
    async def pending(self, bits: int, most: int) -> list[Pending]:
        """Sessions, of all organisations, about which any of `bits` is to be done; those that only wait to be run are
        left out."""

    async def settle(self, done: Sequence[Settled]) -> int:
        """All of it or nothing; what somebody else has done meanwhile is left out. How many were done."""

    async def forget_counts(self, org_id: UUID) -> None: ...

    async def count_again(
        self, org_id: UUID, after: tuple[datetime, UUID] | None, most: int
    ) -> tuple[datetime, UUID] | None:
        """Marks the next ended sessions as not counted. Where to go on; None after the last."""


class ReportStore(Protocol):
    async def masked(
        self, org_id: UUID, wanted: ReportFilter, span: Span, group: GroupBy, page: Page
    ) -> tuple[Listed[Masked], int]:
        """Most masked first; and how much was masked over all pages."""

    async def counts(self, org_id: UUID, wanted: ReportFilter, span: Span) -> Counts: ...

    async def activity(
        self,
        org_id: UUID,
        wanted: ReportFilter,
        span: Span,
        interval: Interval,
        offset: int,
        group: GroupBy | None,
        most: int,
    ) -> list[tuple[int, str | None, Counts]]:
        """By hours or days since 1970 in local time, which is `offset` seconds ahead of UTC all the while; `most` rows
        at most."""
