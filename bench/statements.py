"""How many SQL statements a session costs the store: a worker in this process, its engine listened to."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from bench.stage import DATABASE, Stage
from bench.stream import Stream
from sqlalchemy import event
from tests.support.postgres import free_port

from postern.recording.group_commit import GroupCommit
from postern.settings import Settings
from postern.store.signals import LocalSignals
from postern.wiring.app import open_app
from postern.wiring.processes.worker_process import build_worker

_SESSIONS = 10
_HEARTBEAT = "UPDATE agents"  # comes every few seconds whatever happens
_END = "UPDATE sessions"


def per_session(stage: Stage) -> tuple[float, float]:
    """Statements until the client is welcomed, and until its session is closed; means over some sessions."""
    gateway = stage.gateway
    settings = replace(gateway.settings, postgres_port=free_port(), tunnel_port=free_port())
    url = gateway.url("plain", DATABASE, port=settings.postgres_port)
    return asyncio.run(_count(settings, url))


class _Listener:
    """Hears every statement of an engine; `closed` is set by the one that ends a session."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.closed = asyncio.Event()

    def hear(self, _connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith(_HEARTBEAT):
            return
        self.seen.append(statement)
        if statement.startswith(_END):
            self.closed.set()


async def _count(settings: Settings, url: str) -> tuple[float, float]:
    commits = GroupCommit(settings.recording_sync_interval)
    listener = _Listener()
    async with open_app(settings, LocalSignals()) as app:
        worker = build_worker(settings, "count", app.services, app.stores.segments, commits, b"decoy")
        ready = asyncio.Event()
        serving = asyncio.create_task(worker.serve(ready.set))
        await asyncio.wait_for(ready.wait(), 30)
        event.listen(app.database.engine.sync_engine, "before_cursor_execute", listener.hear)
        try:
            await _one(url, listener)  # caches are filled by the first
            counts = [await _one(url, listener) for _ in range(_SESSIONS)]
        finally:
            worker.stop()
            await serving
            commits.close()
    return sum(opening for opening, _ in counts) / _SESSIONS, sum(whole for _, whole in counts) / _SESSIONS


async def _one(url: str, listener: _Listener) -> tuple[int, int]:
    listener.seen.clear()
    listener.closed.clear()
    stream = await asyncio.to_thread(Stream, url)
    opening = len(listener.seen)
    await asyncio.to_thread(stream.read_all, "select line from lines limit 1")
    stream.close()
    await asyncio.wait_for(listener.closed.wait(), 30)
    return opening, len(listener.seen)
