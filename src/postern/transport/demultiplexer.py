"""Delivery of a tunnel's incoming frames to its streams. Compiled (decision 0007); `mux.py` is its asyncio protocol.

Frames for a stream that has ended are dropped, because both sides may end a stream at the same time. A frame for a
stream that was never opened is a violation, and ends the tunnel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from postern.errors import ProtocolViolation
from postern.transport.frames import CREDIT, END, TunnelFrameReader
from postern.transport.stream_state import StreamState

LAST: Final = (1 << 32) - 1  # the highest stream number


class Demultiplexer(TunnelFrameReader):
    """The demultiplexer. `control` gets every frame that is not for an open stream: kind, number, payload."""

    def __init__(self, *, dialler: bool, control: Callable[[int, int, bytes], None]) -> None:
        super().__init__()
        self.lanes: dict[int, StreamState] = {}
        self._control = control
        self._next = 1 if dialler else 2
        self._theirs = 0 if dialler else -1  # the last number that the peer used

    def on_data(self, stream: int, payload: bytes) -> None:
        lane = self.lanes.get(stream)
        if lane is not None:
            lane.receive_data(payload)
        else:
            self.check(stream)

    def on_frame(self, kind: int, stream: int, payload: bytes) -> None:
        if kind in (CREDIT, END):
            lane = self.lanes.get(stream)
            if lane is None:
                self.check(stream)
            elif kind == CREDIT:
                lane.receive_credit(payload)
            else:
                lane.receive_end()
        else:
            self._control(kind, stream, payload)

    def is_exhausted(self) -> bool:
        """Return True if this side has no stream number left."""
        return self._next > LAST

    def take_number(self) -> int:
        """Return the next number for a stream of this side."""
        number = self._next
        self._next += 2
        return number

    def take_theirs(self, number: int) -> None:
        """Check the number of a stream that the peer opens. Raises ProtocolViolation."""
        if number <= self._theirs or (number - self._next) % 2 == 0:
            raise ProtocolViolation(f"stream {number} was opened twice, or by the wrong side")
        self._theirs = number

    def check(self, number: int) -> None:
        """Check that the stream was opened before. Raises ProtocolViolation."""
        ours = (number - self._next) % 2 == 0
        if number == 0 or (number >= self._next if ours else number > self._theirs):
            raise ProtocolViolation(f"a frame for stream {number}, which was never opened")

    def linger(self, now: float) -> None:
        """Abort closed streams whose peers do not read the rest. `now` is the loop's time."""
        for lane in list(self.lanes.values()):
            lane.linger(now)
