"""The frames of a tunnel, without I/O. They travel in the binary messages of its WebSocket, whose boundaries have no
meaning.

     0        1                4                8
     +--------+----------------+----------------+----------- - -
     |  kind  |  length (24)   |   stream (32)  |  payload …
     +--------+----------------+----------------+----------- - -

Integers are big-endian. The reader delivers the payload of `DATA` as it arrives, in one slice per read, so a large
frame is never buffered. Every other payload is small, and is buffered whole.
"""

from __future__ import annotations

import struct
from typing import Final

from mypy_extensions import mypyc_attr

from postern.errors import ProtocolViolation

HEADER: Final = 8
MAX_DATA: Final = 64 * 1024  # bytes of payload that a sender puts into one frame: other streams wait that long
MAX_CONTROL: Final = 256 * 1024  # bytes of any other payload
_MAX_FRAME: Final = 1 << 20  # the maximum that a reader accepts; newer senders may choose larger frames

# Plain numbers: every frame is checked, and an enumeration member costs a lookup each time.
OPEN: Final = 1  # JSON: the purpose of the new stream
ACCEPT: Final = 2  # JSON: the positive answer to OPEN
REFUSE: Final = 3  # JSON {"code", "message", "details"}: the negative answer to OPEN
DATA: Final = 4
CREDIT: Final = 5  # four bytes: how many more bytes of DATA may be sent on this stream
END: Final = 6  # no more DATA from this side; the other can continue
CLOSE: Final = 7  # this side has closed, after all of its DATA
RESET: Final = 8  # UTF-8 text: this side has aborted, and why
PING: Final = 9  # any bytes, on stream 0
PONG: Final = 10  # the same bytes back
HELLO: Final = 11  # JSON, on stream 0, before any stream is opened: the identity of this side
DRAIN: Final = 12  # on stream 0: do not open any more streams
NAMES: Final = ("", "OPEN", "ACCEPT", "REFUSE", "DATA", "CREDIT", "END", "CLOSE", "RESET", "PING", "PONG", "HELLO",
                "DRAIN")  # fmt: skip

_header: Final = struct.Struct(">II")
_pack: Final = _header.pack
_unpack_from: Final = _header.unpack_from


def header(kind: int, stream: int, length: int) -> bytes:
    return _pack(kind << 24 | length, stream)


@mypyc_attr(allow_interpreted_subclasses=True)
class TunnelFrameReader:
    """Splits a byte stream into frames and passes them to `on_data` and `on_frame` of a subclass.

    `feed` raises ProtocolViolation for invalid frames; then the reader is not usable any more. `stop` ends it, even in
    the middle of a read.
    """

    def __init__(self) -> None:
        self._start = bytearray()  # of a frame that is buffered
        self._data_left = 0
        self._data_stream = 0
        self._stopped = False

    def on_data(self, stream: int, payload: bytes) -> None:
        """Handle a slice of the payload of a DATA frame; never empty."""
        raise NotImplementedError

    def on_frame(self, kind: int, stream: int, payload: bytes) -> None:
        """Handle a whole frame of any other kind."""
        raise NotImplementedError

    def stop(self) -> None:
        self._stopped = True

    def feed(self, data: bytes | memoryview) -> None:
        """Parse bytes. They are copied out of `data`, so its memory can be reused."""
        at = 0
        end = len(data)
        while at < end and not self._stopped:
            if self._data_left:
                size = min(self._data_left, end - at)
                self._data_left -= size
                self.on_data(self._data_stream, bytes(data[at : at + size]))
                at += size
            elif self._start or end - at < HEADER:
                at += self._gather(data, at, end)
            else:
                word, stream = _unpack_from(data, at)
                size = self._begin(word, stream)
                if end - at < HEADER + size:
                    self._start += data[at:end]
                    return
                at += HEADER
                if word >> 24 != DATA:
                    self.on_frame(word >> 24, stream, bytes(data[at : at + size]))
                    at += size

    def _begin(self, word: int, stream: int) -> int:
        """Start a frame. Return how many bytes of payload to buffer: none for DATA."""
        kind = word >> 24
        length = word & 0xFFFFFF
        if kind == DATA:
            if length > _MAX_FRAME:
                raise _too_long(length, _MAX_FRAME)
            self._data_left = length
            self._data_stream = stream
            return 0
        if not 0 < kind < len(NAMES):
            raise ProtocolViolation(f"a tunnel frame of unknown kind {kind}; the other side may be of another version")
        if length > MAX_CONTROL:
            raise _too_long(length, MAX_CONTROL)
        return length

    def _gather(self, data: bytes | memoryview, at: int, end: int) -> int:
        """Take the missing bytes of a header or a frame. Return how many were taken."""
        have = len(self._start)
        needed = HEADER
        if have >= HEADER:
            needed += (self._start[1] << 16) | (self._start[2] << 8) | self._start[3]
        size = min(needed - have, end - at)
        self._start += data[at : at + size]
        if have + size < needed:
            return size
        word, stream = _unpack_from(self._start, 0)
        if have < HEADER and self._begin(word, stream):
            return size
        payload = bytes(self._start[HEADER:])
        self._start = bytearray()
        if word >> 24 != DATA:
            self.on_frame(word >> 24, stream, payload)
        return size


def _too_long(length: int, most: int) -> ProtocolViolation:
    return ProtocolViolation(f"a tunnel frame of {length} bytes, where at most {most} are allowed")
