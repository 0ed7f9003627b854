"""The fields of TTC messages: integers, counted bytes and texts.

An integer is a byte with its length (bit 7: negative) and that many bytes. Counted bytes begin with their length; 254
announces pieces, each with an integer of its own, up to an empty one; 0 and 255 are NULL.
"""

from __future__ import annotations

import struct

PIECES, NULL = 254, 255
LONGEST_PLAIN = 252
PIECE = 32767


class Incomplete(Exception):
    """The message continues in a packet that has not arrived yet."""


class BadMessage(Exception):
    """The message cannot be read."""


class FieldReader:
    """Reads fields one after the other. Raises Incomplete at the end of the bytes, and BadMessage."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def remaining(self) -> int:
        return len(self._data) - self.position

    def raw(self, length: int) -> bytes:
        end = self.position + length
        if end > len(self._data):
            raise Incomplete
        piece = self._data[self.position : end]
        self.position = end
        return piece

    def byte(self) -> int:
        return self.raw(1)[0]

    def uint16(self) -> int:
        return int.from_bytes(self.raw(2), "big")

    def uint16_little(self) -> int:
        return int.from_bytes(self.raw(2), "little")

    def integer(self) -> int:
        length = self.byte()
        negative, length = bool(length & 0x80), length & 0x7F
        if length > 8:
            raise BadMessage(f"an integer of {length} bytes at {self.position}")
        value = int.from_bytes(self.raw(length), "big")
        return -value if negative else value

    def counted(self) -> bytes | None:
        length = self.byte()
        if length in (0, NULL):
            return None
        if length != PIECES:
            return self.raw(length)
        pieces = []
        while size := self.integer():
            pieces.append(self.raw(size))
        return b"".join(pieces)

    def sized(self) -> bytes:
        """Read bytes behind an integer with their length."""
        return (self.counted() or b"") if self.integer() else b""

    def text(self, length: int, is_counted: bool) -> bytes:
        """Read a text whose length went before it: some clients count it once more, others send it as it is."""
        if not length:
            return b""
        return (self.counted() or b"") if is_counted else self.raw(length)

    def until_zero(self) -> bytes:
        end = self._data.find(b"\0", self.position)
        if end < 0:
            raise Incomplete
        piece = self._data[self.position : end]
        self.position = end + 1
        return piece


def integer(value: int) -> bytes:
    """Return an integer in its shortest form."""
    size = (abs(value).bit_length() + 7) // 8
    return bytes([size | (0x80 if value < 0 else 0)]) + abs(value).to_bytes(size, "big")


def counted(value: bytes | None) -> bytes:
    if not value:
        return b"\0"
    if len(value) <= LONGEST_PLAIN:
        return bytes([len(value)]) + value
    pieces = [value[start : start + PIECE] for start in range(0, len(value), PIECE)]
    return bytes([PIECES]) + b"".join(integer(len(piece)) + piece for piece in pieces) + b"\0"


def sized(value: bytes | str | None) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return integer(len(data)) + counted(data) if data else b"\0"


def fields(*values: int | bytes) -> bytes:
    """Return integers in their wire form and bytes as they are, joined."""
    return b"".join(integer(value) if isinstance(value, int) else value for value in values)


def uint16(value: int) -> bytes:
    return struct.pack(">H", value)
