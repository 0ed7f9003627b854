"""One stream of a tunnel, in the shape of an asyncio transport: logins, links and pipes run over it unchanged.

     write ─▶ queue ──(credit of the peer, room in the tunnel)──▶ DATA        DATA ──▶ protocol.data_received
              │ above HIGH_WATER: protocol.pause_writing                      │ paused, or no protocol yet: held,
                                                                              ▼ and the peer gets no new credit
The peer may have WINDOW bytes on their way that nobody has taken. A protocol that stops reading thus costs at most
WINDOW bytes here and HIGH_WATER and a write there, and not a byte of any other stream's time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Protocol

from postern.errors import ProtocolViolation
from postern.transport.frames import MAX_DATA, Kind

log = logging.getLogger(__name__)

WINDOW = 1 << 20  # bytes that either side may send before it hears of any taken
HIGH_WATER, LOW_WATER = 64 * 1024, 16 * 1024  # bytes in the queue
_GRANT = WINDOW // 4  # bytes taken that make a CREDIT worth its frame


class Tunnel(Protocol):
    """What a stream needs of its mux."""

    @property
    def full(self) -> bool:
        """Whether the connection takes no more for now; `wait_for_room` then."""

    def send(self, kind: Kind, stream: int, payload: bytes = b"") -> None: ...

    def send_data(self, stream: int, data: bytes | bytearray | memoryview) -> None: ...

    def wait_for_room(self, stream: Stream) -> None: ...

    def forget(self, stream: Stream) -> None: ...

    def about(self, name: str, default: Any) -> Any:
        """`get_extra_info` of the connection."""


class Stream(asyncio.Transport):
    """`number` is unique on its tunnel. `connection_made` is called once the stream is open."""

    def __init__(self, tunnel: Tunnel, number: int) -> None:
        super().__init__()
        self.number = number
        self._tunnel = tunnel
        self._loop = asyncio.get_running_loop()
        self._protocol: asyncio.Protocol | None = None
        self._credit = WINDOW
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._throttled = False  # the protocol was told to pause
        self._ending = False  # write_eof was called
        self._closing = False
        self._gone = False  # the tunnel knows it no more
        self._held: deque[bytes] = deque()
        self._allowance = WINDOW  # bytes that the peer may still send
        self._taken = 0  # bytes that the protocol took since the last CREDIT
        self._reading = True
        self._end: Exception | bool | None = None  # how the peer ended, told once what is held has been taken

    # asyncio.Transport

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol
        if self._held or self._end is not None:
            self._loop.call_soon(self._deliver)
        if self._throttled:
            protocol.pause_writing()

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        # The socket and its TLS belong to all streams of the tunnel.
        return default if name in ("socket", "ssl_object", "sslcontext") else self._tunnel.about(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._ending or not data:
            return
        if not self._queue and self._credit >= len(data) <= MAX_DATA and not self._tunnel.full:
            self._credit -= len(data)
            self._tunnel.send_data(self.number, data)
            return
        self._queue.append(bytes(data))
        self._queued += len(data)
        if not self.pump(MAX_DATA):
            self._tunnel.wait_for_room(self)
        if self._queued > HIGH_WATER and not self._throttled and self._protocol is not None:
            self._throttled = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self._queued

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._ending and not self._closing:
            self._ending = True
            if not self._queue:
                self._tunnel.send(Kind.END, self.number)

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            if self._held or self._end is not None:
                self._loop.call_soon(self._deliver)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """After what was written has been sent; nothing more is received."""
        self._held.clear()
        if self._end is True:
            self._loop.call_soon(self._deliver)
        if self._closing:
            return
        self._closing = True
        if not self._queue:
            self._finish()

    def abort(self) -> None:
        self.reset("the other side gave it up")

    def reset(self, reason: str) -> None:
        """Gives up at once: what was not sent is dropped, and the peer is told why."""
        if self._gone:
            self.close()
        else:
            self._tunnel.send(Kind.RESET, self.number, reason.encode()[:1000])
            self.lost(None)

    # Called by the mux

    def open(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        if self._held:
            self._deliver()

    def pump(self, quantum: int) -> bool:
        """Sends up to `quantum` queued bytes. False: there is more, and only the tunnel is in its way."""
        while self._queue and self._credit and quantum > 0:
            if self._tunnel.full:
                return False
            chunk = self._queue[0]
            size = min(len(chunk), self._credit, MAX_DATA)
            if size == len(chunk):
                self._queue.popleft()
                self._tunnel.send_data(self.number, chunk)
            else:
                self._queue[0] = chunk[size:]
                self._tunnel.send_data(self.number, chunk[:size])
            self._credit -= size
            self._queued -= size
            quantum -= size
        if self._throttled and self._queued <= LOW_WATER and self._protocol is not None:
            self._throttled = False
            self._protocol.resume_writing()
        if not self._queue and not self._gone:
            if self._closing:
                self._finish()
            elif self._ending:
                self._tunnel.send(Kind.END, self.number)
        return not (self._queue and self._credit)

    def credited(self, size: int) -> None:
        self._credit += size
        if self._credit > 1 << 40:
            raise ProtocolViolation("a stream was given credit without end")
        if self._queue and not self.pump(MAX_DATA):
            self._tunnel.wait_for_room(self)

    def received(self, data: bytes) -> None:
        """Raises ProtocolViolation when the peer sends more than it may."""
        self._allowance -= len(data)
        if self._allowance < 0:
            raise ProtocolViolation("a stream sent more than its credit allows")
        if self._closing:
            return
        if self._reading and self._protocol is not None and not self._held:
            self._give(data)
        else:
            self._held.append(data)

    def ended(self, how: Exception | bool) -> None:
        """`how`: False for END, True for CLOSE, else why it was reset. Told once what came before has been taken."""
        if isinstance(how, Exception):
            self.lost(how)
            return
        if self._end is None or how:
            self._end = how
        if how:
            self._closing = True
            self._queue.clear()
            self._queued = 0
            self._forget()
        self._deliver()

    def lost(self, error: Exception | None) -> None:
        """It is over: by a reset of either side, or with its tunnel."""
        self._closing = True
        self._queue.clear()
        self._held.clear()
        self._queued = 0
        self._forget()
        self._loop.call_soon(self._tell_lost, error)

    # Our own

    def _deliver(self) -> None:
        while self._held and self._reading and self._protocol is not None:
            self._give(self._held.popleft())
        if self._held or self._end is None or self._protocol is None:
            return
        end, self._end = self._end, None
        if end is True:
            self._tell_lost(None)
        elif not self._closing and not self._protocol.eof_received():
            self.close()

    def _give(self, data: bytes) -> None:
        assert self._protocol is not None
        try:
            self._protocol.data_received(data)
        except Exception:
            # One stream's fault is no other's.
            log.exception("a stream of a tunnel failed, and is ended")
            self.reset("it failed on the other side")
            return
        self._taken += len(data)
        if self._taken >= _GRANT and not self._gone:
            self._allowance += self._taken
            self._tunnel.send(Kind.CREDIT, self.number, self._taken.to_bytes(4, "big"))
            self._taken = 0

    def _finish(self) -> None:
        if not self._gone:
            self._tunnel.send(Kind.CLOSE, self.number)
            self._forget()
            self._loop.call_soon(self._tell_lost, None)

    def _forget(self) -> None:
        if not self._gone:
            self._gone = True
            self._tunnel.forget(self)

    def _tell_lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, _NOBODY
        if protocol is not None:
            protocol.connection_lost(error)


_NOBODY = asyncio.Protocol()  # hears what comes after the end
