"""What leaves by a tunnel: frames gathered to messages, and the streams that wait for room.

     control frames, DATA of streams ─▶ parts ──(end of the read, end of the turn, or EAGER bytes)──▶ one message
                                          │ full: only control frames are added, at most MAX_UNSENT bytes
                                          ▼
     streams with more to send ─▶ ring, one quantum each in turn, while there is room

Every byte is copied once, into the message, which leaves room for the header that the WebSocket puts before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from postern.transport.frames import DATA, MAX_DATA, header

HEADROOM: Final = 14  # bytes before each message: the longest header of a WebSocket frame (RFC 6455, section 5.2)
EAGER: Final = 32 * 1024  # bytes that are not kept for the end of the turn
MESSAGE: Final = 512 * 1024  # bytes of the largest message
MAX_UNSENT: Final = 4 << 20  # bytes of control frames that a peer may leave unread before it is given up

_ROOM: Final = bytes(HEADROOM)
_empty: Final = bytearray()


class StreamSender:
    """Something that may have to wait for room."""

    def __init__(self) -> None:
        self.waiting = False  # in the ring

    def pump(self, quantum: int) -> bool:
        """Sends up to about `quantum` bytes. False: there is more, and only the tunnel is in its way."""
        raise NotImplementedError


class SendQueue:
    """`overflow` is called when the peer reads nothing, and yet more control frames are due to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, overflow: Callable[[], None]) -> None:
        self.full = False  # the connection takes no more for now
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
        """Bytes that wait for the end of the turn, or for room."""
        return self._size

    def attach(self, send: Callable[[bytearray], None]) -> None:
        """`send` takes whole messages, each behind HEADROOM bytes that it may write to."""
        self._send = send

    def cork(self) -> None:
        """Keeps what is gathered until `uncork`, unless it is much: the caller goes on for a moment only."""
        self._corked = True

    def uncork(self) -> None:
        self._corked = False
        if self._ring:
            self._tick_later()
        self.flush()

    def stop(self) -> None:
        """Nothing leaves any more."""
        self._stopped = True
        self._parts = [_ROOM]
        self._size = 0
        self._ring.clear()

    def frame(self, kind: int, stream: int, payload: bytes = b"") -> None:
        self._parts.append(header(kind, stream, len(payload)))
        if payload:
            self._parts.append(payload)
        self._added(len(payload))

    def data(self, stream: int, data: bytes | memoryview) -> None:
        """At most MAX_DATA bytes, that nobody changes any more."""
        self._parts.append(header(DATA, stream, len(data)))
        self._parts.append(data)
        self._added(len(data))

    def flush(self) -> None:
        """Sends what was gathered, unless the connection is full."""
        if not self.full:
            self._send_all()

    def finish(self) -> None:
        """Sends what was gathered in any case, and nothing after it."""
        self._send_all()
        self.stop()

    def wait(self, sender: StreamSender) -> None:
        """It is pumped when there is room, after the others that wait for it."""
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

    def _added(self, size: int) -> None:
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
        """One turn: who has more to send comes again in the next turn of the loop, after what others do in it."""
        for _ in range(len(self._ring)):
            if self.full or not self._ring:
                break
            sender = self._ring.popleft()
            sender.waiting = False
            if not sender.pump(MAX_DATA):
                self.wait(sender)
