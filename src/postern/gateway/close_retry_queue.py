"""Retry queue for closing sessions while the store is unavailable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from postern.domain.sessions.session import EndReason
from postern.errors import Unavailable
from postern.services.sessions import Sessions

log = logging.getLogger(__name__)

INTERVAL = 2.0  # seconds between two attempts
MOST = 100_000  # queued sessions; the next start of this worker closes others


@dataclass(frozen=True, slots=True)
class PendingClose:
    """The arguments of `Sessions.close`; `at` is the end of the session."""

    session_id: UUID
    at: datetime
    reason: EndReason
    exit_code: int | None
    metrics: Mapping[str, Any]
    event_size: int


class CloseRetryQueue:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._waiting: dict[UUID, PendingClose] = {}

    async def close(self, ending: PendingClose) -> None:
        """Close now or later. Never raises Unavailable."""
        try:
            await self._close_session(ending)
        except Unavailable as error:
            log.error("session %s could not be closed in the store; retrying: %s", ending.session_id, error.message)
            if len(self._waiting) < MOST:
                self._waiting[ending.session_id] = ending

    async def once(self) -> None:
        for ending in list(self._waiting.values()):
            try:
                await self._close_session(ending)
            except Unavailable:
                return
            del self._waiting[ending.session_id]
            log.info("session %s is now closed in the store", ending.session_id)

    async def forever(self, interval: float = INTERVAL) -> None:
        """Retry until cancelled."""
        while True:
            await asyncio.sleep(interval)
            await self.once()

    async def _close_session(self, ending: PendingClose) -> None:
        await self._sessions.close(
            ending.session_id,
            reason=ending.reason,
            exit_code=ending.exit_code,
            metrics=ending.metrics,
            event_size=ending.event_size,
            at=ending.at,
        )
