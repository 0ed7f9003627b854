"""The relay of one terminal: frames of a command between a browser's WebSocket and the stream to a worker.

    browser ──message of whole frames──▶ _receive_input ──▶ stream
    browser ◀──message of whole frames── _send_output ◀── queue ◀── data_received

Output is bounded by credit. A WebSocket of a browser reads whatever comes and keeps it in the page's memory, so only
the page knows how much its terminal has processed: it returns that as CREDIT frames, which end here. Without credit the
queue fills, the stream is paused, and the worker and the program wait, as for any client that reads slowly.
Input is bounded in the same way: nothing is read from the browser while the stream accepts no more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast

from fastapi import WebSocket, WebSocketDisconnect

import postern.protocols.terminal.terminal_frames as m
from postern.api.terminals.terminal_closing import ENDED, TOO_LATE, TerminalClosing
from postern.errors import PosternError, ProtocolViolation, Unauthenticated, Unavailable

log = logging.getLogger(__name__)

_HIGH, _LOW = 128 * 1024, 32 * 1024  # bytes of output that wait here
_MESSAGE = 64 * 1024  # bytes of output in one message to the browser
_STALL = 300.0  # seconds; a browser gives the timers of a hidden page one turn each minute
_CHECK_EVERY = 15.0  # seconds between two checks of the login
_MOST_UNCHECKED = 4  # checks in a row that may fail because the store does not answer
_OUTPUT = frozenset({m.STDOUT, m.STDERR})
_READERS: dict[int, Callable[[bytes], object]] = {m.RESIZE: m.read_resize, m.SIGNAL: m.read_signal}
_INPUT = frozenset({m.STDIN, m.STDIN_END, m.RESIZE, m.SIGNAL})


class TerminalRelay(asyncio.Protocol):
    """The stream's protocol. `standing` checks that the browser's login is still valid."""

    def __init__(self, socket: WebSocket, standing: Callable[[], Awaitable[object]]) -> None:
        self._socket = socket
        self._standing = standing
        self._stream: asyncio.Transport | None = None
        self._from_worker = m.TerminalFrameReader()
        self._from_browser = m.TerminalFrameReader()
        self._queue: deque[tuple[int, bytes]] = deque()
        self._queued = 0  # bytes
        self._credit = m.BROWSER_WINDOW
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._exited = False
        self._lost = False

    async def run(self) -> TerminalClosing | None:
        """Relay until one side ends. Return why; None if the browser has left. Raises PosternError."""
        assert self._stream is not None
        self._stream.write(m.START_FRAME)
        work = (self._send_output(), self._receive_input(), self._wait_for_loss(), self._check_login())
        tasks: list[asyncio.Task[TerminalClosing | None]] = [asyncio.ensure_future(each) for each in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return await next(task for task in tasks if task in done)
        except WebSocketDisconnect:
            return None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._stream.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._from_worker.feed(bytes(data))
        except ProtocolViolation as error:
            log.warning("the stream of a terminal is broken: %s", error.message)
            self.connection_lost(None)
            return
        for kind, payload in frames:
            self._queue.append((kind, payload))
            self._queued += m.HEADER + len(payload)
            self._exited = self._exited or kind == m.EXIT
        if self._queued > _HIGH and self._stream is not None:
            self._stream.pause_reading()
        self._changed.set()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._room.set()
        self._changed.set()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    # Output

    async def _send_output(self) -> TerminalClosing:
        while True:
            self._changed.clear()
            if message := self._take_output():
                await self._socket.send_bytes(message)
            elif self._queue:
                try:
                    await asyncio.wait_for(self._changed.wait(), _STALL)
                except TimeoutError:
                    return TerminalClosing(
                        TOO_LATE, f"this page has processed no output for {_STALL:g} seconds; reload it"
                    )
            elif self._exited:
                return await self._end()
            elif self._lost:
                raise Unavailable("the connection to the relay worker was lost; open the terminal again")
            else:
                await self._changed.wait()

    async def _end(self) -> TerminalClosing:
        """Return why the program ended: a worker also ends it together with its login."""
        try:
            await self._standing()
        except Unauthenticated as error:
            return TerminalClosing.of(error)
        except PosternError as error:
            log.info("the login of a terminal that has ended could not be checked: %s", error.message)
        return TerminalClosing(ENDED, "the program has ended")

    def _take_output(self) -> bytes:
        """Return the next frames that the browser can be sent, or nothing while it has to process others first. After
        the end of the stream, the rest is sent without credit: no more can follow."""
        taken: list[bytes] = []
        size = 0
        while self._queue and size < _MESSAGE:
            kind, payload = self._queue[0]
            if kind in _OUTPUT:
                if self._credit <= 0 and not self._lost:
                    break
                self._credit -= len(payload)
            self._queue.popleft()
            taken.append(m.frame(kind, payload))
            size += len(taken[-1])
        self._queued -= size
        if taken and self._queued < _LOW and self._stream is not None and not self._lost:
            self._stream.resume_reading()
        return b"".join(taken)

    # Input

    async def _receive_input(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes")
            if data is None:
                raise ProtocolViolation("only the first message is text; frames are sent in binary messages")
            self._forward(data)
            await self._room.wait()

    async def _wait_for_loss(self) -> None:
        """Wait for the end of the connection, which `_receive_input` cannot see while it waits for the stream."""
        await self._socket.state.lost.wait()

    def _forward(self, data: bytes) -> None:
        """Pass on the frames of a message. Incomplete ones are rejected, since joining them would cost time for each
        part."""
        assert self._stream is not None
        for kind, payload in self._from_browser.feed(data):
            if kind == m.CREDIT:
                self._credit = min(m.BROWSER_WINDOW, self._credit + m.read_credit(payload))
                self._changed.set()
                continue
            if kind not in _INPUT:
                raise ProtocolViolation(f"a browser cannot send frames of kind {kind}")
            if kind in _READERS:
                _READERS[kind](payload)
            if not self._stream.is_closing():
                self._stream.write(m.frame(kind, payload))
        if self._from_browser.waiting:
            raise ProtocolViolation("a message ends within a frame; send whole frames")

    # The login

    async def _check_login(self) -> TerminalClosing:
        """End the terminal with its login, also if it has expired, which no signal reports. Fail closed where the login
        cannot be checked."""
        failed = 0
        while True:
            await asyncio.sleep(_CHECK_EVERY)
            try:
                await self._standing()
                failed = 0
            except Unavailable as error:
                failed += 1
                if failed >= _MOST_UNCHECKED:
                    return TerminalClosing.of(error)
            except PosternError as error:
                return TerminalClosing.of(error)
