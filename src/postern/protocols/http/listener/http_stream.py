"""A client's connection after its TLS handshake: bounded reads, and writes that wait for a slow client."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final, cast

from postern.relay.relay_handshake import StreamHandshake

_HIGH: Final = 64 * 1024
_HELD: Final = 16 * 1024
_TICK: Final = 0.001  # seconds by which a timer can be early
HALF_CLOSED = 5.0
"""Seconds for which a client that sends no more is still answered: it can as well have gone."""
LONGEST_STALL: Final = 600.0  # seconds for which a client can read nothing of a response


class HttpStream:
    """The connection: an `asyncio.Protocol`, which a compiled class cannot inherit from.

    `on_lost` is called once, when the client has disconnected; one that only sends no more counts as disconnected, too,
    unless the connection `is_raw`: then it is the end of one direction. With `serves_half_closed`, such a client is
    answered for a while: the requests that it has sent, and no others.
    """

    def __init__(self, handshake: StreamHandshake) -> None:
        """Take the connection over. Raises ConnectionError when it is lost already."""
        assert handshake.transport is not None
        self._transport = handshake.transport
        self._buffer = handshake.hand_over(cast("asyncio.Protocol", self))
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None  # of `read` and `peek`
        self._deadline = math.inf  # of the waiter
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_paused = False
        self._is_lost = False
        self._held: list[bytes] = []  # for the next write
        self._held_size = 0
        self._has_ended = False
        self.serves_half_closed = False
        if handshake.has_ended:
            asyncio.get_running_loop().call_later(HALF_CLOSED, self._lose)
            self._has_ended = True
        self.is_raw = False
        self.on_lost: Callable[[], None] = lambda: None

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if len(self._buffer) > _HIGH and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        if self.serves_half_closed and not self.is_raw:
            asyncio.get_running_loop().call_later(HALF_CLOSED, self._lose)
        elif not self.is_raw:
            self._lose()
            return False
        self._has_ended = True
        self._wake()
        return self._transport.get_extra_info("ssl_object") is None

    def connection_lost(self, error: Exception | None) -> None:
        self._lose()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._wake()
            self._writable.set()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self.on_lost()

    def require_both_directions(self) -> None:
        """Count a client that sends no more as disconnected from now on."""
        self.serves_half_closed = False
        if self._has_ended:
            self._has_ended = False  # reading is an error from now on, and no end
            self._lose()
            self._transport.close()

    # For the connection's owner

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    async def read(self, until: float = math.inf) -> bytes:
        """Return what has arrived; nothing at the end of the client's direction. Raises ConnectionResetError, and
        TimeoutError if nothing has arrived `until` this time of the loop's clock."""
        while not self._buffer:
            if self._has_ended:
                return b""
            self._require()
            await self._wait(until)
        data, self._buffer = self._buffer, b""
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    async def peek(self, size: int) -> bytes:
        """Return the first bytes without consuming them. Raises ConnectionResetError."""
        while len(self._buffer) < size:
            self._require_more()
            await self._wait(math.inf)
        return self._buffer[:size]

    async def _wait(self, until: float) -> None:
        """Wait for more bytes. The timer is set again only if it would be late: most waits need none of their own."""
        self._waiter = self._loop.create_future()
        self._deadline = until
        if until < self._timer_at:
            self._set_timer(until)
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._deadline = math.inf

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._check_deadline)
        self._timer_at = at

    def _check_deadline(self) -> None:
        self._timer, self._timer_at = None, math.inf
        if self._loop.time() < self._deadline - _TICK:
            if self._deadline < math.inf:
                self._set_timer(self._deadline)
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(TimeoutError())

    def _require_more(self) -> None:
        if self._has_ended:
            raise ConnectionResetError("the client sends no more")
        self._require()

    def _require(self) -> None:
        if self._is_lost:
            raise ConnectionResetError("the client has disconnected")

    def write(self, data: bytes) -> None:
        """Send what is held, and this."""
        if self._held:
            self._held.append(data)
            data = b"".join(self._held)
            self._held, self._held_size = [], 0
        if data and not self._is_lost:
            self._transport.write(data)

    def write_soon(self, data: bytes) -> None:
        """Send this together with what is written next: head and body of a short response are one packet. It waits at
        most for what else can run now."""
        if self._held_size + len(data) > _HELD:
            self.write(data)
            return
        if not self._held:
            asyncio.get_running_loop().call_soon(self.write, b"")
        self._held.append(data)
        self._held_size += len(data)

    async def drain(self) -> None:
        """Wait until more can be written. Raises ConnectionResetError; aborts a client that reads nothing."""
        if not self._writable.is_set():
            try:
                async with asyncio.timeout(LONGEST_STALL):
                    await self._writable.wait()
            except TimeoutError:
                self.abort()
                raise ConnectionResetError("the client reads nothing") from None
        self._require()

    def end_writing(self) -> None:
        """Send no more. The client can still send."""
        self.write(b"")
        if not self._is_lost and self._transport.can_write_eof():
            self._transport.write_eof()

    def close(self) -> None:
        """Close once everything was sent."""
        self.write(b"")
        if not self._transport.is_closing():
            self._transport.close()

    def abort(self) -> None:
        self.write(b"")
        self._transport.abort()
