"""The state of a stream: its credit, its queue, its buffer for a protocol that does not read, and its end.

     write ─▶ queue ──(credit of the peer, room in the tunnel)──▶ DATA        DATA ──▶ protocol.data_received
              │ above the high-water mark: protocol.pause_writing             │ paused, or an end before: held,
                                                                              ▼ and the peer gets no new credit

The peer can have one window of unread bytes in flight (`stream_windows.py`). So a protocol that stops reading costs at
most its window here, plus HIGH_WATER and one write at the peer, and delays no other stream.

There are two state charts: for our own end of the stream, and for the peer's:

     OPEN ──write_eof──▶ ENDING ──queue is empty──▶ ENDED       SENDS ──END──▶ END_HELD ──told──▶ TOLD
     any of these ──close──▶ CLOSING ──queue is empty──▶ LOST   any ──CLOSE──▶ CLOSE_HELD ──told──▶ TOLD, and LOST
                                                                END_HELD ──CLOSE──▶ BOTH_HELD ──told of both──▶ TOLD
     any of these four ──CLOSE of the peer──▶ GONE ──told──▶ LOST
     any ──reset, or the tunnel is lost──▶ LOST

The protocol is told of the peer's end once it has received everything before, even if it has paused: nothing is left
that it could resume for. In GONE and LOST the tunnel has forgotten the stream. Compiled (decision 0007); `stream.py` is
its asyncio transport.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from postern.errors import ProtocolViolation
from postern.transport.frames import CLOSE, CREDIT, END, MAX_DATA, RESET
from postern.transport.send_queue import SendQueue, StreamSender
from postern.transport.stream_windows import WINDOW, StreamWindow, Windows

log = logging.getLogger(__name__)

HIGH_WATER: Final = 64 * 1024  # bytes in the queue
LOW_WATER: Final = 16 * 1024
LINGER: Final = 60.0  # seconds that a peer can read nothing of the remaining data after `close`
_MOST_CREDIT: Final = 1 << 40
_REASON: Final = 1000  # bytes
_SMALL: Final = 4096  # bytes that are buffered as one piece


class LocalEnd(Enum):
    """Our end of a stream. ENDING and ENDED: `write_eof` was called; CLOSING: `close` was called; GONE: the peer has
    closed it, and the protocol was not told yet; LOST: `connection_lost` was called, or will be in the next turn."""

    OPEN = "open"
    ENDING = "ending"
    ENDED = "ended"
    CLOSING = "closing"
    GONE = "gone"
    LOST = "lost"


class PeerEnd(Enum):
    """The peer's end of a stream. HELD: the protocol was not told yet."""

    SENDS = "sends"
    END_HELD = "end held"
    CLOSE_HELD = "close held"
    BOTH_HELD = "end and close held"
    TOLD = "told"


# Compiled code reads a Final name without a lookup in the class.
_OPEN: Final = LocalEnd.OPEN
_ENDING: Final = LocalEnd.ENDING
_ENDED: Final = LocalEnd.ENDED
_CLOSING: Final = LocalEnd.CLOSING
_GONE: Final = LocalEnd.GONE
_LOST: Final = LocalEnd.LOST
_SENDS: Final = PeerEnd.SENDS
_END_HELD: Final = PeerEnd.END_HELD
_CLOSE_HELD: Final = PeerEnd.CLOSE_HELD
_BOTH_HELD: Final = PeerEnd.BOTH_HELD
_TOLD: Final = PeerEnd.TOLD


