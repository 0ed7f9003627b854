"""Waiting for a session or a target task to complete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from postern.store.ports.common_ports import Signals, Topic


class CompletionSignals:
    """Wakes tasks that wait for `session.done`, or another topic. The payload's `key` names what is done. One per
    process."""

    def __init__(self, signals: Signals, topic: str = Topic.SESSION_DONE, key: str = "session_id") -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._key = key
        signals.subscribe(topic, self._wake)
        signals.subscribe(Topic.RESUMED, self._wake_all)

    @asynccontextmanager
    async def subscribe(self, key: UUID) -> AsyncIterator[asyncio.Event]:
        """Yield an event that is set when `key` may be done. Subscribe before it can start."""
        event = asyncio.Event()
        waiting = self._waiting.setdefault(str(key), set())
        waiting.add(event)
        try:
            yield event
        finally:
            waiting.discard(event)
            if not waiting:
                self._waiting.pop(str(key), None)

    def _wake(self, payload: Mapping[str, str]) -> None:
        for event in self._waiting.get(payload.get(self._key, ""), ()):
            event.set()

    def _wake_all(self, _payload: Mapping[str, str]) -> None:
        for waiting in self._waiting.values():
            for event in waiting:
                event.set()


async def poll_times(event: asyncio.Event, wait: float, again: float) -> AsyncIterator[None]:
    """Yield each time that the result should be checked, for `wait` seconds: at the event, and every `again` seconds in
    case a signal is lost."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    while (left := deadline - loop.time()) > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(left, again)):
                await event.wait()
        event.clear()
        yield
