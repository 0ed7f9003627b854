"""A Session: the audited unit, one row and one recording (spec 2.2, states in section 3).

    (new) ──opened, asked──▶ open ─────ended, withdrawn──────▶ done
      │                      │  ▲                              ▲
      │               approved  claimed                        │
      │                      ▼  │                              │
      └──────submitted─────▶ ready ──ended, withdrawn──────────┘

`opened`: a client connected, and a worker relays. `asked`: it waits for a review, and no worker has it. `approved`: its
review was. `submitted`: a script waits for a worker. `claimed`: one worker runs it. `withdrawn`: it is ended before a
worker had it. `ended`: whatever else ended it. Nothing leads out of `done`.

A session that is open without a worker waits for its review: `approved` and `withdrawn` happen to such a one only.
TRANSITIONS and CHANGES are the one statement of this: the store's conditional updates are made of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from postern.domain.runbook import RunbookRef
from postern.errors import Gone


class Verb(StrEnum):
    CONNECT = "connect"
    EXEC = "exec"


class SessionStatus(StrEnum):
    OPEN = "open"
    READY = "ready"
    DONE = "done"


class SessionEvent(StrEnum):
    """A change of a session's state."""

    OPENED = "opened"
    ASKED = "asked"
    APPROVED = "approved"
    SUBMITTED = "submitted"
    CLAIMED = "claimed"
    WITHDRAWN = "withdrawn"
    ENDED = "ended"


# (from, event) → to. From None: there was no such session. What is not here changes nothing.
TRANSITIONS: Mapping[tuple[SessionStatus | None, SessionEvent], SessionStatus] = {
    (None, SessionEvent.OPENED): SessionStatus.OPEN,
    (None, SessionEvent.ASKED): SessionStatus.OPEN,
    (None, SessionEvent.SUBMITTED): SessionStatus.READY,
    (SessionStatus.OPEN, SessionEvent.APPROVED): SessionStatus.READY,
    (SessionStatus.READY, SessionEvent.CLAIMED): SessionStatus.OPEN,
    (SessionStatus.OPEN, SessionEvent.WITHDRAWN): SessionStatus.DONE,
    (SessionStatus.READY, SessionEvent.WITHDRAWN): SessionStatus.DONE,
    (SessionStatus.READY, SessionEvent.ENDED): SessionStatus.DONE,
    (SessionStatus.OPEN, SessionEvent.ENDED): SessionStatus.DONE,
}

_ENDING = frozenset(
    {"status", "end_date", "end_reason", "end_detail", "exit_code", "metrics", "event_size", "refused", "masked"}
)

# The columns of its row that an event may change.
CHANGES: Mapping[SessionEvent, frozenset[str]] = {
    SessionEvent.APPROVED: frozenset({"status"}),
    SessionEvent.CLAIMED: frozenset({"status", "worker", "start_date", "metadata", "credential_id"}),
    SessionEvent.WITHDRAWN: _ENDING,
    SessionEvent.ENDED: _ENDING,
}


def sources(event: SessionEvent) -> tuple[SessionStatus, ...]:
    """The states of a session in which this can happen to it."""
    return tuple(state for state, cause in TRANSITIONS if cause is event and state is not None)


def target(event: SessionEvent) -> SessionStatus:
    """Where it leads, which is the same from everywhere."""
    (state,) = {to for (_, cause), to in TRANSITIONS.items() if cause is event}
    return state


class EndReason(StrEnum):
    """Why a session ended; stored in the session's metadata as `end_reason`."""

    CLIENT_CLOSED = "client_closed"
    TARGET_CLOSED = "target_closed"
    KILLED = "killed"
    REVOKED = "revoked"
    EXPIRED = "expired"
    IDLE = "idle"
    PROTOCOL_VIOLATION = "protocol_violation"
    RECORDING_FAILED = "recording_failed"
    GATEWAY_STOPPED = "gateway_stopped"
    GATEWAY_CRASHED = "gateway_crashed"
    REJECTED = "rejected"  # by a reviewer
    WITHDRAWN = "withdrawn"  # by its requester, during the review
    COMPLETED = "completed"
    FAILED = "failed"


class Outcome(StrEnum):
    """The outcome of a finished session, in one word."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"
    KILLED = "killed"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


# Reasons that decide by themselves; after any other the exit code of a script does.
_OUTCOMES: Mapping[EndReason, Outcome] = {
    EndReason.KILLED: Outcome.KILLED,
    EndReason.REVOKED: Outcome.KILLED,
    EndReason.GATEWAY_STOPPED: Outcome.KILLED,
    EndReason.EXPIRED: Outcome.EXPIRED,
    EndReason.IDLE: Outcome.EXPIRED,
    EndReason.REJECTED: Outcome.REFUSED,
    EndReason.WITHDRAWN: Outcome.WITHDRAWN,
    EndReason.PROTOCOL_VIOLATION: Outcome.FAILED,
    EndReason.RECORDING_FAILED: Outcome.FAILED,
    EndReason.GATEWAY_CRASHED: Outcome.FAILED,
}


# Characters of a script that lists show.
SCRIPT_BEGINNING = 500


@dataclass(frozen=True, slots=True)
class Session:
    id: UUID
    org_id: UUID
    connection_id: UUID
    connection: str
    connection_subtype: str
    connection_tags: Mapping[str, str]
    type: str
    verb: Verb
    status: SessionStatus
    user: str
    user_id: str
    user_name: str
    start_date: datetime
    end_date: datetime | None = None
    exit_code: int | None = None
    script: str | None = None  # left out of lists
    script_size: int = 0  # bytes
    event_size: int = 0
    integrations_metadata: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    worker: str | None = None
    credential_id: UUID | None = None
    recording_purged_at: datetime | None = None  # or being purged since
    holds: int = 0
    correlation_id: str | None = None  # the client's own, by which it finds the session again
    review_id: UUID | None = None  # under which it runs, or for which it waits
    runbook: RunbookRef | None = None  # the one that its script is made of

    @property
    def outcome(self) -> Outcome | None:
        """None while it is not done. A script of which a rule refused something is refused, where it failed at all; a
        client that goes on after a refusal is not."""
        if self.status is not SessionStatus.DONE:
            return None
        reason = self.metadata.get("end_reason")
        decided = _OUTCOMES.get(EndReason(reason)) if reason else None
        if decided is not None:
            return decided
        if reason != EndReason.FAILED and not (self.verb is Verb.EXEC and self.exit_code):
            return Outcome.SUCCEEDED
        return Outcome.REFUSED if self.metrics.get("refused") else Outcome.FAILED


def require_recording(session: Session) -> None:
    """Raise Gone when it was purged."""
    if session.recording_purged_at is not None:
        at = f"{session.recording_purged_at:%Y-%m-%d %H:%M} UTC"
        raise Gone(f"the recording of session {session.id} was purged on {at}; the ledger and the audit log say why")
