"""Asynchronous post-processing of started and ended sessions.

One process at a time does it, over all machines. It can be killed at any point: the results for a session and the mark
that it is done are one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID, uuid5

from postern.domain.event import OF_REVIEWS, EventKind
from postern.domain.identity.principal import Principal
from postern.domain.report import Counts, slot_of
from postern.domain.reviews.review import ReviewEvent
from postern.domain.rules.violation import Violation
from postern.domain.runbook import ScheduleRun
from postern.domain.sessions.session import EndReason
from postern.domain.sink import SinkOutline
from postern.errors import Conflict
from postern.services.identity.users import require_admin
from postern.services.leases import Lease
from postern.services.notifications.event_payloads import (
    KILLED,
    of_entry,
    of_failed_run,
    of_review,
    of_session,
    of_violation,
)
from postern.services.reviews.review_signals import signal_review
from postern.services.server.audit_context import record_change
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.notification_ports import (
    BY_CONNECTION,
    BY_USER,
    ENDED,
    LEVELS,
    NOBODY,
    OPENED,
    UNCOUNTED,
    CountKey,
    Pending,
    PostprocessingStore,
    Settled,
    SinkStore,
)
from postern.store.ports.recording_ports import LeaseStore
from postern.store.ports.review_ports import ReviewChange, ReviewStore
from postern.store.ports.server_ports import AuditEntry

LEASE = "follow-up"
BATCH = 500  # sessions in one transaction
REBUILD_TRIES = 30  # to have the lease, a tenth of a second apart
MARKED = 3_000  # sessions that are marked in one step of a rebuild
_IN_ORDER = list(OF_REVIEWS)  # of what has one moment
_TAKEN_BACK = frozenset({ReviewEvent.REVOKED, ReviewEvent.WITHDRAWN})
MAX_INFO_TYPES = 64  # of one session; there are fewer detectors

_FAILED = frozenset(
    {EndReason.FAILED, EndReason.PROTOCOL_VIOLATION, EndReason.RECORDING_FAILED, EndReason.GATEWAY_CRASHED}
)


class SessionPostprocessor:
    """Counts sessions and queues events.

    `observer` receives everything that happened to a review, once. `signals` repeat to workers that access was revoked,
    in case the process that revoked it was killed before it signalled.
    """

    def __init__(
        self,
        store: PostprocessingStore,
        reviews: ReviewStore,
        sinks: SinkStore,
        leases: LeaseStore,
        signals: Signals,
        now: Clock,
    ) -> None:
        self.observer: Callable[[ReviewChange], None] | None = None
        self._store = store
        self._reviews = reviews
        self._sinks = sinks
        self._signals = signals
        self._turn = asyncio.Lock()
        self._lease = Lease(leases, LEASE, now)
        self._now = now

    async def once(self) -> int:
        """Process a batch and return how many were done; 0 also where another process does it. Raises Unavailable."""
        async with self._turn:
            sinks = await self._sinks.outlines()
            opened = OPENED if any(EventKind.SESSION_OPEN in sink.events for sink in sinks) else 0
            scripts = any(sink.with_script for sink in sinks)
            pendings = await self._store.pending(opened | ENDED | UNCOUNTED, BATCH, with_scripts=scripts)
            untold = await self._store.find_unsent_entries(BATCH)
            news = await self._reviews.news(BATCH)
            violations = await self._store.violations(BATCH)
            failed = await self._store.failed_runs(BATCH)
            if not (pendings or untold or news or violations or failed) or not await self._lease.have():
                return 0
            await self._queue_audit_events(untold, sinks)
            await self._queue_review_events(news, sinks)
            await self._queue_violation_events(violations, sinks)
            await self._queue_schedule_events(failed, sinks)
            others = len(untold) + len(news) + len(violations) + len(failed)
            if len(violations) == BATCH:  # a session's end is reported after all of its violations
                return others
            pendings.sort(key=lambda pending: pending.session.end_date or pending.session.start_date)
            settled = [
                Settled(pending, tuple(count_session(pending)), tuple(of_session(pending, sinks)))
                for pending in pendings
            ]
            done = await self._store.settle(settled) if settled else 0
            if len(pendings) < BATCH:  # another process that waits for the lease takes it now
                await self._lease.release()
            return done + others

    async def _queue_audit_events(self, untold: list[AuditEntry], sinks: list[SinkOutline]) -> None:
        if untold:
            await self._store.queue_audit_events(
                untold, [delivery for entry in untold for delivery in of_entry(entry, sinks)]
            )

    async def _tags(self, news: list[ReviewChange], sinks: list[SinkOutline]) -> Mapping[UUID, Mapping[str, str]]:
        """Return the tags of the connections, only if some sink has a scope with tags."""
        if not any(sink.scope.connection_tags for sink in sinks):
            return {}
        return await self._sinks.tags_of(list({change.review.binding.connection_id for change in news}))

    async def _queue_review_events(self, news: list[ReviewChange], sinks: list[SinkOutline]) -> None:
        if news:
            news.sort(key=lambda event: (event.at, _IN_ORDER.index(event.kind)))
            for change in news:
                if change.kind in _TAKEN_BACK:
                    await signal_review(self._signals, change.review)
            tags = await self._tags(news, sinks)
            deliveries = [
                delivery
                for review_change in news
                for delivery in of_review(
                    review_change, sinks, tags.get(review_change.review.binding.connection_id, {})
                )
            ]
            await self._store.queue_review_events([event.id for event in news], deliveries)
            if self.observer is not None:
                for change in news:
                    self.observer(change)

    async def _queue_violation_events(self, violations: list[Violation], sinks: list[SinkOutline]) -> None:
        if violations:
            deliveries = [delivery for violation in violations for delivery in of_violation(violation, sinks)]
            await self._store.queue_violation_events([violation.id for violation in violations], deliveries)

    async def _queue_schedule_events(self, failed: list[ScheduleRun], sinks: list[SinkOutline]) -> None:
        if failed:
            deliveries = [delivery for run in failed for delivery in of_failed_run(run, sinks)]
            await self._store.queue_schedule_events([schedule_run.id for schedule_run in failed], deliveries)

    async def stop(self) -> None:
        """Release the lease, so that another process can take over at once."""
        await self._lease.release()

    async def rebuild(self, principal: Principal) -> None:
        """Start a recount of all sessions of the caller's organisation. Raises Denied, Conflict."""
        require_admin(principal, "rebuild reports")
        if await self._store.misses_sessions(principal.org_id):
            raise Conflict("sessions of this organisation were purged; a rebuild would remove them from the reports")
        async with self._turn:
            await self._wait_for_lease()
            try:
                # In this order: if it is killed in between, counts are missing, and the next rebuild adds them.
                await self._store.forget_counts(principal.org_id)
                place = await self._store.count_again(principal.org_id, None, MARKED)
                while place is not None:
                    if not await self._lease.have():
                        raise Conflict("the rebuild was interrupted; reports are incomplete until it runs again")
                    place = await self._store.count_again(principal.org_id, place, MARKED)
            finally:
                await self._lease.release()
        record_change(None, {"organisation": principal.org_id})

    async def _wait_for_lease(self) -> None:
        for _ in range(REBUILD_TRIES):
            if await self._lease.have():
                return
            await asyncio.sleep(0.1)
        raise Conflict("another process is counting sessions; try again in 30 seconds")


