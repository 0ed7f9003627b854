"""Readiness of this gateway, for load balancers.

Each relay worker writes the time of its embedded agents every five seconds. So one query of the store covers every
process on every machine. It shows that some worker lives, not which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from postern.errors import Unavailable
from postern.services.targets.agents import Agents
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.server_ports import SchemaStore

_GOOD_FOR = timedelta(seconds=1)  # so that frequent anonymous requests do not keep the store busy


class Health:
    def __init__(
        self,
        schema: SchemaStore,
        agents: Agents,
        signals: Signals,
        now: Clock,
        recordings: Callable[[], str] = lambda: "",
    ) -> None:
        """`recordings` returns what is wrong with recordings on this machine, empty when nothing is."""
        self._schema = schema
        self._agents = agents
        self._signals = signals
        self._now = now
        self._recordings = recordings
        self._asking = asyncio.Lock()
        self._missing: list[str] = []
        self._asked_at: datetime | None = None

    async def require_ready(self) -> None:
        """Raise Unavailable, naming what is missing. Checks at most once a second."""
        async with self._asking:
            now = self._now()
            if self._asked_at is None or not timedelta(0) <= now - self._asked_at < _GOOD_FOR:
                self._missing = await self._ask()
                self._asked_at = now
            missing = self._missing
        if missing:
            raise Unavailable(f"not ready: {'; '.join(missing)}")

    async def _ask(self) -> list[str]:
        missing = [] if self._signals.connected else ["signals: the hub cannot be reached"]
        try:
            if not await self._schema.is_current():
                return [*missing, "store: its tables have a different version; restart the gateway"]
            if not await self._agents.any_worker_lives():
                missing.append("workers: no relay worker is alive")
        except Unavailable:
            missing.append("store: does not answer")
        trouble = await asyncio.to_thread(self._recordings)
        return [*missing, trouble] if trouble else missing
