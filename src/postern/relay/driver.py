"""Where sockets meet links: the only place.

    client transport ─ data_received ─▶ link.receive(CLIENT) ─▶ effects ─▶ record, then write to the target
    target transport ─ data_received ─▶ link.receive(TARGET) ─▶ effects ─▶ record, then write to the client

One read is one synchronous call and at most one write a side. Back-pressure: a side that does not
drain what we write pauses the other side's reading; a client that does not drain pauses its own
reading as well, because refusals are answers to what it sends. A failed record ends the session.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol, cast

from postern.domain.session import EndReason
from postern.errors import RecordingFailed
from postern.interception.events import Event
from postern.interception.pipeline import Pipeline
from postern.interception.verdicts import Verdict
from postern.protocols.base import Side
from postern.relay.link import Clock, Close, Effect, Link, Park, Record, Send

log = logging.getLogger(__name__)

# The client half-closed or vanished: how long the target may still answer before it is cancelled.
LINGER = 5.0
# How long a closing side may take to read what it was sent.
FLUSH = 5.0


class Recording(Protocol):
    """Where a session's events go, in one write. Raises RecordingFailed when they could not be kept."""

    def record(self, events: list[Event], micros: int) -> None: ...


class Driver:
    """Runs one link until both sides are closed; then `done` is set to the reason.

    `clock` gives microseconds since the session's start. `cancel_target` asks the target to stop the
    running request. `on_park` hears of held requests.
    """

    def __init__(
        self,
        link: Link,
        recording: Recording,
        *,
        clock: Clock,
        cancel_target: Callable[[], None],
        on_park: Callable[[Driver, Park], None] | None = None,
    ) -> None:
        self.link = link
        self.done: asyncio.Future[EndReason] = asyncio.get_running_loop().create_future()
        self.last_activity = time.monotonic()
        self.cancel_target = cancel_target
        self._recording = recording
        self._clock = clock
        self._on_park = on_park
        self._transports: dict[Side, asyncio.Transport] = {}
        self._throttled: set[Side] = set()
        self._closing: EndReason | None = None
        self._timers: list[asyncio.TimerHandle] = []

    def attach(self, side: Side, transport: asyncio.Transport) -> None:
        """From now on the side is written to by this transport; an Endpoint reports what comes of it."""
        self._transports[side] = transport

    # What the transports report

    def received(self, side: Side, data: bytes) -> None:
        self.last_activity = time.monotonic()
        self._perform(self.link.receive(side, data))

    def finished(self, side: Side) -> bool:
        """EOF. True keeps the transport open for writing."""
        if side is Side.TARGET:
            self._perform(self.link.target_finished())
            return False
        self._perform(self.link.client_finished())
        if not self.link.busy:
            self._close(EndReason.CLIENT_CLOSED)
        if self._closing is not None or self._encrypted(side):
            return False
        self._after(LINGER, self._abandon)
        return True

    def _encrypted(self, side: Side) -> bool:
        """TLS cannot be closed one way only: the end of reading is the end."""
        transport = self._transports.get(side)
        return transport is None or transport.get_extra_info("ssl_object") is not None

    def lost(self, side: Side) -> None:
        if side is Side.TARGET:
            self._perform(self.link.target_finished())
            self._close(EndReason.TARGET_CLOSED)
        else:
            self._abandon()
        self._transports.pop(side, None)
        self._settle()

    def throttle(self, side: Side, full: bool) -> None:
        (self._throttled.add if full else self._throttled.discard)(side)
        self._apply_reading()

    # What others ask for

    def end(self, reason: EndReason, message: str, code: str = "57P01", hint: str = "") -> None:
        """Ends the link: the client is told why. A running request of the target is cancelled."""
        if self._closing is not None:
            return
        if self.link.busy:
            self.cancel_target()
        self._perform(self.link.end(reason, message, code, hint))

    def renew(self, pipeline: Pipeline) -> None:
        self.link.renew(pipeline)

    def resume(self, ticket: str, verdict: Verdict) -> None:
        self._perform(self.link.resume(ticket, verdict))
        self._apply_reading()

    def cancel(self) -> None:
        """A cancel request of the client. Nothing runs: nothing to cancel."""
        if self.link.busy and self._closing is None:
            self.cancel_target()

    # Effects

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                send = cast("Send", effect)
                transport = self._transports.get(send.side)
                if transport is not None:
                    transport.write(send.data)
            elif kind is Record:
                try:
                    self._recording.record(cast("Record", effect).events, self._clock())
                except RecordingFailed as error:
                    self._unrecorded(error)
                    return
            elif kind is Close:
                self._close(cast("Close", effect).reason)
            else:
                self._apply_reading()
                if self._on_park is not None:
                    self._on_park(self, cast("Park", effect))

    def _unrecorded(self, error: RecordingFailed) -> None:
        """What cannot be recorded is not shown, nor run: the session ends here."""
        log.error("a record could not be written, so the session ends: %s", error.message)
        farewell = self.link.unrecorded("the gateway cannot record this session, so it ends", "58030")
        transport = self._transports.get(Side.CLIENT)
        if farewell and transport is not None:
            transport.write(farewell)
        if self.link.busy:
            self.cancel_target()
        self._close(EndReason.RECORDING_FAILED)

    def _abandon(self) -> None:
        """The client is gone: what still runs for it is cancelled."""
        if self._closing is None:
            if self.link.busy:
                self.cancel_target()
            self._close(EndReason.CLIENT_CLOSED)

    def _close(self, reason: EndReason) -> None:
        if self._closing is not None:
            return
        self._closing = reason
        for transport in list(self._transports.values()):
            transport.close()
        self._after(FLUSH, self._abort)
        self._settle()

    def _abort(self) -> None:
        for transport in list(self._transports.values()):
            transport.abort()

    def _settle(self) -> None:
        if self._closing is not None and not self._transports and not self.done.done():
            for timer in self._timers:
                timer.cancel()
            self.done.set_result(self._closing)

    def _after(self, delay: float, call: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay, call))

    def _apply_reading(self) -> None:
        full = self._throttled
        self._read(Side.TARGET, Side.CLIENT not in full)
        self._read(Side.CLIENT, not full and not self.link.parked)

    def _read(self, side: Side, wanted: bool) -> None:
        transport = self._transports.get(side)
        if transport is None or transport.is_closing() or transport.is_reading() is wanted:
            return
        (transport.resume_reading if wanted else transport.pause_reading)()
