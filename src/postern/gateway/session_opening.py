"""A session being established. Kill and revoke signals must be able to abort it before its link exists."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import TracebackType
from typing import Self
from uuid import UUID

from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import EndReason
from postern.errors import PosternError


def time_is_over(permit: Permit, now: datetime) -> str | None:
    """Return the message for the owner of an expired permit; None before."""
    if permit.expires_at is None or now < permit.expires_at:
        return None
    if permit.review_id is not None:
        return "the approved access has expired; connect again to request it again"
    again = "log in again" if permit.credential_id is None else "issue a new credential"
    return f"this session's access has expired; {again}"


class SessionAborted(PosternError):
    """A session was ended from outside before its client was welcomed."""

    def __init__(self, reason: EndReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PendingSession:
    """One entry of `LinkRegistry` while a session is being opened, by the task that made it.

    `with opening.dialling(permit)` is the part that may take long: `end` cancels it there. Elsewhere the end is only
    stored, because a store operation must not be interrupted; `check` raises it then.
    """

    def __init__(self, session_id: UUID) -> None:
        self.session_id = session_id
        self.permit: Permit | None = None  # while it dials
        self._ended: SessionAborted | None = None
        self._task: asyncio.Task[object] | None = None

    def end(self, reason: EndReason, message: str) -> None:
        if self._ended is not None:
            return
        self._ended = SessionAborted(reason, message)
        if self._task is not None:
            self._task.cancel()

    def check(self) -> None:
        """Raises SessionAborted if it was ended."""
        if self._ended is not None:
            raise self._ended

    def dialling(self, permit: Permit) -> AbortableDial:
        return AbortableDial(self, permit)


class AbortableDial:
    """Cancels its own task as `asyncio.timeout` does, and turns only that into SessionAborted."""

    def __init__(self, opening: PendingSession, permit: Permit) -> None:
        self._opening = opening
        self._permit = permit

    def check(self) -> None:
        """Raises SessionAborted if the permit has expired."""
        message = time_is_over(self._permit, datetime.now(UTC))
        if message is not None:
            raise SessionAborted(EndReason.EXPIRED, message)

    def __enter__(self) -> Self:
        self._opening.check()
        task = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()
        self._opening._task = task
        self._opening.permit = self._permit
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        opening = self._opening
        task, opening._task, opening.permit = opening._task, None, None
        if opening._ended is None or task is None:
            return
        # Another cancellation as well: that one continues.
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise opening._ended from None
