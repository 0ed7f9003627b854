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
    EventKind.SESSION_OPEN: "a session has begun, or a script was taken up",
    EventKind.SESSION_CLOSE: "a session has ended: why, and what was counted in it",
    EventKind.SESSION_KILL: "beside `session.close`, where somebody killed it or its access was taken away",
    EventKind.GUARDRAIL_VIOLATION: "a rule refused something, warned of it, or held it for a review",
    EventKind.REVIEW_CREATED: "somebody needs others to agree",
    EventKind.REVIEW_VOICED: "a reviewer has approved, and more have to",
    EventKind.REVIEW_APPROVED: "all that had to agree have, or somebody forced it",
    EventKind.REVIEW_REJECTED: "a reviewer has said no",
    EventKind.REVIEW_REVOKED: "an approval was taken back",
    EventKind.REVIEW_EXPIRED: "nobody decided in time, or what was approved is over",
    EventKind.REVIEW_WITHDRAWN: "who asked has given it up",
    EventKind.REVIEW_STARTED: "the script that was approved is being run",
    EventKind.REVIEW_EXECUTED: "the script that was approved has been run",
    EventKind.SCHEDULE_FAILED: "a scheduled runbook did not run at its time: why",
    EventKind.AUDIT_ENTRY: "an entry of the audit log",
    EventKind.SINK_TEST: "an administrator asked for it; whatever the sink is for",
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
