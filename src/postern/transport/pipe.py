"""Two transports joined: what one side reads, the other writes. A side that does not drain slows down reading from the
other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from postern.transport.resets import reset_when_closed

ANSWER_TIME: Final = 5.0  # seconds for an answer after the end of a request that cannot be passed on


class PipeEnd(asyncio.Protocol):
    """One side of a pipe. Data that arrives before the join waits, and its transport is paused.

    `passes_resets`: if this side is lost before its end, the other side is reset, so that it does not take what it has
    received for complete.
    """

    def __init__(self, *, passes_resets: bool = False) -> None:
        self._passes_resets = passes_resets
        self.transport: asyncio.Transport | None = None
        self._other: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._eof = False
        self._full = False
        self._gone = False
        self._over: Callable[[Exception | None], None] | None = None

    def pass_to(self, other: asyncio.Transport, over: Callable[[Exception | None], None]) -> None:
        """Forward data to `other` from now on; `over` is called once when this side ends."""
        self._other, self._over = other, over
        for data in self._early:
            other.write(data)
        self._early.clear()
        if self._gone:
            self.connection_lost(None)
            return
        if self._eof:
            self.eof_received()
        if self._full:
            other.pause_reading()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._other is not None:
            self._other.write(data)
            return
        self._early.append(bytes(data))
        if self.transport is not None:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._eof = True
        if self._other is None:
            return True
        if not self._other.can_write_eof():
            if self._passes_resets:
                asyncio.get_running_loop().call_later(ANSWER_TIME, self._give_up_answer, self._other)
                return True
            self._other.close()
            return False
        self._other.write_eof()
        return True

    def _give_up_answer(self, other: asyncio.Transport) -> None:
        """Close the other side, whose peer could not be told of the end; for this side that is the regular end."""
        if self.transport is not None and not self.transport.is_closing() and self.transport.can_write_eof():
            self.transport.write_eof()
        other.close()

    def pause_writing(self) -> None:
        self._full = True
        if self._other is not None and not self._other.is_closing():
            self._other.pause_reading()

    def resume_writing(self) -> None:
        self._full = False
        if self._other is not None and not self._other.is_closing():
            self._other.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._gone = True
        if self._other is not None:
            if self._passes_resets and not self._eof:
                reset_when_closed(self._other)
            self._other.close()
        over, self._over = self._over, None
        if over is not None:
            over(error)


class Pipe:
    """Joins `near` and `far`, both with transports. `over` is called once, when both sides are gone, with the first
    error. A side that reads nothing of the rest for LINGER seconds is aborted."""

    LINGER = 30.0

    def __init__(
        self, near: PipeEnd, far: PipeEnd, over: Callable[[Exception | None], None] = lambda error: None
    ) -> None:
        assert near.transport is not None
        assert far.transport is not None
        self._sides = (near.transport, far.transport)
        self._left = 2
        self._over = over
        self._error: Exception | None = None
        self._cut: asyncio.TimerHandle | None = None
        near.pass_to(far.transport, self._side_over)
        far.pass_to(near.transport, self._side_over)

    def close(self) -> None:
        for side in self._sides:
            side.close()

    def _side_over(self, error: Exception | None) -> None:
        self._error = self._error or error
        self._left -= 1
        if self._left:
            self._linger(self._unsent())
            return
        if self._cut is not None:
            self._cut.cancel()
        self._over(self._error)

    def _linger(self, unsent: int) -> None:
        self._cut = asyncio.get_running_loop().call_later(self.LINGER, self._abort_if_stalled, unsent)

    def _abort_if_stalled(self, before: int) -> None:
        """Abort if nothing was read since `before` bytes were unsent."""
        unsent = self._unsent()
        if 0 < unsent < before:
            self._linger(unsent)
            return
        for side in self._sides:
            side.abort()

    def _unsent(self) -> int:
        return sum(side.get_write_buffer_size() for side in self._sides)
