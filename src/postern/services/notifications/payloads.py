"""The payload of each event: the one definition, from which the schemas are generated
(api/schemas/server/event_schemas.py, docs/events.md).

They are plain dictionaries with declared keys: workers, which load this too, need no pydantic. Fields may be added;
readers ignore fields that they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NotRequired
from uuid import UUID

from typing_extensions import TypedDict

from postern.domain.event import EventKind
from postern.domain.rules.violation import Done


class SessionOpen(TypedDict):
    session_id: UUID
    user: str
    """E-mail address"""
    user_id: str
    """The identity provider's id of the user"""
    user_name: str
    connection: str
    """Its name at that time"""
    connection_id: UUID
    connection_type: str
    connection_subtype: str
    connection_tags: Mapping[str, str]
    verb: Literal["connect", "exec"]
    review_id: UUID | None
    """The review that allowed it"""
    start_date: datetime
    script: NotRequired[str]
    """Of an exec, 10,000 characters at most; for sinks with `with_script`"""
    script_truncated: NotRequired[bool]


class SessionClose(SessionOpen):
    end_date: datetime | None
    end_reason: str | None
    """Such as client_closed, completed, killed, revoked, expired, rejected, idle, failed"""
    end_detail: str | None
    exit_code: int | None
    metrics: Mapping[str, Any]
    """As `GET /sessions/{id}` shows them: operations, refused, warned, data_masking, event_size, …"""


class GuardrailViolation(TypedDict):
    session_id: UUID
    number: int
    """Position among the violations of its session, from 1; unreported ones count"""
    rule: str
    """The guardrail and its rule, or another part of the gateway that blocked it"""
    action: Done
    """deny: it was blocked; warn: it was forwarded with a warning; review: it waits for a decision"""
    message: str
    """The message that the client receives"""
    user: str
    """E-mail address"""
    user_id: str
    connection: str
    connection_id: UUID
    left_out: int
    """Violations of this session just before this one that were not reported because there were too many"""
    statement: NotRequired[str | None]
    """10,000 characters at most, null for an answer; for sinks with `with_script`"""


class ReviewPerson(TypedDict):
    id: UUID | None
    """The user's id; null for a deleted user"""
    subject: str
    name: str
    email: str
    chat_id: str
    """The user's id in the chat, for a decision made there"""


class ReviewVoice(TypedDict):
    reviewed_by: ReviewPerson
    status: Literal["APPROVED", "REJECTED", "REVOKED"]
    groups: list[str]
    """Groups of the review for which the reviewer voted"""
    review_date: datetime
    forced_review: bool
    """True if the reviewer used the right to approve alone"""
    own: bool
    """True for the requester's own vote, which the organisation allows"""
    comment: str


class ReviewDemand(TypedDict):
    rule: str
    """The review rule or guardrail; empty for the connection's own reviewers"""
    groups: list[str]
    min_approvals: int
    all_groups: bool
    """True if one member of each group must approve"""
    force_groups: list[str]
    """Groups whose members can approve alone"""


class WindowConfiguration(TypedDict):
    start_time: str
    """HH:MM"""
    end_time: str
    time_zone: str


class ReviewWindow(TypedDict):
    type: Literal["time_range"]
    configuration: WindowConfiguration


class ReviewData(TypedDict):
    id: UUID
    type: Literal["onetime", "jit", "statement"]
    """onetime: a script; jit: temporary access; statement: a statement that a guardrail holds"""
    status: Literal["PENDING", "APPROVED", "REJECTED", "REVOKED", "EXPIRED", "WITHDRAWN", "PROCESSING", "EXECUTED"]
    """The state after this event"""
    session: UUID | None
    """The session that waits for the review, or that sent the statement"""
    connection: str
    connection_id: UUID
    owner: ReviewPerson
    """The requester"""
    reason: str
    """The requester's reason"""
    demands: list[ReviewDemand]
    """All of them must be met"""
    voices: list[ReviewVoice]
    """Votes up to this event"""
    access_duration: int
    """Requested seconds of access; 0 for scripts and statements"""
    time_window: ReviewWindow | None
    """Set by a reviewer"""
    created_at: datetime
    expires_at: datetime
    """Deadline of the decision; for an approved script, deadline of its start"""
    decided_at: datetime | None
    revoke_at: datetime | None
    """When the access ends"""
    estimate: NotRequired[Mapping[str, Any] | None]
    """Number of rows that the statement would change, if counted; for sinks with `with_script`"""
    input: NotRequired[str]
    """The held statement with its values, 10,000 characters at most; for sinks with `with_script`"""


class ScheduleFailed(TypedDict):
    schedule: str
    """Its name at that time"""
    schedule_id: UUID
    repository: str
    runbook: str
    """Its path from the root of the repository"""
    connection: str
    connection_id: UUID
    owner: str
    """E-mail address of its owner, as whom it runs; empty for a deleted user"""
    owner_id: UUID
    due_at: datetime
    reason: str
    """The same as `last_error` of the schedule"""


class AuditEntryData(TypedDict):
    id: UUID
    actor_id: UUID | None
    actor_subject: str
    actor_email: str
    action: str
    resource_type: str
    resource: str
    outcome: str
    http_method: str
    http_path: str
    http_status: int
    client_ip: str
    request_id: str
    body: Any
    """The request as given, secrets redacted"""
    before: Any
    after: Any
    truncated: bool
    """True if it was too large: body, before and after are left out"""


class SinkTest(TypedDict):
    sink: str
    message: str


_REVIEWS = {kind: ReviewData for kind in EventKind if kind.startswith("review.")}

# What `data` is, by the kind of event.
DATA: Mapping[EventKind, type] = {
    EventKind.SESSION_OPEN: SessionOpen,
    EventKind.SESSION_CLOSE: SessionClose,
    EventKind.SESSION_KILL: SessionClose,
    EventKind.GUARDRAIL_VIOLATION: GuardrailViolation,
    **_REVIEWS,
    EventKind.SCHEDULE_FAILED: ScheduleFailed,
    EventKind.AUDIT_ENTRY: AuditEntryData,
    EventKind.SINK_TEST: SinkTest,
}