def count_session(pending: Pending) -> Iterator[tuple[CountKey, Counts]]:
    """Yield what a session adds to the reports; nothing once it has been counted."""
    if not pending.bits & UNCOUNTED:
        return
    session, metrics = pending.session, pending.session.metrics
    masking = _mapping(metrics.get("data_masking"))
    types = {str(name)[:128]: _number(hits) for name, hits in _mapping(masking.get("info_types")).items() if name}
    ended = session.end_date or session.start_date
    whole = Counts(
        sessions=1,
        failed=int(pending.end_reason in _FAILED),
        killed=int(pending.end_reason in KILLED),
        operations=_number(metrics.get("operations")),
        refused=_number(metrics.get("refused")),
        masked=sum(types.values()),
        transformed_bytes=_number(masking.get("transformed_bytes")),
        recorded_bytes=session.event_size,
        milliseconds=max(0, round((ended - session.start_date).total_seconds() * 1000)),
    )
    for level in LEVELS:
        yield _key(pending, level, ""), whole
        for name, hits in list(types.items())[:MAX_INFO_TYPES]:
            if hits:
                yield _key(pending, level, name), Counts(sessions=1, masked=hits)


def _key(pending: Pending, level: int, info_type: str) -> CountKey:
    session = pending.session
    by_connection, by_user = bool(level & BY_CONNECTION), bool(level & BY_USER)
    return CountKey(
        session.org_id,
        level,
        slot_of(session.start_date),
        session.connection_id if by_connection else _kind_of(pending),
        pending.principal_id if by_user else NOBODY,
        str(session.verb),
        info_type,
        session.connection if by_connection else "",
        session.type,
        session.connection_subtype,
        session.user if by_user else "",
    )


def _kind_of(pending: Pending) -> UUID:
    """Return an id that replaces the connection's, so that connections of different types have rows of their own."""
    return uuid5(NOBODY, f"{pending.session.type}/{pending.session.connection_subtype}")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
