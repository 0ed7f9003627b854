"""Waiting for a session, or an errand, to be done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from postern.store.ports.common_ports import Signals, Topic


class CompletionSignals:
    """Wakes who waits for `session.done`, or another topic whose payload `key` says what is done. One per process."""

    def __init__(self, signals: Signals, topic: str = Topic.SESSION_DONE, key: str = "session_id") -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._key = key
        signals.subscribe(topic, self._wake)
        signals.subscribe(Topic.RESUMED, self._wake_all)

    @asynccontextmanager
    async def subscribe(self, key: UUID) -> AsyncIterator[asyncio.Event]:
        """The event is set when that one may be done; begin to listen before it can start."""
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
    """Each time that it is worth a look whether it is done, for `wait` seconds: upon the event, and every `again`
    seconds, should a signal be lost."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    while (left := deadline - loop.time()) > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(left, again)):
                await event.wait()
        event.clear()
        yield
