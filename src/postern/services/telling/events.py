"""What sinks are told: sessions and audit entries as JSON, without secrets; scripts only where a sink is for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4, uuid5

from postern.domain.question import Question
from postern.domain.session import EndReason
from postern.domain.sink import EventKind, NewDelivery, Sink, SinkOutline
from postern.store.ports import AuditEntry
from postern.store.ports.telling import ENDED, OPENED, QUESTION_ASKED, QUESTION_DECIDED, Pending

MAX_SCRIPT = 10_000  # characters that an event has of a script
MAX_BODY = 100_000  # bytes of an audit entry's event; a larger one goes without what changed
_NAMESPACE = UUID("6f4f9f0e-5d59-4a51-9c52-6b7a3f9f7d11")  # of identifiers of events
KILLED = frozenset({EndReason.KILLED, EndReason.REVOKED})


def of_session(one: Pending, sinks: Iterable[SinkOutline]) -> Iterator[NewDelivery]:
    """In the order in which it happened."""
    session = one.session
    found: list[tuple[EventKind, datetime]] = []
    if one.bits & OPENED:
        found.append((EventKind.SESSION_OPENED, session.start_date))
    if one.bits & ENDED:
        ended = session.end_date or session.start_date
        found.append((EventKind.SESSION_ENDED, ended))
        if one.end_reason in KILLED:
            found.append((EventKind.SESSION_KILLED, ended))
        if session.metrics.get("refused"):
            found.append((EventKind.SESSION_REFUSED, ended))
    for kind, at in found:
        for sink in sinks:
            if sink.org_id == session.org_id and kind in sink.events and sink.created_at <= at:
                data = _session(one, kind, with_script=sink.with_script)
                yield _delivery(sink, uuid5(_NAMESPACE, f"{session.id} {kind}"), kind, at, data)


def of_entry(entry: AuditEntry, sinks: Iterable[SinkOutline]) -> Iterator[NewDelivery]:
    for sink in sinks:
        if sink.org_id == entry.org_id and EventKind.AUDIT_ENTRY in sink.events and sink.created_at <= entry.at:
            data = _entry(entry)
            if len(json.dumps(data)) > MAX_BODY:
                data |= {"body": {}, "before": None, "after": None, "truncated": True}
            yield _delivery(sink, entry.id, EventKind.AUDIT_ENTRY, entry.at, data)


def of_question(question: Question, bits: int, at: datetime, sinks: Iterable[SinkOutline]) -> Iterator[NewDelivery]:
    """In the order in which it happened. `at`: when it is told, which is the moment of what has no other."""
    found: list[tuple[EventKind, datetime]] = []
    if bits & QUESTION_ASKED:
        found.append((EventKind.QUESTION_ASKED, question.asked_at))
    if bits & QUESTION_DECIDED:
        found.append((EventKind.QUESTION_CLOSED, at))
    for kind, moment in found:
        for sink in sinks:
            if sink.org_id == question.org_id and kind in sink.events and sink.created_at <= moment:
                data = _question(question, kind, with_script=sink.with_script)
                yield _delivery(sink, uuid5(_NAMESPACE, f"{question.id} {kind}"), kind, moment, data)


def test_of(sink: Sink, at: datetime) -> NewDelivery:
    key = uuid4()
    body = _body(key, EventKind.SINK_TEST, at, {"sink": sink.name, "message": "an administrator asked for this test"})
    return NewDelivery(sink.id, sink.org_id, key, EventKind.SINK_TEST, at, body)


def _delivery(sink: SinkOutline, event_id: UUID, kind: EventKind, at: datetime, data: Mapping[str, Any]) -> NewDelivery:
    return NewDelivery(sink.id, sink.org_id, event_id, kind, at, _body(event_id, kind, at, data))


def _body(event_id: UUID, kind: EventKind, at: datetime, data: Mapping[str, Any]) -> str:
    # In ASCII: control characters, and those that some readers take as the end of a line, are escapes.
    told = {"id": str(event_id), "type": kind, "timestamp": at.isoformat(), "data": data}
    return json.dumps(told, separators=(",", ":"))


def _question(question: Question, kind: EventKind, *, with_script: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "question_id": str(question.id),
        "session_id": str(question.session_id),
        "connection": question.connection,
        "asker": question.asker,
        "asker_email": question.asker_email,
        "rule": question.rule,
        "reason": question.reason,
        "reviewers": list(question.reviewers),
        "asked_at": question.asked_at.isoformat(),
        "until": question.until.isoformat(),
    }
    if with_script:
        found["statement"] = question.statement
    if kind is EventKind.QUESTION_CLOSED:
        found |= {"decision": question.decision, "decided_by": question.decided_by, "comment": question.comment}
    return found


def _session(one: Pending, kind: EventKind, *, with_script: bool) -> dict[str, Any]:
    session = one.session
    found: dict[str, Any] = {
        "session_id": str(session.id),
        "user": session.user,
        "user_id": session.user_id,
        "user_name": session.user_name,
        "connection": session.connection,
        "connection_id": str(session.connection_id),
        "connection_type": session.type,
        "connection_subtype": session.connection_subtype,
        "connection_tags": dict(session.connection_tags),
        "verb": session.verb,
        "start_date": session.start_date.isoformat(),
    }
    if with_script and session.script is not None:
        found |= {"script": session.script[:MAX_SCRIPT], "script_truncated": len(session.script) > MAX_SCRIPT}
    if kind is EventKind.SESSION_OPENED:
        return found
    ended = {
        "end_date": session.end_date.isoformat() if session.end_date else None,
        "end_reason": one.end_reason,
        "end_detail": session.metadata.get("end_detail"),
        "exit_code": session.exit_code,
        "metrics": dict(session.metrics),
    }
    return found | ended


def _entry(entry: AuditEntry) -> dict[str, Any]:
    """As `GET /audit/logs/{id}` names it."""
    return {
        "id": str(entry.id),
        "actor_id": str(entry.actor_id) if entry.actor_id else None,
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
