"""A session that has its row and its recording, before and while its links run."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from postern.domain.rules.permit import Permit
from postern.domain.tracing import Span
from postern.gateway.rules.violations import SessionViolations
from postern.interception.events import Event
from postern.interception.pipeline import SessionView
from postern.relay.relay_target import Start


class SessionRecording(Protocol):
    """The recording of one session while it is written."""

    @property
    def size(self) -> int: ...

    @property
    def truncated(self) -> bool: ...

    def record(self, events: list[Event], micros: int) -> None: ...

    def finish(self, reason: str, micros: int, *, soon: bool) -> Awaitable[None]:
        """Seal the recording and make it durable, together with others that end now, or at once if a caller waits for
        it (`soon`)."""


@dataclass(slots=True)
class OpenedSession:
    """A session with its row and recording, whose link does not run yet."""

    id: UUID
    permit: Permit
    start: Start
    view: SessionView
    recording: SessionRecording
    started: float
    span: Span
    violations: SessionViolations | None = None
