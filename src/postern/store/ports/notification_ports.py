"""The stores of reports and events: counts, and deliveries to sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.lists import Listed, Page, Stretch
from postern.domain.report import Counts, GroupBy, Interval, MaskedCount, ReportFilter, ReportPeriod
from postern.domain.reviews.review_report import Reviewed
from postern.domain.rules.violation import Violation
from postern.domain.runbook import ScheduleRun
from postern.domain.sessions.session import Session
from postern.domain.sink import Delivery, DeliveryState, NewDelivery, Sink, SinkOutline, Trouble
from postern.store.ports.named_resource_ports import NamedResourceStore
from postern.store.ports.server_ports import AuditEntry

# What is yet to be done about a session: bits of `sessions.pending`. The statement that opens or ends a session sets
# them, so that this writes nothing more than the row itself; the transaction that does what a bit stands for takes it
# away, so that nothing is forgotten or done twice wherever a process dies. A script that waits to be run has none yet.
# The ledger's marks are columns of their own, `opened_entry` and `closed_entry`, since they say which entry it was:
# there NULL means "not told yet".
OPENED = 1  # sinks are to be told that it began
ENDED = 2  # sinks are to be told that it ended
UNCOUNTED = 4  # reports do not count it yet
UNREAD = 8  # what was asked in it is not searchable yet, or not all of it
AT_THE_END = ENDED | UNCOUNTED | UNREAD
TO_TELL = OPENED | ENDED | UNCOUNTED  # what FollowUpStore settles
ALL = TO_TELL | UNREAD

# Levels of counts: bits for the columns that separate their rows. The other columns are NOBODY, or empty.
BY_CONNECTION, BY_USER = 1, 2
LEVELS = (0, BY_CONNECTION, BY_USER, BY_CONNECTION | BY_USER)
NOBODY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Pending:
    """A session with pending work in `bits`. `session` is without its script."""

    session: Session
    principal_id: UUID
    end_reason: str | None
    bits: int


@dataclass(frozen=True, slots=True)
class CountKey:
    org_id: UUID
    level: int
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
    """The results for one pending session."""

    pending: Pending
    counts: Sequence[tuple[CountKey, Counts]] = ()
    deliveries: Sequence[NewDelivery] = ()


class PostprocessingStore(Protocol):
    async def pending(self, bits: int, most: int, *, with_scripts: bool = False) -> list[Pending]:
        """Return sessions of all organisations with any of the work in `bits` pending."""

    async def settle(self, done: Sequence[Settled]) -> int:
        """Store results, all or none, except for what another process has done meanwhile; return how many."""

    async def find_unsent_entries(self, most: int) -> list[AuditEntry]:
        """Return audit entries without events, oldest first."""

    async def queue_review_events(self, news: Sequence[UUID], deliveries: Sequence[NewDelivery]) -> None:
        """Queue the events of these changes (ReviewStore.news). All or nothing."""

    async def violations(self, most: int) -> list[Violation]:
        """Return violations without events, the oldest first, and of one session in order."""

    async def queue_violation_events(self, violation_ids: Sequence[UUID], deliveries: Sequence[NewDelivery]) -> None:
        """Queue the events of these violations, and delete the violations. All or nothing."""

    async def failed_runs(self, most: int) -> list[ScheduleRun]:
        """Return failed runs of schedules without events, the oldest first."""

    async def queue_schedule_events(self, run_ids: Sequence[UUID], deliveries: Sequence[NewDelivery]) -> None:
        """Queue the events of these runs, and delete the runs. All or nothing."""

    async def queue_audit_events(self, entries: Sequence[AuditEntry], deliveries: Sequence[NewDelivery]) -> None:
        """Queue the events of these entries. All or nothing."""

    async def misses_sessions(self, org_id: UUID) -> bool:
        """Return whether some were purged, so that they cannot be counted again."""

    async def forget_counts(self, org_id: UUID) -> None: ...

    async def count_again(
        self, org_id: UUID, after: tuple[datetime, UUID] | None, most: int
    ) -> tuple[datetime, UUID] | None:
        """Mark the next ended sessions as not counted. Return where to continue; None after the last."""


class ViolationStore(Protocol):
    async def add(self, violations: Sequence[Violation]) -> None:
        """Add violations, all or none; existing ones stay."""


class ReportStore(Protocol):
    async def count_masked(
        self, org_id: UUID, criteria: ReportFilter, span: ReportPeriod, group: GroupBy
    ) -> tuple[list[MaskedCount], Counts]:
        """Return all lines, unordered, and the sums over all of them. Not by session."""

    async def list_masked_sessions(
        self, org_id: UUID, criteria: ReportFilter, span: ReportPeriod, page: Page
    ) -> tuple[Listed[MaskedCount], int]:
        """Return sessions, most masked first, and how much was masked over all pages."""

    async def activity(
        self,
        org_id: UUID,
        criteria: ReportFilter,
        span: ReportPeriod,
        interval: Interval,
        offset: int,
        group: GroupBy | None,
        most: int,
    ) -> list[tuple[int, str | None, Counts]]:
        """Return counts by hours or days since 1970 in local time, which is `offset` seconds ahead of UTC
        throughout; `most` rows at most."""


class ReviewReportStore(Protocol):
    async def find_reviewed(self, org_id: UUID, start: datetime, end: datetime, most: int) -> list[Reviewed]:
        """Return reviews requested from `start` until before `end`; at most `most`, then without groups and votes."""


class SinkStore(NamedResourceStore[Sink], Protocol):
    """An update clears the sink's trouble, so that what waits is retried at once."""

    async def outlines(self) -> list[SinkOutline]:
        """Return outlines of all organisations. One cheap statement."""

    async def tags_of(self, connection_ids: Sequence[UUID]) -> Mapping[UUID, Mapping[str, str]]:
        """Return the tags of those connections that exist."""


class DeliveryStore(Protocol):
    async def add(self, delivery: NewDelivery) -> int:
        """Add a delivery and return its number."""

    async def find(self, sink_id: UUID, state: DeliveryState | None, page: Page) -> Stretch[Delivery]:
        """Return deliveries, newest first."""

    async def due(self, now: datetime) -> list[Sink]:
        """Return active sinks of all organisations with waiting events whose next attempt is due.

        Those whose last success is oldest come first. What cannot be read is left out, and logged.
        """

    async def waiting(self, sink_id: UUID, most: int, *, as_of: datetime | None = None) -> list[Delivery]:
        """Return the next ones, in order. With `as_of` none where the sink is not active, or was updated at a
        different time."""

    async def mark_delivered(self, sink_id: UUID, numbers: Sequence[int], at: datetime) -> None: ...

    async def mark_failed(self, sink_id: UUID, number: int, trouble: Trouble, at: datetime, *, give_up: bool) -> None:
        """Record that the first waiting delivery failed."""

    async def mark_gone(self, sink_id: UUID, error: str, at: datetime) -> None:
        """Record that the receiver wants no events any more."""

    async def retry(self, sink_id: UUID, number: int | None) -> int:
        """Queue one given-up delivery again, or with None all; return how many."""

    async def trim_queues(self, most: int, at: datetime) -> Mapping[UUID, int]:
        """Give up the oldest of sinks with more than `most` waiting; return how many, by sink. The oldest given-up
        ones beyond `most` are deleted."""

    async def prune(self, delivered_before: datetime, given_up_before: datetime) -> None: ...
