"""A session with several links, one after another and at the same time. HTTP has one link for each request that runs.

    Engine.share ─▶ registered ─┬─ Engine.dial_again, Engine.run_link: any number of times ─┐
                                └─ kill, expiry, changed policies, idle: by LinkRegistry ───┴─▶ end ─▶ closed

The links share the row, the recording, the permit and the counters. What ends the session ends all of them. A link that
ends for a reason of its own ends alone.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final
from uuid import UUID

from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import EndReason
from postern.domain.targets.target_schema import TargetSchema
from postern.errors import RecordingFailed
from postern.gateway.link_registry import idle_text, is_idle
from postern.gateway.opened_session import OpenedSession
from postern.gateway.rules.target_schemas import next_reading
from postern.gateway.session_opening import PendingSession, SessionAborted
from postern.interception.events import Note
from postern.interception.pipeline import Pipeline, SessionView
from postern.protocols.wire_base import ACCESS_ENDED, KILLED, Side
from postern.relay.driver import Driver, clock_since

log = logging.getLogger(__name__)

# SQLSTATEs for the wires. A client can try again by itself, except after these reasons.
_SHUTDOWN: Final = "57P01"
_CODES: Final = {EndReason.KILLED: KILLED, EndReason.REVOKED: ACCESS_ENDED, EndReason.EXPIRED: ACCESS_ENDED}

MAX_EXCHANGE: Final = (1 << 32) - 1  # number of an exchange in recordings


class SharedSession:
    """The session; a `RunningSession`. It can be without a link, and still be killed, expire and be idle.

    `longest` and `idle` are in seconds: the maximum duration, and the time without an exchange after which it ends.
    """

    def __init__(
        self,
        opened: OpenedSession,
        *,
        longest: float,
        idle: float,
        schema: Callable[[Permit], Awaitable[TargetSchema | None]] | None = None,
        schema_until: float = math.inf,
    ) -> None:
        self.opened = opened
        self.permit = opened.permit
        self.schema_until = schema_until
        self.end_reason: EndReason | None = None
        self.end_text = ""
        self.renewing = asyncio.Lock()
        self.done: asyncio.Future[EndReason] = asyncio.get_running_loop().create_future()
        self._longest = longest
        self._idle = idle
        self._schema = schema
        self._links: dict[Driver, SessionView] = {}
        self._openings: set[PendingSession] = set()
        self._read = dict.fromkeys(Side, 0)  # bytes, of links that have ended
        self._running = 0  # exchanges
        self._exchanges = 0
        self._used_at = time.monotonic()

    # For the owner of its links

    def begin_exchange(self) -> None:
        """Begin an exchange: the session is not idle until `end_exchange`. Raises SessionAborted when the session has
        ended."""
        self.require_running()
        self._running += 1

    def end_exchange(self) -> None:
        """End an exchange that was begun."""
        self._running -= 1
        self._used_at = time.monotonic()

    def next_number(self) -> int:
        """Return the number of an exchange that begins now, unique in the session, and higher than all before. Raises
        SessionAborted when the session has ended."""
        if self._exchanges == MAX_EXCHANGE:
            self.end(EndReason.COMPLETED, "this session has the maximum number of requests; send it again")
        self.require_running()
        self._exchanges += 1
        return self._exchanges

    def require_running(self) -> None:
        """Raises SessionAborted when the session has ended."""
        if self.end_reason is not None:
            raise SessionAborted(self.end_reason, self.end_text)

    # For the engine

    @contextmanager
    def opening(self) -> Iterator[PendingSession]:
        """Register a link that is being dialled. Raises SessionAborted when the session has ended."""
        self.require_running()
        opening = PendingSession(self.session_id)
        self._openings.add(opening)
        try:
            yield opening
        finally:
            self._openings.discard(opening)

    def link_view(self) -> SessionView:
        """Return the view of a new link: what belongs to the answers of one link is its own, counters are shared."""
        return replace(self.opened.view, notes=[], marks=[], carried_over={}, resolve_name=None, parsed=0)

    def add(self, driver: Driver, view: SessionView) -> None:
        self._links[driver] = view

    def remove(self, driver: Driver) -> None:
        if self._links.pop(driver, None) is None:
            return
        self._read[Side.CLIENT] += driver.client_bytes
        self._read[Side.TARGET] += driver.target_bytes
        self._settle()

    def note(self, note: Note) -> None:
        """Record a note. If that fails, the session ends."""
        try:
            self.opened.recording.record([note], clock_since(self.opened.started)())
        except RecordingFailed as error:
            log.error("session %s ends: its recording could not be written: %s", self.session_id, error.message)
            self.end(EndReason.RECORDING_FAILED, "the gateway cannot record this session, so it ends")

    # For the registry

    @property
    def session_id(self) -> UUID:
        return self.opened.id

    @property
    def view(self) -> SessionView:
        return self.opened.view

    @property
    def deadline(self) -> float:
        return self.opened.started + min(self._longest, self.permit.policy.max_duration or self._longest)

    def end(self, reason: EndReason, message: str) -> None:
        if self.end_reason is not None:
            return
        self.end_reason, self.end_text = reason, message
        for opening in list(self._openings):
            opening.end(reason, message)
        for driver in list(self._links):
            driver.end(reason, message, _CODES.get(reason, _SHUTDOWN))
        self._settle()

    def _settle(self) -> None:
        if self.end_reason is None or self._links or self.done.done():
            return
        metrics = self.opened.view.metrics
        metrics.client_bytes, metrics.target_bytes = self._read[Side.CLIENT], self._read[Side.TARGET]
        self.done.set_result(self.end_reason)

    def adopt(self, permit: Permit, pipeline: Callable[[Permit, SessionView], Pipeline]) -> None:
        before, self.permit = self.permit, permit
        if permit.policy != before.policy:
            for driver, view in self._links.items():
                driver.renew(pipeline(permit, view))

    def end_if_idle(self, limit: float) -> None:
        limit_of_all = min(limit, self._idle) if limit and self._idle else limit or self._idle
        if limit_of_all and not self._running and time.monotonic() - self._used_at >= limit_of_all:
            self.end(EndReason.IDLE, idle_text(limit_of_all))
            return
        for driver in list(self._links):
            if is_idle(driver, limit):
                driver.end(EndReason.IDLE, f"this connection was idle: {idle_text(limit)}")

    def read_bytes(self, side: Side) -> int:
        return self._read[side] + sum(
            driver.client_bytes if side is Side.CLIENT else driver.target_bytes for driver in self._links
        )

    async def read_schema(self) -> None:
        if self._schema is None:
            return
        self.schema_until = math.inf  # no concurrent reading
        schema = await self._schema(self.permit) or self.view.schema
        for view in (self.view, *self._links.values()):
            view.schema = schema
        self.schema_until = next_reading(self.permit, schema)


class SharedSessions:
    """The tasks that close the shared sessions of one worker once they have ended."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, closing: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(closing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self, grace: float) -> None:
        """Wait until sessions that have ended are closed; at most `grace` seconds."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=grace)
