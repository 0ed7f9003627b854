"""The outgoing queue of a tunnel: frames are joined to messages, and streams wait for room.

     control frames, DATA of streams ─▶ parts ──(end of the read, end of the turn, or EAGER bytes)──▶ one message
                                          │ full: only control frames are added, at most MAX_UNSENT bytes
                                          ▼
     streams with more to send ─▶ ring, one quantum each in turn, while there is room

Every byte is copied once, into the message, which has space for the WebSocket's header.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from postern.transport.frames import DATA, MAX_DATA, header

HEADROOM: Final = 14  # bytes before each message: the longest header of a WebSocket frame (RFC 6455, section 5.2)
EAGER: Final = 32 * 1024  # bytes that are sent without waiting for the end of the turn
MESSAGE: Final = 512 * 1024  # bytes of the largest message
MAX_UNSENT: Final = 4 << 20  # bytes of control frames that a peer may leave unread before the tunnel is closed

_ROOM: Final = bytes(HEADROOM)
_empty: Final = bytearray()


class StreamSender:
    """A sender that may have to wait for room."""

    def __init__(self) -> None:
        self.waiting = False  # in the ring

    def pump(self, quantum: int) -> bool:
        """Send about `quantum` bytes at most. Return False if there is more, and only the tunnel's lack of room
        prevents it."""
        raise NotImplementedError


class SendQueue:
    """The queue. `overflow` is called when the peer reads nothing, and the control frames for it exceed MAX_UNSENT."""

    def __init__(self, loop: asyncio.AbstractEventLoop, overflow: Callable[[], None]) -> None:
        self.full = False  # the connection accepts no more for now
        self._loop = loop
        self._overflow = overflow
        self._send: Callable[[bytearray], None] | None = None
        self._parts: list[bytes | memoryview] = [_ROOM]
        self._size = 0
        self._ticking = False
        self._corked = False
        self._ring: deque[StreamSender] = deque()
        self._stopped = False

    @property
    def unsent(self) -> int:
        """Return the bytes that wait for the end of the turn, or for room."""
        return self._size

    def attach(self, send: Callable[[bytearray], None]) -> None:
        """Set the carrier: `send` takes whole messages, each after HEADROOM bytes that it can overwrite."""
        self._send = send

    def cork(self) -> None:
        """Collect frames until `uncork`, unless there are many: the caller takes only a moment."""
        self._corked = True

    def uncork(self) -> None:
        self._corked = False
        if self._ring:
            self._tick_later()
        self.flush()

    def stop(self) -> None:
        """Stop sending."""
        self._stopped = True
        self._parts = [_ROOM]
        self._size = 0
        self._ring.clear()

    def frame(self, kind: int, stream: int, payload: bytes = b"") -> None:
        self._parts.append(header(kind, stream, len(payload)))
        if payload:
            self._parts.append(payload)
        self._handle_added(len(payload))

    def data(self, stream: int, data: bytes | memoryview) -> None:
        """Queue data: MAX_DATA bytes at most, which must not change any more."""
        self._parts.append(header(DATA, stream, len(data)))
        self._parts.append(data)
        self._handle_added(len(data))

    def flush(self) -> None:
        """Send what was collected, unless the connection is full."""
        if not self.full:
            self._send_all()

    def finish(self) -> None:
        """Send what was collected even if the connection is full, and nothing after it."""
        self._send_all()
        self.stop()

    def wait(self, sender: StreamSender) -> None:
        """Pump the sender when there is room, after the others that wait."""
        if not sender.waiting and not self._stopped:
            sender.waiting = True
            self._ring.append(sender)
            self._tick_later()

    def pause(self) -> None:
        self.full = True

    def resume(self) -> None:
        self.full = False
        self.flush()
        self._go_round()
        self.flush()

    def _send_all(self) -> None:
        if self._size and self._send is not None:
            parts = self._parts
            self._parts = [_ROOM]
            size, self._size = self._size, 0
            if size <= MESSAGE:
                self._send(_empty.join(parts))
                return
            whole = b"".join(parts)
            for start in range(HEADROOM, len(whole), MESSAGE):
                self._send(bytearray(_ROOM + whole[start : start + MESSAGE]))

    def _handle_added(self, size: int) -> None:
        self._size += size + 8
        if self._stopped:
            self.stop()
        elif self.full:
            if self._size > MAX_UNSENT:
                self._overflow()
        elif self._size >= EAGER:
            self.flush()
        else:
            self._tick_later()

    def _tick_later(self) -> None:
        if not self._ticking and not self.full and not self._corked:
            self._ticking = True
            self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._ticking = False
        self._go_round()
        self.flush()

    def _go_round(self) -> None:
        """Serve the ring once. A sender with more data continues in the next turn of the loop, after other work."""
        for _ in range(len(self._ring)):
            if self.full or not self._ring:
                break
            sender = self._ring.popleft()
            sender.waiting = False
            if not sender.pump(MAX_DATA):
                self.wait(sender)
