"""Frames of one side of a link as slices of what was read: a body passes without being taken apart."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.protocols.framing import Intake, uint32
from postern.protocols.http.http_frames import HEADER, MAX_FRAME

_HEADER: Final = HEADER
_MAX_FRAME: Final = MAX_FRAME


class FrameIntake:
    """Whole frames, in order. Raises ProtocolViolation for one that is too long."""

    def __init__(self) -> None:
        self._intake = Intake()

    def feed(self, data: bytes) -> None:
        if data:
            self._intake.feed(data)

    @property
    def position(self) -> str:
        """Return how far the stream was read, for the log."""
        return f"byte {self._intake.first + int(self._intake.pos)}"

    def next(self) -> bytes:
        """Return the next frame with its header, or nothing if none is complete."""
        intake = self._intake
        pos: i64 = intake.pos
        size = self._measure(pos)
        if not size:
            return b""
        buf = intake.buf
        intake.pos = pos + size
        return buf if not pos and size == len(buf) else buf[pos : pos + size]

    def take_run(self, kind: int, exchange: int) -> bytes:
        """Return all complete frames that come next and are of this kind and exchange, joined; nothing for none."""
        intake = self._intake
        start: i64 = intake.pos
        pos: i64 = start
        buf = intake.buf
        end: i64 = len(buf)
        while end - pos >= _HEADER and buf[pos] == kind and uint32(buf, pos + 1) == exchange:
            size: i64 = uint32(buf, pos + 5)
            if size > _MAX_FRAME or end - pos < _HEADER + size:
                break
            pos += _HEADER + size
        intake.pos = pos
        if pos == start:
            return b""
        return buf if not start and pos == end else buf[start:pos]

    def _measure(self, pos: i64) -> i64:
        """Return the size of the frame at `pos`, or 0 if it is not complete."""
        intake = self._intake
        buf = intake.buf
        available: i64 = len(buf) - pos
        if available < _HEADER:
            return 0
        length: i64 = uint32(buf, pos + 5)
        if length > _MAX_FRAME:
            raise ProtocolViolation(f"a frame of {int(length)} bytes, where at most {_MAX_FRAME} are allowed")
        size: i64 = _HEADER + length
        if available < size:
            intake.wait(size)
            return 0
        return size
