"""The client's end of one link, in memory: frames in both directions, with back-pressure.

request ─ send ─▶ the driver reads               waits while the driver does not read
response ◀─ next_frame ─ the driver writes       the driver is throttled while frames wait here
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from postern.errors import ProtocolViolation
from postern.protocols.http.http_frames import RESPONSE, HttpFrame, HttpFrameReader, read_response
from postern.protocols.http.http_heads import ResponseHead

_HIGH: Final = 256 * 1024  # bytes of frames that wait for the client
_LOW: Final = 64 * 1024


class HttpLink:
    """One link of a session: an `asyncio.Transport`, which a compiled class cannot inherit from.

    - `origin`: the target's scheme and authority.
    - `free_since`: when its last exchange ended, by the loop's clock.
    - `response`: the head of the response that has arrived last.
    """

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.free_since = 0.0
        self.response: ResponseHead | None = None
        self._loop = asyncio.get_running_loop()
        self._driver: asyncio.Protocol | None = None
        self._reader = HttpFrameReader()
        self._frames: deque[HttpFrame] = deque()
        self._waiting = 0  # bytes in `_frames`
        self._is_throttled = False
        self._can_send = asyncio.Event()
        self._waiter: asyncio.Future[None] | None = None  # of `next_frame`
        self._closing = False

    # For an exchange

    @property
    def has_ended(self) -> bool:
        return self._closing

    @property
    def is_quiet(self) -> bool:
        """Return True if nothing of a response is left over."""
        return not self._frames and not self._reader.waiting

    async def send(self, data: bytes) -> None:
        """Send frames. Waits while the link does not read. Raises ConnectionResetError when it has ended."""
        while not self._can_send.is_set() and not self._closing:
            await self._can_send.wait()
        if self._closing or self._driver is None:
            raise ConnectionResetError("the link has ended")
        self._driver.data_received(data)

    async def next_frame(self) -> HttpFrame | None:
        """Return the next frame; None when the link has ended."""
        while not self._frames:
            if self._closing:
                return None
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        frame = self._frames.popleft()
        self._waiting -= len(frame.payload)
        if self._is_throttled and self._waiting <= _LOW and self._driver is not None:
            self._is_throttled = False
            self._driver.resume_writing()
        return frame

    # For the driver

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._driver = protocol
        self._can_send.set()

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._driver is not None
        return self._driver

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        try:
            for frame in self._reader.feed(bytes(data)):
                if frame.kind == RESPONSE:
                    self.response = read_response(frame.payload)  # at once: it was encoded just now
                self._frames.append(frame)
                self._waiting += len(frame.payload)
        except ProtocolViolation:  # of our own wire
            self.close()
            return
        self._wake()
        if self._waiting > _HIGH and not self._is_throttled and self._driver is not None:
            self._is_throttled = True
            self._driver.pause_writing()

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._waiting

    def is_reading(self) -> bool:
        return self._can_send.is_set()

    def pause_reading(self) -> None:
        self._can_send.clear()

    def resume_reading(self) -> None:
        self._can_send.set()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """End the link. What it has sent before can still be read."""
        if self._closing:
            return
        self._closing = True
        self._can_send.set()
        self._wake()
        self._loop.call_soon(self._report_loss)

    def abort(self) -> None:
        self.close()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _report_loss(self) -> None:
        if self._driver is not None:
            self._driver.connection_lost(None)
