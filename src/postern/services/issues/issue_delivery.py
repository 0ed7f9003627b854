"""Delivery of session issues to trackers: each is created once, and closed once its session has ended.

One process at a time delivers, over all machines, and it can be killed at any point. Work is a row. The row is marked
before the tracker is asked. A process that finds a marked row looks for the issue in the tracker before it creates it
again. A tracker that does not answer delays only its own organisation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

from postern.domain.durations import duration_text
from postern.domain.issues.issue import Issue, IssueState, SessionIssue, TrackerSettings, Uncertain
from postern.domain.text import one_line
from postern.errors import Denied, Invalid, NotFound, PosternError, Unavailable
from postern.services.issues.tracker import Tracker, Trackers
from postern.services.leases import Lease
from postern.services.notifications.event_delivery import delay
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.issue_ports import SessionIssueStore
from postern.store.ports.recording_ports import LeaseStore

log = logging.getLogger(__name__)
T = TypeVar("T")

LEASE = "issues"
DEADLINE = 12.0  # seconds for one request to a tracker; less than half a lease
LEFT_ALONE = 60.0  # seconds, plus the tracker's lag, after which another process takes over an issue whose process died
LONGEST_DELAY = 300.0  # seconds
KEPT_TRYING = timedelta(days=7)  # to create an issue, from its request on
TRIES_TO_CLOSE = 1_000  # some days; how old it is by then says nothing, since its session may have lasted for weeks
UNOPENED = timedelta(minutes=10)  # in which a session follows its issue, or never comes
CLOSED_STAY = timedelta(days=30)
PRUNED_EVERY = timedelta(minutes=10)
OF_ONE, OF_ALL = 8, 200  # issues at once: of one organisation, in all
NO_TRACKER = "no tracker is configured, or it is disabled"

Settings = Callable[[UUID], Awaitable[TrackerSettings | None]]
Count = Callable[[str], None]


def _ignore_outcome(_outcome: str) -> None:
    """Ignore the outcome, where no metrics are kept."""


class _NotThere(Exception):
    """The issue was looked for, was not found, and is too old to create."""


@dataclass(slots=True)
class _TrackerQueue:
    """Deliveries of one organisation under these settings."""

    settings: TrackerSettings
    tracker: Tracker
    running: set[UUID] = field(default_factory=set)


class IssueDelivery:
    """Delivers issues. `woken` is set when work is due now. `settings` returns those of an organisation.

    `count` receives each outcome: made, closed, failed, given_up.
    """

    def __init__(
        self,
        *,
        store: SessionIssueStore,
        leases: LeaseStore,
        settings: Settings,
        trackers: Trackers,
        signals: Signals,
        now: Clock,
        count: Count = _ignore_outcome,
    ) -> None:
        self.woken = asyncio.Event()
        self._store = store
        self._settings = settings
        self._trackers = trackers
        self._signals = signals
        self._now = now
        self._count = count
        self._lease = Lease(leases, LEASE, now)
        self._queues: dict[UUID, _TrackerQueue] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pruned_at: datetime | None = None
        signals.subscribe(Topic.ISSUE_CHANGED, self._wake)
        signals.subscribe(Topic.RESUMED, self._wake)

    def _wake(self, _payload: Mapping[str, str]) -> None:
        self.woken.set()

    async def once(self) -> None:
        """Start what is due, and return; do nothing where another process delivers. Raises Unavailable."""
        now = self._now()
        await self._store.follow(now, now - UNOPENED)
        due = await self._store.organisations(now)
        is_time = self._pruned_at is None or now - self._pruned_at >= PRUNED_EVERY
        if not (due or is_time) or not await self._lease.have():
            return
        if is_time:
            self._pruned_at = now
            await self._store.prune(now - CLOSED_STAY)
        for org_id in due:
            await self._begin(org_id, now)

    async def wait_until_idle(self) -> None:
        """Wait until all running deliveries have ended."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Cancel running deliveries; another process can take over at once."""
        for task in self._tasks:
            task.cancel()
        await self.wait_until_idle()
        await self._lease.release()

    async def _begin(self, org_id: UUID, now: datetime) -> None:
        waiting = await self._store.due(org_id, now, 2 * OF_ONE)  # some can be running already
        queue = self._queues.get(org_id)
        running = queue.running if queue else set()
        room = min(OF_ONE - len(running), OF_ALL - len(self._tasks))
        waiting = [session_issue for session_issue in waiting if session_issue.session_id not in running][
            : max(0, room)
        ]
        queue = await self._queue_of(org_id, waiting) if waiting else None
        if queue is None:
            return
        for issue in waiting:
            queue.running.add(issue.session_id)
            task = asyncio.create_task(self._work(org_id, queue, issue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _queue_of(self, org_id: UUID, waiting: list[SessionIssue]) -> _TrackerQueue | None:
        """Return the queue; None where no tracker is usable, so that the issues wait.

        None also while deliveries under earlier settings are still running: new ones use the current settings.
        """
        try:
            settings = await self._settings(org_id)
            if settings is None or not settings.enabled:
                raise Unavailable(NO_TRACKER)
            queue = self._queues.get(org_id)
            if queue is None:
                queue = self._queues[org_id] = _TrackerQueue(settings, self._trackers(settings))
            return queue if queue.settings == settings else None
        except PosternError as error:
            for issue in waiting:
                await self._record_failure(issue, error.message, LONGEST_DELAY)
                await self._signals.publish(Topic.ISSUE_CHANGED, session_id=str(issue.session_id))
            return None

    async def _work(self, org_id: UUID, queue: _TrackerQueue, session_issue: SessionIssue) -> None:
        try:
            quiet = timedelta(seconds=LEFT_ALONE + queue.tracker.lag)
            now = self._now()
            if await self._lease.have() and await self._store.claim_attempt(session_issue, now, now + quiet):
                await self._attempt(queue.tracker, session_issue)
                await self._signals.publish(Topic.ISSUE_CHANGED, session_id=str(session_issue.session_id))
        except PosternError as error:  # of the store: the next look tries again
            log.warning("issue could not be processed: session=%s error=%s", session_issue.session_id, error)
        except Exception:
            log.exception("issue could not be processed: session=%s", session_issue.session_id)
        finally:
            queue.running.discard(session_issue.session_id)
            if not queue.running:
                self._queues.pop(org_id, None)
                await queue.tracker.close()

    async def _attempt(self, tracker: Tracker, session_issue: SessionIssue) -> None:
        again: float | None = delay(session_issue.attempts + 1, LONGEST_DELAY)
        uncertain, maybe = False, session_issue.issue is None and session_issue.attempts > 0
        try:
            issue = await self._send_request(tracker, session_issue)
        except TimeoutError:
            why, again = f"the tracker did not answer in {duration_text(DEADLINE)}", max(again or 0, tracker.lag)
            uncertain = True
        except Uncertain as error:
            why, again = error.message, max(again or 0, tracker.lag, error.retry_after or 0)
            uncertain = True
        except _NotThere:
            why, again, maybe = (
                f"{session_issue.error}; the gateway searched the tracker for it and did not find it",
                None,
                False,
            )
        except (Denied, NotFound, Invalid) as error:
            why, again = error.message, None
        except PosternError as error:
            why, again = error.message, max(again or 0, error.retry_after or 0)
        except Exception as error:
            log.exception("request to the tracker failed: session=%s", session_issue.session_id)
            why, again = (
                f"the gateway could not send the request: {type(error).__name__}",
                max(LONGEST_DELAY, tracker.lag),
            )
        else:
            await self._record_success(session_issue, issue)
            return
        if self._is_too_late(session_issue, uncertain=uncertain):
            again = None
        if again is None and maybe and session_issue.new is not None:
            why = f"an earlier attempt may have created it (search for {session_issue.new.marker}): {why}"
        await self._record_failure(session_issue, why, again)

    async def _send_request(self, tracker: Tracker, session_issue: SessionIssue) -> Issue | None:
        """Return the issue, created or closed; None for one that was withdrawn and does not exist.

        Raises what the tracker does, TimeoutError, and _NotThere.
        """
        if session_issue.issue is not None:
            await _in_time(tracker.transition(session_issue.issue, session_issue.transition))
            return session_issue.issue
        assert session_issue.new is not None
        issue = await _in_time(tracker.find(session_issue.new)) if session_issue.attempts else None
        if issue is not None or session_issue.state is IssueState.WITHDRAWN:
            return issue
        if session_issue.error and self._is_too_late(session_issue):
            raise _NotThere
        return await _in_time(tracker.create(session_issue.new))

    async def _record_success(self, session_issue: SessionIssue, issue: Issue | None) -> None:
        at = self._now()
        if session_issue.issue is not None:
            await self._store.mark_closed(session_issue.session_id, at)
            self._count("closed")
        elif issue is None:
            await self._store.forget(session_issue.session_id)
        else:
            await self._store.mark_created(session_issue.session_id, issue, at)
            self._count("made")

    async def _record_failure(self, session_issue: SessionIssue, why: str, again: float | None) -> None:
        """Record a failure. `again`: seconds until the next attempt; None for never."""
        at, what = self._now(), "create" if session_issue.issue is None else "close"
        if again is None:
            log.warning("issue given up: session=%s action=%s error=%s", session_issue.session_id, what, one_line(why))
        elif not session_issue.attempts:
            log.warning("issue delayed: session=%s action=%s error=%s", session_issue.session_id, what, one_line(why))
        self._count("given_up" if again is None else "failed")
        next_at = None if again is None else at + timedelta(seconds=again)
        await self._store.mark_failed(session_issue.session_id, one_line(why), next_at, at)

    def _is_too_late(self, session_issue: SessionIssue, *, uncertain: bool = False) -> bool:
        """Return whether automatic attempts have ended.

        An issue that a user retried, which begins without an error, is looked for once more if it may exist, so that
        the next retry does not create it twice.
        """
        if session_issue.issue is not None:
            return session_issue.attempts >= TRIES_TO_CLOSE
        is_old = session_issue.created_at is not None and self._now() - session_issue.created_at > KEPT_TRYING
        return is_old and not (uncertain and not session_issue.error)


async def _in_time(question: Awaitable[T]) -> T:
    async with asyncio.timeout(DEADLINE):
        return await question
