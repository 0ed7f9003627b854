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
    """As the identity provider calls them"""
    user_name: str
    connection: str
    """Its name at that time"""
    connection_id: UUID
    connection_type: str
    connection_subtype: str
    connection_tags: Mapping[str, str]
    verb: Literal["connect", "exec"]
    review_id: UUID | None
    """The review under which it runs"""
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
    """Of the violations of its session, from 1, those included that are not told one by one"""
    rule: str
    """The guardrail and its rule, or another part of the gateway that refused"""
    action: Done
    """deny: it was refused; warn: let through, and the client was told; review: held until somebody decides"""
    message: str
    """What the client was told"""
    user: str
    """E-mail address"""
    user_id: str
    connection: str
    connection_id: UUID
    left_out: int
    """How many of this session, right before this one, are not told one by one since there were too many"""
    statement: NotRequired[str | None]
    """10,000 characters at most, null for an answer; for sinks with `with_script`"""


class ReviewPerson(TypedDict):
    id: UUID | None
    """Of the user, null for who has none here any more"""
    subject: str
    name: str
    email: str
    chat_id: str
    """Theirs in the chat by which it came"""


class ReviewVoice(TypedDict):
    reviewed_by: ReviewPerson
    status: Literal["APPROVED", "REJECTED", "REVOKED"]
    groups: list[str]
    """Groups of the review for which they spoke"""
    review_date: datetime
    forced_review: bool
    """By the right to approve alone"""
    own: bool
    """They had asked for it themselves, which the organisation allows"""
    comment: str


class ReviewDemand(TypedDict):
    rule: str
    """Of the review rule or guardrail; empty for the connection's own reviewers"""
    groups: list[str]
    min_approvals: int
    all_groups: bool
    """One person for each of the groups"""
    force_groups: list[str]
    """Whose members may approve alone"""


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
    """onetime: a script; jit: access for a while; statement: one that a guardrail holds"""
    status: Literal["PENDING", "APPROVED", "REJECTED", "REVOKED", "EXPIRED", "WITHDRAWN", "PROCESSING", "EXECUTED"]
    """By this event"""
    session: UUID | None
    """That waits for it, or whose statement it is"""
    connection: str
    connection_id: UUID
    owner: ReviewPerson
    """Who asked"""
    reason: str
    """In the owner's words"""
    demands: list[ReviewDemand]
    """Each of which must be met"""
    voices: list[ReviewVoice]
    """What was said until this event"""
    access_duration: int
    """Seconds of access that are asked for; 0 for what is no access"""
    time_window: ReviewWindow | None
    """Set by a reviewer"""
    created_at: datetime
    expires_at: datetime
    """Until when it may be decided; of an approved script, until when it may be started"""
    decided_at: datetime | None
    revoke_at: datetime | None
    """When the access ends"""
    estimate: NotRequired[Mapping[str, Any] | None]
    """How many rows the statement would touch, where that was counted; for sinks with `with_script`"""
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
    """E-mail address of who it runs as; empty when they were deleted"""
    owner_id: UUID
    due_at: datetime
    reason: str
    """As `last_error` of the schedule says it"""


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
    """It was too large: body, before and after are left out"""


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
