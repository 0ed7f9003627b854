"""Splits the bytes of a peer into frames before h2 reads them, and limits what costs more than it carries.

h2 keeps the protocol's states, but its limits are few. Known attacks, and what stops them here:

- Long frames: refused by their header, before they are buffered.
- CONTINUATION floods (CVE-2024-27316): a limit on frames and bytes of an encoded head. HPACK bombs: h2's own limit.
- Rapid reset (CVE-2023-44487), resets that the server is made to send (CVE-2025-8671), floods of PING, SETTINGS,
  PRIORITY, empty DATA and tiny WINDOW_UPDATE frames (CVE-2019-9511 to 9518): the budget. Each such frame costs. Bytes
  of bodies and completed requests earn, and so does time.
- SETTINGS with thousands of unknown settings, which h2 would store; HPACK tables of 4 GB for its encoder, which would
  keep all headers ever sent: settings are read here, and h2 sees the known ones only.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from postern.protocols.http.http2.http2_events import Http2Code, Http2Error, Http2Limits

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER: Final = 9
MAX_FRAME: Final = 16 * 1024  # the least that is allowed, and what both sides begin with

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8

COST: Final = 1
COST_OF_SETTINGS: Final = 5
COST_OF_RESET: Final = 5
EARNED_BY_REQUEST: Final = 10
BYTES_FOR_ONE: Final = 1024  # of bodies, in both directions

_SETTING: Final = struct.Struct(">HI")
_HEADER_TABLE_SIZE: Final = 1
_KNOWN_SETTINGS: Final = frozenset({1, 2, 3, 4, 5, 6, 8})
_MAX_TABLE: Final = 4096  # of the encoder: the protocol's default


@dataclass(frozen=True, slots=True)
class Http2Frame:
    """A frame that passed the limits; `data` includes its header."""

    kind: int
    flags: int
    stream_id: int
    data: bytes


class Http2Budget:
    """How many frames without a message a peer may still send."""

    def __init__(self, limits: Http2Limits) -> None:
        self._limits = limits
        self._left: float = limits.budget
        self._bytes = 0
        self._time = 0.0

    def spend(self, cost: int) -> None:
        """Raises Http2Error if the peer has used up its budget."""
        self._left -= cost
        if self._left < 0:
            message = "too many frames that carry no message: resets, settings, pings, window updates or empty data"
            raise Http2Error(Http2Code.ENHANCE_YOUR_CALM, message)

    def earn(self, amount: float) -> None:
        self._left = min(self._limits.budget, self._left + amount)

    def earn_by_bytes(self, size: int) -> None:
        self.earn(size / BYTES_FOR_ONE)

    def refill(self, now: float) -> None:
        """Note the time in seconds, of any clock that does not go back."""
        if self._time:
            self.earn(max(0.0, now - self._time) * self._limits.refill)
        self._time = now


class Http2FrameGuard:
    """Splits bytes into frames that respect the limits. Not usable any more after an error."""

    def __init__(self, limits: Http2Limits, budget: Http2Budget, *, expects_preface: bool) -> None:
        self._limits = limits
        self._budget = budget
        self._preface = PREFACE if expects_preface else b""
        self._buffer = b""
        self._at = 0
        self._has_settings = False
        self._head_of = 0  # the stream whose head is not complete
        self._head_bytes = 0
        self._continuations = 0

    def feed(self, data: bytes) -> None:
        self._buffer = self._buffer[self._at :] + data if self._at < len(self._buffer) else data
        self._at = 0

    def next_frame(self) -> Http2Frame | None:
        """Return the next complete frame. Raises Http2Error."""
        if self._preface and not self._skip_preface():
            return None
        while (frame := self._split()) is not None:
            if self._admits(frame):
                return frame
        return None

    def _skip_preface(self) -> bool:
        part = self._buffer[self._at : self._at + len(self._preface)]
        if not self._preface.startswith(part):
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "the connection does not begin with the preface of HTTP/2")
        self._at += len(part)
        self._preface = self._preface[len(part) :]
        return not self._preface

    def _split(self) -> Http2Frame | None:
        buffer, at = self._buffer, self._at
        if len(buffer) - at < FRAME_HEADER:
            return None
        length = int.from_bytes(buffer[at : at + 3], "big")
        if length > MAX_FRAME:
            raise Http2Error(Http2Code.FRAME_SIZE_ERROR, f"a frame of {length} bytes, where {MAX_FRAME} are allowed")
        end = at + FRAME_HEADER + length
        if len(buffer) < end:
            return None
        self._at = end
        stream_id = int.from_bytes(buffer[at + 5 : at + 9], "big") & 0x7FFFFFFF
        return Http2Frame(buffer[at + 3], buffer[at + 4], stream_id, buffer[at:end])

    def _admits(self, frame: Http2Frame) -> bool:
        """Count a frame, and return whether h2 is to see it. Raises Http2Error."""
        self._check_order(frame)
        size = len(frame.data) - FRAME_HEADER
        if frame.kind in (HEADERS, PUSH_PROMISE, CONTINUATION):
            self._count_head(frame, size)
        elif frame.kind == DATA:
            if frame.flags & PADDED and size:
                size -= 1 + frame.data[FRAME_HEADER]
            if size > 0:
                self._budget.earn_by_bytes(size)
            elif not frame.flags & END_STREAM:
                self._budget.spend(COST)
        elif frame.kind == SETTINGS:
            if size and frame.flags & ACK:
                raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "an acknowledgement of settings with settings")
            self._budget.spend(COST_OF_SETTINGS)
        elif frame.kind != RST_STREAM:  # whose cost depends on its stream
            self._budget.spend(COST)
        return frame.kind <= CONTINUATION  # others are to be ignored

    def _check_order(self, frame: Http2Frame) -> None:
        if not self._has_settings:
            if frame.kind != SETTINGS or frame.flags & ACK:
                raise Http2Error(Http2Code.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            self._has_settings = True
        if self._head_of and (frame.kind != CONTINUATION or frame.stream_id != self._head_of):
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "another frame within a head")
        if not self._head_of and frame.kind == CONTINUATION:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "a CONTINUATION frame without a head")

    def _count_head(self, frame: Http2Frame, size: int) -> None:
        if frame.kind == CONTINUATION:
            self._continuations += 1
            self._head_bytes += size
            if not size:
                self._budget.spend(COST)
        else:
            self._continuations = 0
            self._head_bytes = size
        if self._continuations > self._limits.continuations or self._head_bytes > self._limits.head:
            message = f"an encoded head exceeds {self._limits.head} bytes or {self._limits.continuations} continuations"
            raise Http2Error(Http2Code.ENHANCE_YOUR_CALM, message)
        self._head_of = 0 if frame.flags & END_HEADERS else frame.stream_id
        if not frame.stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "a head that belongs to no stream")


def read_known_settings(frame: Http2Frame) -> bytes:
    """Return a SETTINGS frame with the settings that h2 knows and we accept. Raises Http2Error."""
    content = frame.data[FRAME_HEADER:]
    if len(content) % _SETTING.size:
        raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "a SETTINGS frame of a wrong size")
    known = {key: value for key, value in _SETTING.iter_unpack(content) if key in _KNOWN_SETTINGS}
    if _HEADER_TABLE_SIZE in known:
        known[_HEADER_TABLE_SIZE] = min(known[_HEADER_TABLE_SIZE], _MAX_TABLE)
    content = b"".join([_SETTING.pack(key, value) for key, value in known.items()])
    return len(content).to_bytes(3, "big") + frame.data[3:FRAME_HEADER] + content


def read_going_away(frame: Http2Frame) -> tuple[int, int]:
    """Return the last stream and the code of a GOAWAY frame. Raises Http2Error."""
    content = frame.data[FRAME_HEADER:]
    if frame.stream_id:
        raise Http2Error(Http2Code.PROTOCOL_ERROR, "a GOAWAY frame for a stream")
    if len(content) < 8:
        raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "a GOAWAY frame of a wrong size")
    return int.from_bytes(content[:4], "big") & 0x7FFFFFFF, int.from_bytes(content[4:8], "big")


def going_away_frame(last_stream_id: int, code: int, message: str = "") -> bytes:
    """Encode a GOAWAY frame. h2 would close the connection with it, and end the streams that are still open."""
    content = last_stream_id.to_bytes(4, "big") + int(code).to_bytes(4, "big") + message.encode()[:256]
    return len(content).to_bytes(3, "big") + bytes((GOAWAY, 0)) + bytes(4) + content
