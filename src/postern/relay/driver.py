"""The driver connects the sockets of a session to its link. No other module does.

    client transport ─ data_received ─▶ link.receive(CLIENT) ─▶ effects ─▶ record, then write to the target
    target transport ─ data_received ─▶ link.receive(TARGET) ─▶ effects ─▶ record, then write to the client

One read is one synchronous call and at most one write per side. A failed record ends the session.

Back-pressure: a side that does not drain what we write pauses reading from the other side. A client that does not drain
also pauses reading from itself, because refusals are answers to what it sends.

The link discards the rest of a response that it refused. The target is then asked to stop, and nothing is read from
either side until it was asked, so that no later request is cancelled by mistake:

    RUNS ──link.discarding_response──▶ STOPPING ──target asked, or STOP elapsed──▶ STOPPED ──next response──▶ RUNS
                                     no side is read

Where the protocol is half-open (`Wire.half_open`), the end of one direction is passed on, and the other continues:

    both open ──one side ends──▶ one direction ──the other side ends──▶ closed, once everything was read
     any of these ──a side is lost before its end, kill, limit──▶ reset: no side takes what it has for complete

A session that is ending has `_closing` set, whatever the other states are. Three waits have a timer each, and they do
not cancel each other: `_releasing` for output that the wire buffers and for paused input, `_batch_timer` for the rest
of a batch, and `_timers` for the end of the session.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from postern.domain.sessions.session import EndReason
from postern.errors import RecordingFailed
from postern.interception.events import Event
from postern.interception.pipeline import Pipeline
from postern.interception.verdicts import Refuse, Verdict, Warn
from postern.protocols.wire_base import Side
from postern.relay.link import Clock, Close, Effect, HoldEffect, Link, Record, Send
from postern.transport.resets import reset_when_closed
from postern.transport.stream import Stream

log = logging.getLogger(__name__)

# Seconds that the target can still answer after the client half-closed or vanished; then the request is cancelled.
LINGER = 5.0
# Seconds that a closing side has to read what it was sent.
FLUSH = 5.0
# Seconds for which a side can read nothing of the rest, after a half-open link has ended in both directions.
STALLED: Final = 60.0
# Seconds that asking a target to stop can pause the link.
STOP = 5.0
# Bytes that a client can send after a held request. Beyond that it is no longer read, so its disconnect goes unnoticed.
MAX_BEHIND: Final = 64 * 1024
# A partial response is sent once the target was quiet for QUIET seconds, or LONGEST_WAIT after it began to wait.
QUIET, LONGEST_WAIT = 0.03, 0.25
# Paused client input resumes once the target has answered and is quiet, or after this many seconds.
SETTLING: Final = 1.0
# Seconds after the client's last byte to wait for the rest of an incomplete batch, where rules judge the whole batch.
# The wait is longer where a rule can require a review: after a part has run, a review is impossible.
BATCH_QUIET: Final = 0.05
REVIEWED_BATCH_QUIET: Final = 1.0
# A client that never pauses waits at most this many times as long for what it has sent of a batch.
LONGEST_BATCH: Final = 5

# Compiled code reads a Final name without a lookup in the class.
_CLIENT: Final = Side.CLIENT
_TARGET: Final = Side.TARGET
_monotonic: Final = time.monotonic


_GIVEN_UP: Final = Refuse("cancelled", "the request was cancelled while it was held, so it did not run")


_END_OF: Final = {
    Side.CLIENT: (EndReason.CLIENT_CLOSED, "the client closed the connection"),
    Side.TARGET: (EndReason.TARGET_CLOSED, "the target closed the connection"),
}


def _cut_off(transport: asyncio.Transport, reason: str) -> None:
    """Close a side that would take an end for the regular one. Through a tunnel it gets the reason, unless that would
    drop data."""
    if isinstance(transport, Stream) and not transport.get_write_buffer_size():
        transport.reset(reason)
        return
    reset_when_closed(transport)
    if transport.get_extra_info("ssl_object") is None:
        transport.close()
    else:
        transport.abort()  # closing TLS would tell the peer that it has everything


def clock_since(started: float) -> Clock:
    """Return a clock of microseconds since `started`, a time of the monotonic clock. It is read for each chunk, so it
    is in this compiled module."""

    def micros() -> int:
        return int((_monotonic() - started) * 1_000_000)

    return micros


class StopState(Enum):
    """Progress of stopping a response that the link discards."""

    RUNS = "runs"
    STOPPING = "stopping"
    STOPPED = "stopped"


_RUNS: Final = StopState.RUNS
_STOPPING: Final = StopState.STOPPING
_STOPPED: Final = StopState.STOPPED


class Recording(Protocol):
    """Destination of a session's events, in one write. Raises RecordingFailed when they could not be stored."""

    def record(self, events: list[Event], micros: int) -> None: ...


