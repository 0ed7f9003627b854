"""What is told about sessions and writes after the fact: counts for reports, events for sinks."""

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

# Levels of counts: bits for what their rows tell apart; what they do not is nobody's, and empty.
BY_CONNECTION, BY_USER = 1, 2
LEVELS = (0, BY_CONNECTION, BY_USER, BY_CONNECTION | BY_USER)
NOBODY = UUID(int=0)


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
    """What is done about one pending session."""

    pending: Pending
    counts: Sequence[tuple[CountKey, Counts]] = ()
    deliveries: Sequence[NewDelivery] = ()


class PostprocessingStore(Protocol):
    async def pending(self, bits: int, most: int, *, with_scripts: bool = False) -> list[Pending]:
        """Sessions, of all organisations, about which any of `bits` is to be done."""

    async def settle(self, done: Sequence[Settled]) -> int:
        """All of it or nothing; what somebody else has done meanwhile is left out. How many were done."""

    async def find_unsent_entries(self, most: int) -> list[AuditEntry]:
        """Audit entries that nobody was told of, oldest first."""

    async def queue_review_events(self, news: Sequence[UUID], deliveries: Sequence[NewDelivery]) -> None:
        """This news of reviews (ReviewStore.news) is told by these deliveries. All or nothing."""

    async def violations(self, most: int) -> list[Violation]:
        """Of which nobody was told, the oldest first, and of one session in their order."""

    async def queue_violation_events(self, told: Sequence[UUID], deliveries: Sequence[NewDelivery]) -> None:
        """These are told by these deliveries, and forgotten. All or nothing."""

    async def failed_runs(self, most: int) -> list[ScheduleRun]:
        """Of schedules, of which nobody was told, the oldest first."""

    async def queue_schedule_events(self, told: Sequence[UUID], deliveries: Sequence[NewDelivery]) -> None:
        """These are told by these deliveries, and forgotten. All or nothing."""

    async def queue_audit_events(self, entries: Sequence[AuditEntry], deliveries: Sequence[NewDelivery]) -> None:
        """These entries are told by these deliveries. All or nothing."""

    async def misses_sessions(self, org_id: UUID) -> bool:
        """Whether some were purged, so that they cannot be counted again."""

    async def forget_counts(self, org_id: UUID) -> None: ...

    async def count_again(
        self, org_id: UUID, after: tuple[datetime, UUID] | None, most: int
    ) -> tuple[datetime, UUID] | None:
        """Marks the next ended sessions as not counted. Where to go on; None after the last."""


class ViolationStore(Protocol):
    async def add(self, violations: Sequence[Violation]) -> None:
        """All or nothing; those that are there already are left as they are."""


class ReportStore(Protocol):
    async def count_masked(
        self, org_id: UUID, wanted: ReportFilter, span: ReportPeriod, group: GroupBy
    ) -> tuple[list[MaskedCount], Counts]:
        """All lines, in no order, and what was counted over all of them. Not by session."""

    async def list_masked_sessions(
        self, org_id: UUID, wanted: ReportFilter, span: ReportPeriod, page: Page
    ) -> tuple[Listed[MaskedCount], int]:
        """Most masked first; and how much was masked over all pages."""

    async def activity(
        self,
        org_id: UUID,
        wanted: ReportFilter,
        span: ReportPeriod,
        interval: Interval,
        offset: int,
        group: GroupBy | None,
        most: int,
    ) -> list[tuple[int, str | None, Counts]]:
        """By hours or days since 1970 in local time, which is `offset` seconds ahead of UTC all the while; `most` rows
        at most."""


class ReviewReportStore(Protocol):
    async def find_reviewed(self, org_id: UUID, start: datetime, end: datetime, most: int) -> list[Reviewed]:
        """Those that were asked for from `start` until before `end`. Where there are `most` or more, `most` of them,
        without groups and voices."""


class SinkStore(NamedResourceStore[Sink], Protocol):
    """An update forgets the sink's trouble, so that what waits is tried again at once."""

    async def outlines(self) -> list[SinkOutline]:
        """Of all organisations. One cheap statement."""

    async def tags_of(self, connection_ids: Sequence[UUID]) -> Mapping[UUID, Mapping[str, str]]:
        """Of those connections that are there."""


class DeliveryStore(Protocol):
    async def add(self, delivery: NewDelivery) -> int:
        """Its number."""

    async def find(self, sink_id: UUID, state: DeliveryState | None, page: Page) -> Stretch[Delivery]:
        """Newest first."""

    async def due(self, now: datetime) -> list[Sink]:
        """Sinks of all organisations that are active, have something waiting, and are not to be left alone yet; first
        those that took something longest ago. What cannot be read is left out, and logged."""

    async def waiting(self, sink_id: UUID, most: int, *, as_of: datetime | None = None) -> list[Delivery]:
        """The next ones, in order. With `as_of` none where the sink is not active, or was updated at another time."""

    async def mark_delivered(self, sink_id: UUID, numbers: Sequence[int], at: datetime) -> None: ...

    async def mark_failed(self, sink_id: UUID, number: int, trouble: Trouble, at: datetime, *, give_up: bool) -> None:
        """The first one that waits was tried in vain."""

    async def mark_gone(self, sink_id: UUID, error: str, at: datetime) -> None:
        """The receiver wants nothing any more."""

    async def retry(self, sink_id: UUID, number: int | None) -> int:
        """Lets one, or with None all that were given up, wait anew; how many. None of those that wait anyway."""

    async def trim_queues(self, most: int, at: datetime) -> Mapping[UUID, int]:
        """Gives up the oldest of sinks that have more than `most` waiting; how many, by sink. Of those that were given
        up the oldest are forgotten where there are more than `most`."""

    async def prune(self, delivered_before: datetime, given_up_before: datetime) -> None: ...
