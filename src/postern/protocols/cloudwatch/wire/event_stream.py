"""Frames of `application/vnd.amazon.eventstream`, read and written. Without I/O.

    total length  headers length  CRC-32 of both     headers     payload     CRC-32 of all before it
       4 bytes        4 bytes         4 bytes

A header is a name (length in one byte), a type, and a value of that type. Both checksums are verified.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final
from zlib import crc32

EVENT_STREAM: Final = b"application/vnd.amazon.eventstream"
MAX_FRAME: Final = 24 << 20  # bytes: 16 MiB of payload and 128 KiB of headers are the limit of AWS
_PRELUDE: Final = struct.Struct(">III")
_CRC: Final = 4
_STRING: Final = 7
_BYTES: Final = 6
# Bytes of values by type; -1: their own length comes first, in two bytes.
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, _BYTES: -1, _STRING: -1, 8: 8, 9: 16}


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """One frame. `head` are its headers, as bytes; `texts` are those of them that are texts, by name."""

    head: bytes
    texts: dict[str, str]
    payload: bytes

    @property
    def kind(self) -> str:
        """Return `event`, `exception` or `error`."""
        return self.texts.get(":message-type", "")

    @property
    def event_type(self) -> str:
        """Return the name of the event, or of the exception."""
        if self.kind == "event":
            return self.texts.get(":event-type", "")
        return self.texts.get(":exception-type") or self.texts.get(":error-code", "")

    def encode(self) -> bytes:
        return encode_frame(self.head, self.payload)


def encode_frame(head: bytes, payload: bytes) -> bytes:
    """Encode a frame with its checksums."""
    size = _PRELUDE.size + len(head) + len(payload) + _CRC
    lengths = struct.pack(">II", size, len(head))
    data = lengths + struct.pack(">I", crc32(lengths)) + head + payload
    return data + struct.pack(">I", crc32(data))


def encode_texts(texts: dict[str, str]) -> bytes:
    """Encode headers, all of which are texts."""
    parts: list[bytes] = []
    for name, text in texts.items():
        parts.append(bytes((len(name),)) + name.encode("ascii") + bytes((_STRING,)))
        value = text.encode()
        parts.append(struct.pack(">H", len(value)) + value)
    return b"".join(parts)


class EventStreamReader:
    """Reader of frames: `feed` takes the stream in chunks of any size. Raises ValueError for one that is not valid."""

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._buffer = bytearray()
        self._max_frame = max_frame

    @property
    def waiting(self) -> int:
        """Return the number of bytes of an incomplete frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[StreamFrame]:
        """Return the frames that are complete now."""
        self._buffer += data
        frames: list[StreamFrame] = []
        pos = 0
        while len(self._buffer) - pos >= _PRELUDE.size:
            size = self._size(pos)
            if len(self._buffer) - pos < size:
                break
            frames.append(_read_frame(bytes(self._buffer[pos : pos + size])))
            pos += size
        del self._buffer[:pos]
        return frames

    def _size(self, pos: int) -> int:
        """Return the number of bytes of the frame at a position, once its lengths are verified."""
        size, headers, checksum = _PRELUDE.unpack_from(self._buffer, pos)
        if crc32(self._buffer[pos : pos + 8]) != checksum:
            raise ValueError("the checksum of a frame's lengths is wrong")
        if size > self._max_frame or size < _PRELUDE.size + headers + _CRC:
            raise ValueError(f"a frame has a length of {size} bytes, of which {headers} are headers")
        return int(size)


def _read_frame(data: bytes) -> StreamFrame:
    (checksum,) = struct.unpack_from(">I", data, len(data) - _CRC)
    if crc32(data[:-_CRC]) != checksum:
        raise ValueError("the checksum of a frame is wrong")
    headers = _PRELUDE.unpack_from(data)[1]
    end = _PRELUDE.size + headers
    head = data[_PRELUDE.size : end]
    return StreamFrame(head, _read_texts(head), data[end:-_CRC])


def _read_texts(head: bytes) -> dict[str, str]:
    texts: dict[str, str] = {}
    names: set[bytes] = set()
    pos = 0
    try:
        while pos < len(head):
            start = pos + 1
            name = head[start : start + head[pos]]
            pos = start + len(name)
            kind, pos = head[pos], pos + 1
            size = _SIZES[kind]
            if size < 0:
                (size,) = struct.unpack_from(">H", head, pos)
                pos += 2
            value = head[pos : pos + size]
            pos += size
            if len(value) != size or name in names:
                raise ValueError("a header of a frame is cut, or appears twice")
            names.add(name)
            if kind == _STRING:
                texts[name.decode()] = value.decode()
    except (IndexError, KeyError, struct.error):
        raise ValueError("the headers of a frame are not valid") from None
    return texts
