"""A Session: the audited unit, one row and one recording (spec 2.2, states in section 3).

(new) ──▶ open ──────────────▶ done
  │        ▲                    ▲
  └──▶ ready (approved, or ─────┘
              waiting for a worker)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class Verb(StrEnum):
    CONNECT = "connect"
    EXEC = "exec"


class SessionStatus(StrEnum):
    OPEN = "open"
    READY = "ready"
    DONE = "done"


class EndReason(StrEnum):
    """Why a session ended; kept in the session's metadata as `end_reason`."""

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
    COMPLETED = "completed"
    FAILED = "failed"


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
