"""The frames of a tunnel: what travels in the binary messages of its WebSocket, whose borders mean nothing. Sans-IO.

     0        1                4                8
     +--------+----------------+----------------+----------- - -
     |  kind  |  length (24)   |   stream (32)  |  payload …
     +--------+----------------+----------------+----------- - -

Integers are big-endian. The reader hands the payload of `DATA` on as it comes, in as many slices as there were reads,
so that a large frame is never waited for; every other payload is small, and is gathered whole.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from postern.errors import ProtocolViolation

HEADER: Final = 8
MAX_DATA: Final = 64 * 1024  # bytes of payload that a sender puts into one frame: other streams wait that long for it
MAX_CONTROL: Final = 256 * 1024  # bytes of any other payload
_MAX_FRAME: Final = 1 << 20  # what a reader takes; newer senders may choose larger frames

_header = struct.Struct(">II")


class Kind(IntEnum):
    OPEN = 1  # JSON: what the new stream is for
    ACCEPT = 2  # JSON: the answer to OPEN
    REFUSE = 3  # JSON {"code", "message"}: the other answer to OPEN
    DATA = 4
    CREDIT = 5  # four bytes: how many more bytes of DATA may be sent on this stream
    END = 6  # no more DATA from this side; the other one may go on
    CLOSE = 7  # this side has gone, after all of its DATA
    RESET = 8  # UTF-8 text: this side has gone, and why
    PING = 9  # any bytes, on stream 0
    PONG = 10  # the same bytes back
    HELLO = 11  # JSON, on stream 0, the first frame of each side: who it is
    DRAIN = 12  # on stream 0: do not open anything here any more


_KINDS: Final = {int(kind): kind for kind in Kind}


def header(kind: int, stream: int, length: int) -> bytes:
    return _header.pack(kind << 24 | length, stream)


def frame(kind: Kind, stream: int, payload: bytes = b"") -> bytes:
    """Raises ValueError for a payload beyond its bound."""
    if len(payload) > (MAX_DATA if kind is Kind.DATA else MAX_CONTROL):
        raise ValueError(f"a {kind.name} frame of {len(payload)} bytes is too large")
    return header(kind, stream, len(payload)) + payload


class Frame(NamedTuple):
    """A whole frame, or a slice of the payload of a DATA frame."""

    kind: Kind
    stream: int
    payload: bytes


class FrameReader:
    """Cuts what comes into frames. Raises ProtocolViolation for what no peer of ours sends; it is of no use then."""

    def __init__(self) -> None:
        self._start = b""  # of a header, or of a payload that is gathered
        self._data_left = 0
        self._data_stream = 0

    def feed(self, data: bytes | memoryview) -> list[Frame]:
        """What `data` completes, in order. Bytes are copied out of it, so it may be used again."""
        found: list[Frame] = []
        if self._start:
            data = self._start + data
            self._start = b""
        view = memoryview(data)
        at, end = 0, len(view)
        while at < end:
            if self._data_left:
                size = min(self._data_left, end - at)
                found.append(Frame(Kind.DATA, self._data_stream, bytes(view[at : at + size])))
                self._data_left -= size
                at += size
                continue
            if end - at < HEADER:
                break
            word, stream = _header.unpack_from(view, at)
            kind, length = _kind(word >> 24), word & 0xFFFFFF
            if kind is Kind.DATA:
                _check(length, _MAX_FRAME)
                self._data_left, self._data_stream = length, stream
                at += HEADER
                continue
            _check(length, MAX_CONTROL)
            if end - at < HEADER + length:
                break
            found.append(Frame(kind, stream, bytes(view[at + HEADER : at + HEADER + length])))
            at += HEADER + length
        self._start = bytes(view[at:])
        return found


def _kind(number: int) -> Kind:
    kind = _KINDS.get(number)
    if kind is None:
        raise ProtocolViolation(f"a tunnel frame of unknown kind {number}; the other side may be of another version")
    return kind


def _check(length: int, most: int) -> None:
    if length > most:
        raise ProtocolViolation(f"a tunnel frame of {length} bytes, where at most {most} are allowed")
