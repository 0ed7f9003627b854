"""Sessions that have ended and of which the store could not be told: told again until it hears."""

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

INTERVAL = 2.0  # seconds between two tries
MOST = 100_000  # that are remembered; who starts this worker again closes the others


@dataclass(frozen=True, slots=True)
class PendingClose:
    """As `Sessions.close` takes it; `at` is when it ended."""

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
        """Now or later. Never raises Unavailable."""
        try:
            await self._tell(ending)
        except Unavailable as error:
            log.error("session %s could not be closed in the store, and will be: %s", ending.session_id, error.message)
            if len(self._waiting) < MOST:
                self._waiting[ending.session_id] = ending

    async def once(self) -> None:
        for ending in list(self._waiting.values()):
            try:
                await self._tell(ending)
            except Unavailable:
                return
            del self._waiting[ending.session_id]
            log.info("session %s is closed in the store, too", ending.session_id)

    async def forever(self, interval: float = INTERVAL) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(interval)
            await self.once()

    async def _tell(self, ending: PendingClose) -> None:
        await self._sessions.close(
            ending.session_id,
            reason=ending.reason,
            exit_code=ending.exit_code,
            metrics=ending.metrics,
            event_size=ending.event_size,
            at=ending.at,
        )
