"""The live relay workers: agents hold a tunnel to each of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from postern.domain.worker import LIVES_FOR, RelayWorker
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.target_ports import WorkerStore

_KEPT = timedelta(hours=1)  # of a worker that died without signing off


class RelayWorkers:
    def __init__(self, store: WorkerStore, signals: Signals, now: Clock) -> None:
        self._store = store
        self._signals = signals
        self._now = now

    async def beat(self, worker: RelayWorker) -> None:
        """Send a heartbeat, every 5 seconds. The first one is signalled to all processes."""
        now = self._now()
        if await self._store.beat(RelayWorker(worker.id, worker.name, worker.started_at, now)):
            await self._signals.publish(Topic.WORKERS_CHANGED)

    async def mark_stopped(self, worker_id: UUID) -> None:
        """Record and signal that it stopped, so that agents no longer dial it."""
        await self._store.forget(worker_id)
        await self._signals.publish(Topic.WORKERS_CHANGED)

    async def living(self) -> list[RelayWorker]:
        """Return live workers by name. One statement."""
        return await self._store.living(self._now() - LIVES_FOR)

    def listen(self, handler: Callable[[], None]) -> None:
        """Call `handler` on the event loop when a worker came or stopped, or such a signal may be lost.

        A killed worker sends no signal: poll `living` as well.
        """
        for topic in (Topic.WORKERS_CHANGED, Topic.RESUMED):
            self._signals.subscribe(topic, lambda _payload: handler())

    async def prune(self) -> None:
        await self._store.prune(self._now() - _KEPT)
