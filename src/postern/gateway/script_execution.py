"""`exec`: runs a stored script through a link like any client's.

The script's client end is in memory, so everything for native clients applies: guardrails, masking, recording, limits,
kill.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from uuid import UUID

from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import EndReason, Session, Verb
from postern.domain.targets.command import Invocation
from postern.domain.tracing import TRACEPARENT, current, parent_of
from postern.errors import Invalid, PosternError, RecordingFailed, Unavailable
from postern.gateway.engine import Engine
from postern.gateway.script_client import bind_script, make_client, script_start
from postern.gateway.session_opening import PendingSession, SessionAborted
from postern.gateway.session_traces import about, over, session_span
from postern.interception.events import Note
from postern.protocols.gateway_queries import PollingScript, Script, TargetRefused
from postern.relay.relay_handshake import StreamHandshake
from postern.services.sessions import Sessions
from postern.store.ports.common_ports import Signals, Topic
from postern.transport.memory import MemoryTransport

log = logging.getLogger(__name__)

AWAY = 6  # exit code of a script that did not run because its target or agent is unavailable; as in the CLI
_LOOK_EVERY = 10.0  # seconds: a signal may be missed


class _ScriptClient(asyncio.Protocol):
    """Feeds the script with the link's output, and the link with the script's input."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.transport = MemoryTransport(self)

    def data_received(self, data: bytes) -> None:
        reply = self._script.feed(data)
        pause = self._script.pause if reply and isinstance(self._script, PollingScript) else 0.0
        if pause:
            asyncio.get_running_loop().call_later(pause, self._send, reply)
        elif reply:
            self._send(reply)
        elif self._script.leaves:
            self.transport.close()

    def start(self) -> None:
        self._send(self._script.start())

    def _send(self, data: bytes) -> None:
        link = self.transport.get_protocol()
        if isinstance(link, asyncio.Protocol) and not self.transport.is_closing():
            link.data_received(data)


class Executions:
    """Claims sessions that are ready and runs them, `most` at once; others wait.

    Workers are notified, and also poll every few seconds: a script whose notification was lost would never start
    otherwise.
    """

    def __init__(self, worker: str, sessions: Sessions, engine: Engine, signals: Signals, *, most: int = 16) -> None:
        self._worker = worker
        self._sessions = sessions
        self._engine = engine
        self._turn = asyncio.Semaphore(most)
        self._tasks: dict[UUID, asyncio.Task[None]] = {}
        self._closed = False
        self._resumed = asyncio.Event()
        signals.subscribe(Topic.SESSION_RUN, self._on_run)
        signals.subscribe(Topic.RESUMED, lambda _: self._resumed.set())

    async def take_waiting(self) -> None:
        """Claim sessions that became ready while no worker listened."""
        for session_id in await self._sessions.waiting():
            self._start(session_id, "")

    async def follow(self) -> None:
        """Poll until cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._resumed.wait(), _LOOK_EVERY)
            self._resumed.clear()
            try:
                await self.take_waiting()
            except PosternError as error:
                log.warning("waiting scripts could not be read from the store: %s", error.message)

    def _on_run(self, payload: Mapping[str, str]) -> None:
        self._start(UUID(payload["session_id"]), parent_of(payload.get(TRACEPARENT)))

    def _start(self, session_id: UUID, parent: str) -> None:
        if session_id in self._tasks:
            return
        task = asyncio.get_running_loop().create_task(self._run(session_id, parent))
        self._tasks[session_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(session_id))

    def take_no_more(self) -> None:
        """Claim no more: other workers, or the next start, run the rest."""
        self._closed = True

    async def stop(self, grace: float) -> None:
        """Wait until the runs, whose links were ended before, are closed; at most `grace` seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=grace)

    async def _run(self, session_id: UUID, parent: str) -> None:
        """Run a session. `parent` is the traceparent of its request."""
        async with self._turn:
            if self._closed:
                return
            try:
                since, began = self._engine.links.changes, time.time_ns()
                with self._engine.links.opening(session_id) as opening:
                    claimed = await self._sessions.claim(session_id, self._worker)
                    if claimed is not None:  # only now: all workers try
                        with session_span(self._engine.tracer, Verb.EXEC, parent=parent, began=began) as span:
                            about(span, session_id, claimed[1])
                            await self._execute(*claimed, since, opening)
            except Unavailable as error:
                log.error("the script of session %s cannot be run now: %s", session_id, error.message)
            except Exception:
                log.exception("the script of session %s could not be run", session_id)

    async def _execute(
        self, session: Session, permit: Permit, invocation: Invocation, since: int, opening: PendingSession
    ) -> None:
        start = script_start(permit, invocation)
        try:
            opened = self._engine.prepare(session.id, permit, start, session.start_date, session.script or "")
        except RecordingFailed as error:
            log.error("the script of session %s was not run: %s", session.id, error.message)
            await self._engine.never_ran(session.id, EndReason.RECORDING_FAILED, exit_code=1)
            over(current(), EndReason.RECORDING_FAILED)
            return
        try:
            target = await self._engine.dial(opening, permit, start, since=since)
        except SessionAborted as end:
            await self._engine.close(opened, end.reason, exit_code=1)
            return
        except PosternError as error:
            self._engine.turned_away(error)
            opened.recording.record([Note(f"the target cannot be used: {error.message}")], 0)
            is_away = isinstance(error, Unavailable) and not isinstance(error, TargetRefused)
            await self._engine.close(opened, EndReason.FAILED, exit_code=AWAY if is_away else 1)
            return
        try:
            bound = await bind_script(permit.connection, session.script or "", invocation.parameters)
            database = target.parameters.get("database", "")
            script = await asyncio.to_thread(make_client, permit.connection, bound, database)
        except Invalid as error:  # its parameters were checked; the connection's subtype has changed since
            target.stream.close()
            target.release()
            opened.recording.record([Note(f"the script cannot be run: {error.message}")], 0)
            await self._engine.close(opened, EndReason.FAILED, exit_code=1)
            return
        client = _ScriptClient(script)
        stream = StreamHandshake()
        stream.connection_made(client.transport)
        asyncio.get_running_loop().call_soon(client.start)
        await self._engine.run(opened, stream, target, since=since, exit_code=script.exit_code)
