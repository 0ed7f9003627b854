"""Waiting for a session to be done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from uuid import UUID

from postern.store.ports import Signals, Topic


class DoneSignals:
    """Wakes who waits for `session.done`. One per process."""

    def __init__(self, signals: Signals) -> None:
        self._waiting: dict[str, asyncio.Event] = {}
        signals.subscribe(Topic.SESSION_DONE, self._wake)
        signals.subscribe(Topic.RESUMED, self._wake_all)

    @asynccontextmanager
    async def listen(self, session_id: UUID) -> AsyncIterator[asyncio.Event]:
        """The event is set when the session may be done; begin to listen before the session can start."""
        event = self._waiting[str(session_id)] = asyncio.Event()
        try:
            yield event
        finally:
            del self._waiting[str(session_id)]

    def _wake(self, payload: Mapping[str, str]) -> None:
        event = self._waiting.get(payload.get("session_id", ""))
        if event is not None:
            event.set()

    def _wake_all(self, _payload: Mapping[str, str]) -> None:
        for event in self._waiting.values():
            event.set()
