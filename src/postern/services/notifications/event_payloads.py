"""Events as JSON for sinks, without secrets; scripts and statements only for sinks that are set up for them.

An event describes a review as it was when the event happened, even if it is delivered later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4, uuid5

from postern.domain.event import OF_REVIEWS, EventKind
from postern.domain.reviews.review import ApprovalRequirement, Person, Review, Vote
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import TimeWindow
from postern.domain.rules.violation import Violation
from postern.domain.runbook import ScheduleRun
from postern.domain.sessions.session import EndReason
from postern.domain.sink import NewDelivery, Sink, SinkOutline
from postern.services.notifications.payloads import (
    AuditEntryData,
    GuardrailViolation,
    ReviewData,
    ReviewDemand,
    ReviewPerson,
    ReviewVoice,
    ReviewWindow,
    ScheduleFailed,
    SessionClose,
    SessionOpen,
    SinkTest,
)
from postern.store.ports.notification_ports import ENDED, OPENED, Pending
from postern.store.ports.review_ports import ReviewChange
from postern.store.ports.server_ports import AuditEntry

_BY: Mapping[EventKind, ReviewStatus] = {
    EventKind.REVIEW_CREATED: ReviewStatus.PENDING,
    EventKind.REVIEW_VOICED: ReviewStatus.PENDING,
    EventKind.REVIEW_APPROVED: ReviewStatus.APPROVED,
    EventKind.REVIEW_REJECTED: ReviewStatus.REJECTED,
    EventKind.REVIEW_REVOKED: ReviewStatus.REVOKED,
    EventKind.REVIEW_EXPIRED: ReviewStatus.EXPIRED,
    EventKind.REVIEW_WITHDRAWN: ReviewStatus.WITHDRAWN,
    EventKind.REVIEW_STARTED: ReviewStatus.PROCESSING,
    EventKind.REVIEW_EXECUTED: ReviewStatus.EXECUTED,
}


def as_then(news: ReviewChange) -> Review:
    """Return the review as it was at the event, without later changes."""
    review, status = news.review, _BY[OF_REVIEWS[news.kind]]
    voices = tuple(voice for voice in review.voices if voice.at <= news.at)
    if status is ReviewStatus.PENDING:
        return replace(review, status=status, voices=voices, decided_at=None, revoke_at=None)
    return replace(review, status=status, voices=voices)


def review_data(review: Review, *, with_script: bool) -> ReviewData:
    found_review_data: ReviewData = {
        "id": review.id,
        "type": review.kind.value,
        "status": review.status.value,
        "session": review.session_id,
        "connection": review.connection,
        "connection_id": review.binding.connection_id,
        "owner": _person(review.owner),
        "reason": review.reason,
        "demands": [_demand(demand) for demand in review.demands],
        "voices": [_voice(voice) for voice in review.voices],
        "access_duration": review.access_duration,
        "time_window": None if review.time_window is None else _window(review.time_window),
        "created_at": review.created_at,
        "expires_at": review.expires_at,
        "decided_at": review.decided_at,
        "revoke_at": review.revoke_at,
    }
    if with_script:  # the estimate names tables and numbers of rows
        found_review_data["estimate"] = review.estimate
        found_review_data["input"] = review.input
    return found_review_data


def _person(person: Person) -> ReviewPerson:
    return {
        "id": person.principal_id,
        "subject": person.subject,
        "name": person.name,
        "email": person.email,
        "chat_id": person.chat_id,
    }


def _voice(voice: Vote) -> ReviewVoice:
    return {
        "reviewed_by": _person(voice.reviewer),
        "status": voice.choice.value,
        "groups": sorted(voice.groups),
        "review_date": voice.at,
        "forced_review": voice.forced,
        "own": voice.own,
        "comment": voice.comment,
    }


def _demand(demand: ApprovalRequirement) -> ReviewDemand:
    return {
        "rule": demand.rule,
        "groups": list(demand.groups),
        "min_approvals": demand.min_approvals,
        "all_groups": demand.all_groups,
        "force_groups": list(demand.force_groups),
    }


def _window(window: TimeWindow) -> ReviewWindow:
    start, end = f"{window.start:%H:%M}", f"{window.end:%H:%M}"
    return {
        "type": "time_range",
        "configuration": {"start_time": start, "end_time": end, "time_zone": window.zone},
    }


MAX_SCRIPT = 10_000  # characters that an event has of a script
MAX_BODY = 100_000  # bytes of an audit entry's event; a larger one is sent without the changes
_NAMESPACE = UUID("6f4f9f0e-5d59-4a51-9c52-6b7a3f9f7d11")  # of identifiers of events
KILLED = frozenset({EndReason.KILLED, EndReason.REVOKED})


def of_session(pending: Pending, sinks: Iterable[SinkOutline]) -> Iterator[NewDelivery]:
    """Yield the events of a session in the order in which they happened."""
    session = pending.session
    kinds: list[tuple[EventKind, datetime]] = []
    if pending.bits & OPENED:
        kinds.append((EventKind.SESSION_OPEN, session.start_date))
    if pending.bits & ENDED:
        ended = session.end_date or session.start_date
        kinds.append((EventKind.SESSION_CLOSE, ended))
        if pending.end_reason in KILLED:
            kinds.append((EventKind.SESSION_KILL, ended))
    for kind, at in kinds:
        payload_of = _open_payload if kind is EventKind.SESSION_OPEN else _close_payload
        for sink in _for(sinks, session.org_id, kind, at):
            data = payload_of(pending, with_script=sink.with_script)
            yield _delivery(sink, uuid5(_NAMESPACE, f"{session.id} {kind}"), kind, at, data)


def of_violation(violation: Violation, sinks: Iterable[SinkOutline]) -> Iterator[NewDelivery]:
    kind = EventKind.GUARDRAIL_VIOLATION
    for sink in _for(sinks, violation.org_id, kind, violation.at):
        yield _delivery(sink, violation.id, kind, violation.at, _violation(violation, with_script=sink.with_script))


def of_review(news: ReviewChange, sinks: Iterable[SinkOutline], tags: Mapping[str, str]) -> Iterator[NewDelivery]:
    """Yield the events of a review; `tags` are those of its connection."""
    kind, review = OF_REVIEWS[news.kind], as_then(news)
    for sink in _for(sinks, review.org_id, kind, news.at):
        if not sink.scope.covers(review, tags):
            continue
        yield _delivery(sink, news.id, kind, news.at, review_data(review, with_script=sink.with_script))


def of_failed_run(run: ScheduleRun, sinks: Iterable[SinkOutline]) -> Iterator[NewDelivery]:
    kind = EventKind.SCHEDULE_FAILED
    for sink in _for(sinks, run.org_id, kind, run.at):
        yield _delivery(sink, run.id, kind, run.at, _failed_run(run))


def of_entry(entry: AuditEntry, sinks: Iterable[SinkOutline]) -> Iterator[NewDelivery]:
    kind = EventKind.AUDIT_ENTRY
    for sink in _for(sinks, entry.org_id, kind, entry.at):
        data = _entry(entry)
        if len(json.dumps(data, default=_plain)) > MAX_BODY:
            data |= {"body": {}, "before": None, "after": None, "truncated": True}
        yield _delivery(sink, entry.id, kind, entry.at, data)


def test_of(sink: Sink, at: datetime) -> NewDelivery:
    key = uuid4()
    data: SinkTest = {"sink": sink.name, "message": "an administrator requested this test"}
    return NewDelivery(sink.id, sink.org_id, key, EventKind.SINK_TEST, at, _body(key, EventKind.SINK_TEST, at, data))


def _for(sinks: Iterable[SinkOutline], org_id: UUID, kind: EventKind, at: datetime) -> Iterator[SinkOutline]:
    """Return the sinks that receive the event. A sink gets no events from before its creation."""
    return (sink for sink in sinks if sink.org_id == org_id and kind in sink.events and sink.created_at <= at)


def _delivery(sink: SinkOutline, event_id: UUID, kind: EventKind, at: datetime, data: Mapping[str, Any]) -> NewDelivery:
    return NewDelivery(sink.id, sink.org_id, event_id, kind, at, _body(event_id, kind, at, data))


def _body(event_id: UUID, kind: EventKind, at: datetime, data: Mapping[str, Any]) -> str:
    # In ASCII: control characters, and those that some readers take as the end of a line, are escapes.
    event = {"id": event_id, "type": kind, "timestamp": at, "data": data}
    return json.dumps(event, separators=(",", ":"), default=_plain)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _open_payload(pending: Pending, *, with_script: bool) -> SessionOpen:
    session = pending.session
    payload: SessionOpen = {
        "session_id": session.id,
        "user": session.user,
        "user_id": session.user_id,
        "user_name": session.user_name,
        "connection": session.connection,
        "connection_id": session.connection_id,
        "connection_type": session.type,
        "connection_subtype": session.connection_subtype,
        "connection_tags": dict(session.connection_tags),
        "verb": session.verb.value,
        "review_id": session.review_id,
        "start_date": session.start_date,
    }
    if with_script and session.script is not None:
        payload["script"] = session.script[:MAX_SCRIPT]
        payload["script_truncated"] = len(session.script) > MAX_SCRIPT
    return payload


def _close_payload(pending: Pending, *, with_script: bool) -> SessionClose:
    session = pending.session
    return {
        **_open_payload(pending, with_script=with_script),
        "end_date": session.end_date,
        "end_reason": pending.end_reason,
        "end_detail": session.metadata.get("end_detail"),
        "exit_code": session.exit_code,
        "metrics": dict(session.metrics),
    }


def _violation(source: Violation, *, with_script: bool) -> GuardrailViolation:
    violation: GuardrailViolation = {
        "session_id": source.session_id,
        "number": source.number,
        "rule": source.rule,
        "action": source.action,
        "message": source.message,
        "user": source.user,
        "user_id": source.user_id,
        "connection": source.connection,
        "connection_id": source.connection_id,
        "left_out": source.left_out,
    }
    if with_script:
        violation["statement"] = source.statement
    return violation


def _failed_run(run: ScheduleRun) -> ScheduleFailed:
    return {
        "schedule": run.schedule,
        "schedule_id": run.schedule_id,
        "repository": run.repository,
        "runbook": f"/{run.file}",
        "connection": run.connection,
        "connection_id": run.connection_id,
        "owner": run.owner,
        "owner_id": run.owner_id,
        "due_at": run.due_at,
        "reason": run.error,
    }


def _entry(entry: AuditEntry) -> AuditEntryData:
    """Return the fields as `GET /audit/logs/{id}` names them."""
    return {
        "id": entry.id,
        "actor_id": entry.actor_id,
        "actor_subject": entry.actor_subject,
        "actor_email": entry.actor_email,
        "action": entry.action,
        "resource_type": entry.resource_type,
        "resource": entry.resource,
        "outcome": entry.outcome,
        "http_method": entry.method,
        "http_path": entry.path,
        "http_status": entry.status,
        "client_ip": entry.source,
        "request_id": entry.request_id,
        "body": entry.body,
        "before": entry.before,
        "after": entry.after,
        "truncated": False,
    }