class StreamState(StreamSender):
    """The state. `lanes` are all live streams of the tunnel, by number; a stream that is over is removed."""

    def __init__(
        self,
        number: int,
        lanes: dict[int, StreamState],
        outbox: SendQueue,
        loop: asyncio.AbstractEventLoop,
        windows: Windows,
    ) -> None:
        super().__init__()
        self.number = number
        self.on_gone: Callable[[], None] | None = None
        self._state: LocalEnd = _OPEN
        self._peer: PeerEnd = _SENDS
        self._lanes = lanes
        self._outbox = outbox
        self._loop = loop
        self._protocol: asyncio.Protocol | None = None
        self._give: Callable[[bytes], object] | None = None
        # To the peer. Before it is opened there is no credit on either side.
        self._credit = 0
        self._queue: deque[bytes] = deque()
        self._sent = 0  # bytes sent of the queue's first item
        self._queued = 0
        self._high = HIGH_WATER
        self._low = LOW_WATER
        self._throttled = False  # the protocol was told to pause
        self._owes_end = False  # `write_eof` was called, and the peer was not told yet, even if `close` followed
        self._left = 0  # bytes in the queue at the last `linger`
        self._left_since = 0.0
        # From the peer
        self._window = StreamWindow(windows)
        self._allowance = 0  # bytes that it may still send
        self._taken = 0  # bytes since the last CREDIT
        self._held: deque[bytes] = deque()
        self._reading = True

    @property
    def gone(self) -> bool:
        """Return True if nothing can be sent on it, and the peer sends nothing more."""
        return self._state is _GONE or self._state is _LOST

    # For the transport

    def set_protocol(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        self._give = protocol.data_received
        self._deliver_later()
        if self._throttled:
            self._call(protocol.pause_writing)

    def protocol(self) -> asyncio.Protocol | None:
        return self._protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        chunk = data if isinstance(data, bytes) else bytes(memoryview(data))
        size = len(chunk)
        if size == 0 or self._state is not _OPEN:
            return
        if self._queued == 0 and size <= self._credit and size <= MAX_DATA and not self._outbox.full:
            self._credit -= size
            self._outbox.data(self.number, chunk)
            return
        self._queue.append(chunk)
        self._queued += size
        if not self.waiting and not self.pump(MAX_DATA):
            self._outbox.wait(self)
        if self._queued > self._high and not self._throttled and self._protocol is not None:
            self._throttled = True
            self._call(self._protocol.pause_writing)

    def queued_bytes(self) -> int:
        return self._queued

    def limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_limits(self, low: int, high: int) -> None:
        self._low, self._high = low, high

    def write_eof(self) -> None:
        if self._state is _OPEN:
            self._state = _ENDING
            self._owes_end = True
            self._handle_drain()

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._deliver_later()

    def is_closing(self) -> bool:
        return self._state is _CLOSING or self._state is _LOST

    def close(self) -> None:
        """Close after everything written was sent; nothing more is received."""
        if self.is_closing():
            return
        dropped = 0
        while self._held:
            dropped += len(self._held.popleft())
        self._window.close()
        self._left, self._left_since = self._queued, self._loop.time()
        if self._state is _GONE:
            self._lose(None)
            return
        self._state = _CLOSING
        self._take(dropped)
        self._handle_drain()

    def reset(self, reason: str) -> None:
        """Abort at once: unsent data is dropped, and the peer gets the reason."""
        if not self.gone:
            self._outbox.frame(RESET, self.number, reason.encode(errors="replace")[:_REASON])
        self._lose(None)

    # For the tunnel

    def open(self, protocol: asyncio.Protocol, transport: asyncio.Transport) -> None:
        """Start the stream: both sides have agreed."""
        self._protocol = protocol
        self._credit = self._allowance = WINDOW
        self._call_with(protocol.connection_made, transport)
        if self._protocol is protocol:  # it may have handed the transport over
            self._give = protocol.data_received
        if self._queued and not self.waiting and not self.pump(MAX_DATA):
            self._outbox.wait(self)

    def pump(self, quantum: int) -> bool:
        while self._queued and self._credit and quantum > 0 and not self._outbox.full:
            chunk = self._queue[0]
            rest = len(chunk) - self._sent
            size = min(rest, self._credit, MAX_DATA)
            piece: bytes | memoryview = chunk
            if size < len(chunk):
                piece = memoryview(chunk)[self._sent : self._sent + size]
            if size == rest:
                self._queue.popleft()
                self._sent = 0
            else:
                self._sent += size
            self._credit -= size
            self._queued -= size
            quantum -= size
            self._outbox.data(self.number, piece)
        self._handle_drain()
        return self._queued == 0 or self._credit == 0

    def receive_credit(self, payload: bytes) -> None:
        """Handle CREDIT. Raises ProtocolViolation."""
        if len(payload) != 4:
            raise ProtocolViolation("the peer sent an invalid credit frame")
        self._credit += int.from_bytes(payload, "big")
        if self._credit > _MOST_CREDIT:
            raise ProtocolViolation("the peer sent too much credit")
        if self._queued and not self.waiting and not self.pump(MAX_DATA):
            self._outbox.wait(self)

    def receive_data(self, data: bytes) -> None:
        """Handle DATA. Raises ProtocolViolation when the peer exceeds its credit."""
        size = len(data)
        self._allowance -= size
        if self._allowance < 0 or self._peer is not _SENDS:
            raise ProtocolViolation("the peer sent more than its credit allows, or after its end")
        if self._state is _CLOSING:
            # No protocol reads it any more. The peer gets credit anyway: it may have to send before it reads what is
            # still on its way.
            self._take(size)
        elif self._reading and self._give is not None and not self._held:
            self._hand(data)
        else:
            self._hold(data)

    def receive_end(self) -> None:
        """Handle END. Raises ProtocolViolation for a second one."""
        if self._peer is not _SENDS or self._protocol is None:
            raise ProtocolViolation("the peer ended a stream twice, or before it was open")
        self._peer = _END_HELD
        self._deliver()

    def receive_close(self) -> None:
        """Handle CLOSE: the peer has closed, after all of its data."""
        self._peer = _BOTH_HELD if self._peer is _END_HELD else _CLOSE_HELD
        self._drop_queue()
        self._forget(_GONE)
        self._handle_drain()  # a writer that waits before it reads must not wait any longer
        self._deliver()

    def handle_loss(self, error: Exception | None) -> None:
        """End at once: reset by the peer, or the tunnel is lost."""
        self._lose(error)

    def linger(self, now: float) -> None:
        """Abort a closed stream whose peer reads nothing of the rest. Called every few seconds."""
        if self._state is not _CLOSING or self._queued == 0:
            return
        if self._queued < self._left:
            self._left, self._left_since = self._queued, now
        elif now - self._left_since >= LINGER:
            self.reset("it was closed, and its remaining data was not read")

    # Internal

    def _hold(self, data: bytes) -> None:
        """Buffer data. Small pieces are joined, so that a peer that sends single bytes does not cost an object for
        each."""
        self._window.waited = True
        chunks = self._held
        if chunks and len(chunks[-1]) + len(data) <= _SMALL:
            chunks[-1] += data
        else:
            chunks.append(data)

    def _deliver_later(self) -> None:
        if self._held or (self._peer is not _SENDS and self._peer is not _TOLD):
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        while self._held and self._reading and self._give is not None:
            self._hand(self._held.popleft())
        protocol = self._protocol
        if self._held or protocol is None or self._state is _LOST:
            return
        if self._peer is _END_HELD:
            self._peer = _TOLD
            if self._state is not _CLOSING and not self._call(protocol.eof_received):
                self.close()
            return
        if self._peer is _BOTH_HELD:
            self._peer = _CLOSE_HELD
            if self._state is not _CLOSING:
                self._call(protocol.eof_received)
        if self._peer is _CLOSE_HELD:
            self._peer = _TOLD
            self._state = _LOST
            self._window.close()
            self._tell_lost(None)

    def _hand(self, data: bytes) -> None:
        assert self._give is not None
        try:
            self._give(data)
        except Exception:
            self._handle_failure()
            return
        self._take(len(data))

    def _take(self, size: int) -> None:
        self._taken += size
        if self._taken >= self._window.part and self._peer is _SENDS and not self.gone:
            credit = self._taken
            self._taken = 0
            if self._state is not _CLOSING:
                credit = self._window.renew(credit, len(self._held) > 0)
            if credit:
                self._allowance += credit
                self._outbox.frame(CREDIT, self.number, credit.to_bytes(4, "big"))

    def _handle_drain(self) -> None:
        if self._throttled and self._queued <= self._low:
            self._throttled = False
            if self._protocol is not None:
                self._call(self._protocol.resume_writing)
        if self._queued:
            return
        if self._state is _CLOSING:
            self._send_end()
            self._outbox.frame(CLOSE, self.number)
            self._lose(None)
        elif self._state is _ENDING:
            self._state = _ENDED
            self._send_end()

    def _send_end(self) -> None:
        if self._owes_end:
            self._owes_end = False
            self._outbox.frame(END, self.number)

    def _lose(self, error: Exception | None) -> None:
        was_lost = self._state is _LOST
        self._drop_queue()
        self._held.clear()
        self._window.close()
        self._forget(_LOST)
        if not was_lost:
            self._loop.call_soon(self._tell_lost, error)

    def _drop_queue(self) -> None:
        self._queue.clear()
        self._queued = self._sent = 0

    def _forget(self, state: LocalEnd) -> None:
        """Remove the stream from the tunnel: GONE or LOST."""
        was_gone = self.gone
        self._state = state
        if not was_gone:
            self._lanes.pop(self.number, None)
            if self.on_gone is not None:
                self.on_gone()

    def _tell_lost(self, error: Exception | None) -> None:
        protocol, self._protocol, self._give = self._protocol, None, None
        if protocol is not None:
            self._call_with(protocol.connection_lost, error)

    def _call(self, call: Callable[[], object]) -> bool:
        """Call a protocol. Its exception must not affect other streams."""
        try:
            return bool(call())
        except Exception:
            self._handle_failure()
            return True

    def _call_with(self, call: Callable[[Any], object], value: object) -> None:
        try:
            call(value)
        except Exception:
            self._handle_failure()

    def _handle_failure(self) -> None:
        log.exception("a stream of a tunnel failed and was ended")
        self.reset("it failed on the other side")
