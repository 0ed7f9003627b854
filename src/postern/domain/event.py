"""Events for sinks: every kind there is, and when it happens.

Payloads and their schemas are in `services/notifications/payloads.py`; docs/events.md is generated from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from postern.domain.reviews.review import ReviewEvent


class EventKind(StrEnum):
    SESSION_OPEN = "session.open"
    SESSION_CLOSE = "session.close"
    SESSION_KILL = "session.kill"
    GUARDRAIL_VIOLATION = "guardrail.violation"
    REVIEW_CREATED = "review.created"
    REVIEW_VOICED = "review.voiced"
    REVIEW_APPROVED = "review.approved"
    REVIEW_REJECTED = "review.rejected"
    REVIEW_REVOKED = "review.revoked"
    REVIEW_EXPIRED = "review.expired"
    REVIEW_WITHDRAWN = "review.withdrawn"
    REVIEW_STARTED = "review.started"
    REVIEW_EXECUTED = "review.executed"
    SCHEDULE_FAILED = "schedule.failed"
    AUDIT_ENTRY = "audit.entry"
    SINK_TEST = "sink.test"


# Each is a line of docs/events.md and of `postern admin sinks events`.
EVENTS: Mapping[EventKind, str] = {
    EventKind.SESSION_OPEN: "a session has started, or a script was accepted",
    EventKind.SESSION_CLOSE: "a session has ended, with its reason and counts",
    EventKind.SESSION_KILL: "in addition to `session.close`, when a user killed the session or its access was revoked",
    EventKind.GUARDRAIL_VIOLATION: "a rule denied an operation, warned about it, or held it for a review",
    EventKind.REVIEW_CREATED: "a request needs an approval",
    EventKind.REVIEW_VOICED: "a reviewer has approved, and more approvals are needed",
    EventKind.REVIEW_APPROVED: "all required approvals are given, or an approval was forced",
    EventKind.REVIEW_REJECTED: "a reviewer has rejected the request",
    EventKind.REVIEW_REVOKED: "an approval was revoked",
    EventKind.REVIEW_EXPIRED: "the decision period or the approved access has expired",
    EventKind.REVIEW_WITHDRAWN: "the requester has withdrawn the request",
    EventKind.REVIEW_STARTED: "the approved script has started",
    EventKind.REVIEW_EXECUTED: "the approved script has run",
    EventKind.SCHEDULE_FAILED: "a scheduled runbook did not run, with the reason",
    EventKind.AUDIT_ENTRY: "an entry of the audit log",
    EventKind.SINK_TEST: "an administrator requested a test; sent to any sink",
}
CHOSEN: tuple[EventKind, ...] = tuple(kind for kind in EventKind if kind is not EventKind.SINK_TEST)  # by sinks

# By what `review_news` calls them: these two, and whatever else happens to a review.
CREATED, VOICED = "created", "voiced"
OF_REVIEWS: Mapping[str, EventKind] = {
    CREATED: EventKind.REVIEW_CREATED,
    VOICED: EventKind.REVIEW_VOICED,
    ReviewEvent.APPROVED: EventKind.REVIEW_APPROVED,
    ReviewEvent.REJECTED: EventKind.REVIEW_REJECTED,
    ReviewEvent.REVOKED: EventKind.REVIEW_REVOKED,
    ReviewEvent.EXPIRED: EventKind.REVIEW_EXPIRED,
    ReviewEvent.WITHDRAWN: EventKind.REVIEW_WITHDRAWN,
    ReviewEvent.STARTED: EventKind.REVIEW_STARTED,
    ReviewEvent.FINISHED: EventKind.REVIEW_EXECUTED,
}