class Driver:
    """Runs one link until both sides are closed, then sets `done` to the reason.

    `clock` gives microseconds since the session's start. `cancel_target` asks the target to stop the running request;
    its future is done once it was asked. `on_park` is called with each held request.
    """

    def __init__(
        self,
        link: Link,
        recording: Recording,
        *,
        clock: Clock,
        cancel_target: Callable[[], asyncio.Future[None]],
        on_park: Callable[[Driver, HoldEffect], None] | None = None,
    ) -> None:
        self.link = link
        self.done: asyncio.Future[EndReason] = asyncio.get_running_loop().create_future()
        self.cancel_target = cancel_target
        self._record = recording.record
        self._clock = clock
        self._on_park = on_park
        self._client: asyncio.Transport | None = None
        self._target: asyncio.Transport | None = None
        self._throttled: set[Side] = set()
        self._closing: EndReason | None = None
        self._finished: list[Side] = []  # sides of a half-open link that send no more, in this order
        self._is_complete = False  # a half-open link has ended in both directions
        self._client_ended = False  # the client sends no more, and waits for the rest of its answers
        self._timers: list[asyncio.TimerHandle] = []
        self._releasing: asyncio.TimerHandle | None = None
        self._withheld_since = 0.0
        self._settled_by = 0.0
        self._open_batch = 0  # the incomplete batch that the timer belongs to
        self._batch_deadline = 0.0
        self._batch_timer: asyncio.TimerHandle | None = None
        self._answer: StopState = _RUNS
        self._behind = 0  # bytes that the client sent after a held request
        self.on_settled: Callable[[], None] | None = None  # called when a held request was decided
        self.client_bytes = 0  # bytes read so far
        self.target_bytes = 0

    def attach(self, side: Side, transport: asyncio.Transport) -> None:
        """Set the transport that is written to for this side. A `LinkEndpoint` reports its events."""
        if side is _CLIENT:
            self._client = transport
        else:
            self._target = transport

    @property
    def idle(self) -> float:
        """Return the seconds since either side last sent something."""
        return (self._clock() - self.link.now) / 1_000_000

    # Callbacks of the transports

    def from_client(self, data: bytes) -> None:
        self.client_bytes += len(data)
        link = self.link
        is_behind, settled = link.held_request is not None, link.input_paused
        self._perform(link.receive(_CLIENT, data))
        if link.input_paused and not settled:
            self._let_settle()
        self._wait_for_batch()
        if is_behind:
            self._behind += len(data)
            self._apply_reading()
            if link.interrupts_held_request:
                self.cancel()

    def from_target(self, data: bytes) -> None:
        self.target_bytes += len(data)
        self._perform(self.link.receive(_TARGET, data))
        if self.link.input_paused:
            self._release_in(min(QUIET, max(self._settled_by - _monotonic(), 0.0)))
        elif self.link.has_buffered_output:
            self._release_soon()
        if self.link.discarding_response:
            self._stop()
        elif self._answer is _STOPPED:
            self._answer = _RUNS
        if self._client_ended and not self.link.awaiting_response:
            self._close(EndReason.CLIENT_CLOSED)

    def _stop(self) -> None:
        """Ask the target to stop a response that is discarded. No side is read until it was asked, so that no later
        request is stopped by mistake."""
        if self._answer is not _RUNS or self._closing is not None:
            return
        self._answer = _STOPPING
        self._apply_reading()
        self.cancel_target().add_done_callback(lambda _: self._go_on())
        self._after(STOP, self._go_on)

    def _go_on(self) -> None:
        if self._answer is _STOPPING:
            self._answer = _STOPPED if self.link.discarding_response else _RUNS
        self._apply_reading()

    def _wait_for_batch(self) -> None:
        """Start, restart or stop the timer for the rest of a batch. Called after anything that may have changed the
        batch."""
        number = self.link.open_batch
        if not number and not self._open_batch:
            return
        self._stop_batch_timer()
        quiet = REVIEWED_BATCH_QUIET if self.link.may_review_batches else BATCH_QUIET
        now = _monotonic()
        if number != self._open_batch:
            self._open_batch = number
            self._batch_deadline = now + quiet * LONGEST_BATCH
        if number and self._closing is None:
            delay = quiet if self._answer is _STOPPING else min(quiet, max(self._batch_deadline - now, 0.0))
            self._batch_timer = asyncio.get_running_loop().call_later(delay, self._release_batch)

    def _release_batch(self) -> None:
        """Forward an incomplete batch whose rest does not come: the client may be waiting for an answer to what it
        sent."""
        self._stop_batch_timer()
        if self._closing is not None:
            return
        if self._answer is not _STOPPING:  # otherwise the stop could hit what is forwarded now
            self._perform(self.link.flush())
            self._apply_reading()
        self._wait_for_batch()

    def _stop_batch_timer(self) -> None:
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None

    def _release_soon(self) -> None:
        now = _monotonic()
        if self._releasing is None:
            self._withheld_since = now
        elif now - self._withheld_since > LONGEST_WAIT:
            return
        self._release_in(QUIET)

    def _let_settle(self) -> None:
        self._settled_by = _monotonic() + SETTLING
        self._release_in(SETTLING)
        self._apply_reading()

    def _release_in(self, seconds: float) -> None:
        if self._releasing is not None:
            self._releasing.cancel()
        self._releasing = asyncio.get_running_loop().call_later(seconds, self._release)

    def _release(self) -> None:
        self._releasing = None
        if self._closing is not None:
            return
        self._perform(self.link.flush())
        if self.link.input_paused:  # the next line was refused as well
            self._let_settle()
        else:
            self._apply_reading()

    def handle_eof(self, side: Side) -> bool:
        """Handle EOF from a side. Return True to keep the transport open for writing."""
        if self.link.half_open:
            return self._finish(side)
        if side is Side.TARGET:
            self._perform(self.link.target_finished())
            return False
        self._perform(self.link.client_finished())
        if not self.link.awaiting_response:
            self._close(EndReason.CLIENT_CLOSED)
        if self._closing is not None or self._is_encrypted(side):
            return False
        self._client_ended = True
        self._after(LINGER, self._abandon)
        return True

    def _finish(self, side: Side) -> bool:
        """Pass the end of one direction on. Return True to keep the transport open for writing."""
        if side not in self._finished:
            self._finished.append(side)
            self._end_direction(_TARGET if side is _CLIENT else _CLIENT)
            if len(self._finished) == len(Side):
                self._complete()
        return self._closing is None and not self._is_encrypted(side)

    def _end_direction(self, to: Side) -> None:
        transport = self._transport(to)
        if transport is None or self._closing is not None:
            return
        if transport.can_write_eof():
            transport.write_eof()
        else:
            self._after(LINGER, self._complete)

    def _complete(self) -> None:
        """Close a half-open link that has ended as its sides wanted."""
        self._is_complete = True
        reason, message = _END_OF[self._finished[0]]
        self._perform(self.link.end(reason, message, ""))

    def _is_encrypted(self, side: Side) -> bool:
        """Return True if the side uses TLS, which cannot be closed in one direction only."""
        transport = self._transport(side)
        return transport is None or transport.get_extra_info("ssl_object") is not None

    def handle_loss(self, side: Side) -> None:
        if self.link.half_open and side in self._finished:
            self._complete()
        if side is Side.TARGET:
            self._perform(self.link.target_finished())
            self._close(EndReason.TARGET_CLOSED)
            self._target = None
        else:
            self._abandon()
            self._client = None
        self._settle()

    def throttle(self, side: Side, full: bool) -> None:
        (self._throttled.add if full else self._throttled.discard)(side)
        self._apply_reading()

    # Calls from the gateway

    def end(self, reason: EndReason, message: str, code: str = "57P01", hint: str = "") -> None:
        """End the link and tell the client why. A running request is cancelled at the target."""
        if self._closing is not None:
            return
        if self.link.awaiting_response:
            self.cancel_target()
        self._perform(self.link.end(reason, message, code, hint))

    def renew(self, pipeline: Pipeline) -> None:
        self.link.renew(pipeline)

    def ask(self, warning: Warn) -> None:
        """Send the client a message about its held request."""
        self._perform(self.link.ask(warning))

    def resume(self, ticket: str, verdict: Verdict) -> None:
        """Apply the decision on the held request with this ticket."""
        self._behind = 0
        self._perform(self.link.resume(ticket, verdict))
        if self.link.input_paused:
            self._let_settle()
        self._wait_for_batch()
        self._apply_reading()
        if self.on_settled is not None:
            self.on_settled()

    def cancel(self) -> None:
        """Handle the client's cancel request: cancel the running request, or else the held one."""
        if self.link.open_batch and not self.link.awaiting_response:
            self._release_batch()
        parked = self.link.held_request
        if self.link.awaiting_response:
            if self._closing is None:
                self.cancel_target()
        elif parked is not None:
            self.resume(parked.ticket, _GIVEN_UP)

    # Effects

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                transport = self._client if effect.side is _CLIENT else self._target
                if transport is not None:
                    transport.write(effect.data)
            elif isinstance(effect, Record):
                try:
                    self._record(effect.events, effect.at)
                except RecordingFailed as error:
                    self._handle_recording_failure(error)
                    return
            elif isinstance(effect, Close):
                self._close(effect.reason, effect.message)
            else:
                self._behind = 0
                self._apply_reading()
                if self._on_park is not None:
                    self._on_park(self, effect)

    def _handle_recording_failure(self, error: RecordingFailed) -> None:
        """End the session: what cannot be recorded is neither shown nor run."""
        log.error("session %s ends: its recording could not be written: %s", self.link.session_id, error.message)
        message = "the gateway cannot record this session, so it ends"
        farewell = self.link.end_unrecorded(message, "58030")
        if farewell and self._client is not None:
            self._client.write(farewell)
        if self.link.awaiting_response:
            self.cancel_target()
        self._close(EndReason.RECORDING_FAILED, message)

    def _abandon(self) -> None:
        """Cancel what still runs for a client that has disconnected."""
        if self._closing is None:
            if self.link.awaiting_response:
                self.cancel_target()
            self._close(EndReason.CLIENT_CLOSED)

    def _close(self, reason: EndReason, message: str = "") -> None:
        if self._closing is not None:
            return
        self._closing = reason
        self._record_left_over(reason)
        is_cut = self.link.half_open and not self._is_complete
        for transport in (self._client, self._target):
            if transport is not None:
                if is_cut:
                    _cut_off(transport, message)
                    continue
                if self._is_complete and not transport.is_closing() and transport.can_write_eof():
                    transport.write_eof()  # a stream of a tunnel that is closed before its end was cut off
                transport.close()
        if self._is_complete:
            self._await_readers(self._unsent())
        else:
            self._after(FLUSH, self._abort)
        self._settle()

    def _await_readers(self, before: int) -> None:
        self._after(STALLED, lambda: self._abort_if_stalled(before))

    def _abort_if_stalled(self, before: int) -> None:
        """Abort if nothing was read since `before` bytes were unsent."""
        unsent = self._unsent()
        if 0 < unsent < before:
            self._await_readers(unsent)
        else:
            self._abort()

    def _unsent(self) -> int:
        size = 0
        for transport in (self._client, self._target):
            if transport is not None:
                size += transport.get_write_buffer_size()
        return size

    def _record_left_over(self, reason: EndReason) -> None:
        left = [] if reason is EndReason.RECORDING_FAILED else self.link.unfinished_exchanges()
        if left:
            try:
                self._record(left, self._clock())
            except RecordingFailed as error:
                log.error(
                    "session %s: unfinished requests could not be recorded: %s", self.link.session_id, error.message
                )

    def _abort(self) -> None:
        for transport in (self._client, self._target):
            if transport is not None:
                transport.abort()

    def _settle(self) -> None:
        if self._closing is None or self._client is not None or self._target is not None:
            return
        if not self.done.done():
            for timer in self._timers:
                timer.cancel()
            if self._releasing is not None:
                self._releasing.cancel()
            self._stop_batch_timer()
            self.done.set_result(self._closing)

    def _after(self, delay: float, call: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay, call))

    def _transport(self, side: Side) -> asyncio.Transport | None:
        return self._client if side is _CLIENT else self._target

    def _apply_reading(self) -> None:
        full = self._throttled
        goes_on = self._answer is not _STOPPING
        settled = not self.link.input_paused
        self._read(Side.TARGET, goes_on and Side.CLIENT not in full)
        behind = self.link.held_request is None or self._behind <= MAX_BEHIND
        # The directions of a half-open link do not depend on each other.
        is_full = _TARGET in full if self.link.half_open else bool(full)
        self._read(Side.CLIENT, goes_on and settled and not is_full and behind)

    def _read(self, side: Side, is_reading: bool) -> None:
        transport = self._transport(side)
        if transport is None or transport.is_closing() or transport.is_reading() is is_reading:
            return
        (transport.resume_reading if is_reading else transport.pause_reading)()
