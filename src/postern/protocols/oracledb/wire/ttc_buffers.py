"""The primitives of TTC in their universal representation.

    ub1                one byte
    ub2, ub4, ub8      a byte with the number of bytes that follow (at most 2, 4, 8), then these, big-endian
    sb2, sb4, sb8      the same; the highest bit of the first byte is the sign
    clr                a byte with the length up to 252, then the bytes; 0 and 255 are NULL; 254: chunks, each a ub4
                       length and its bytes, up to a length of 0
    dlc                a ub4; if it is not 0, a clr follows

A message has no length of its own. A reader that runs out of bytes raises `TtcIncomplete`, with the number of bytes
that it needs at least, and the message is read again from its beginning once these have arrived.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation

MAX_SHORT: Final = 252
LONG: Final = 254
NULL: Final = 255
ESCAPE: Final = 253
CHUNK: Final = 32_767


class TtcIncomplete(Exception):
    """The message goes on beyond the bytes at hand. `size` is the least size of the data with which to try again."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class TtcReader:
    """Reads primitives from `pos` on. Raises TtcIncomplete and ProtocolViolation."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int = 0) -> None:
        self.data = data
        self.pos: i64 = pos
        self.end: i64 = len(data)

    def _need(self, count: i64) -> None:
        if self.end - self.pos < count:
            raise TtcIncomplete(int(self.pos + count))

    def ub1(self) -> int:
        pos = self.pos
        if pos >= self.end:
            raise TtcIncomplete(int(pos + 1))
        self.pos = pos + 1
        return self.data[pos]

    def _number(self, most: i64, size: i64) -> int:
        if size > most:
            raise ProtocolViolation(f"a number of {size} bytes where at most {most} are allowed")
        pos = self.pos
        if self.end - pos < size:
            raise TtcIncomplete(int(pos + size))
        self.pos = pos + size
        if size == 0:
            return 0
        if size == 1:
            return self.data[pos]
        return int.from_bytes(self.data[pos : pos + size], "big")

    def ub2(self) -> int:
        return self._number(2, self.ub1())

    def ub4(self) -> int:
        return self._number(4, self.ub1())

    def ub8(self) -> int:
        return self._number(8, self.ub1())

    def _read_signed(self, most: i64) -> int:
        size = self.ub1()
        value = self._number(most, size & 0x7F)
        return -value if size & 0x80 else value

    def sb1(self, packed: bool) -> int:
        """Read a signed byte; `packed`: it has the form of larger numbers, as some clients negotiate."""
        if packed:
            return self._read_signed(2)
        value = self.ub1()
        return value - 256 if value > 127 else value

    def sb2(self) -> int:
        return self._read_signed(2)

    def sb4(self) -> int:
        return self._read_signed(4)

    def sb8(self) -> int:
        return self._read_signed(8)

    def raw(self, count: int) -> bytes:
        self._need(count)
        pos = self.pos
        self.pos = pos + count
        return self.data[pos : pos + count]

    def skip(self, count: int) -> None:
        self._need(count)
        self.pos += count

    def clr(self) -> bytes | None:
        """Return the bytes of a clr, None for NULL."""
        size = self.ub1()
        if size == 0 or size == NULL:
            return None
        if size <= MAX_SHORT:
            return self.raw(size)
        if size != LONG:
            raise ProtocolViolation(f"a value of the reserved length {size}")
        chunks: list[bytes] = []
        while True:
            count = self.ub4()
            if not count:
                return b"".join(chunks)
            chunks.append(self.raw(count))

    def skip_clr(self) -> None:
        size = self.ub1()
        if size == 0 or size == NULL:
            return
        if size <= MAX_SHORT:
            self.skip(size)
            return
        if size != LONG:
            raise ProtocolViolation(f"a value of the reserved length {size}")
        while True:
            count = self.ub4()
            if not count:
                return
            self.skip(count)

    def text(self, size: int, is_counted: bool) -> bytes:
        """Return a text whose length came before; `is_counted`: it comes once more."""
        if not size:
            return b""
        if not is_counted:
            return self.raw(size)
        text = self.clr() or b""
        if len(text) != size:
            raise ProtocolViolation("a text has another length than it was announced with")
        return text

    def dlc(self) -> bytes:
        return (self.clr() or b"") if self.ub4() else b""

    def skip_dlc(self) -> None:
        if self.ub4():
            self.skip_clr()

    def null_terminated(self, most: int) -> bytes:
        at = self.data.find(b"\0", int(self.pos), int(self.pos) + most + 1)
        if at < 0:
            if self.end - self.pos > most:
                raise ProtocolViolation(f"a text of more than {most} bytes")
            raise TtcIncomplete(int(self.end) + 1)
        text = self.data[self.pos : at]
        self.pos = at + 1
        return text

    def zeros(self, count: int, what: str) -> None:
        """Read fields that must be 0, because what they announce is not supported."""
        for _ in range(count):
            if self.ub1():
                raise ProtocolViolation(f"{what} is not supported")


_SMALL: Final = [b"\0"] + [bytes((1, value)) for value in range(1, 256)]


def pack_number(value: int) -> bytes:
    """Encode a ub2, ub4 or ub8."""
    if value < 256:
        return _SMALL[value]
    size = 2 if value < 1 << 16 else 4 if value < 1 << 32 else 8
    return bytes((size,)) + value.to_bytes(size, "big")


def pack_signed(value: int) -> bytes:
    """Encode an sb2, sb4 or sb8."""
    if value >= 0:
        return pack_number(value)
    data = pack_number(-value)
    return bytes((data[0] | 0x80,)) + data[1:]


def pack_clr(value: bytes | None) -> bytes:
    """Encode a clr; None and nothing are NULL, as everywhere in Oracle Database."""
    if not value:
        return b"\0"
    size = len(value)
    if size <= MAX_SHORT:
        return bytes((size,)) + value
    out = [bytes((LONG,))]
    for start in range(0, size, CHUNK):
        part = value[start : start + CHUNK]
        out.append(pack_number(len(part)))
        out.append(part)
    out.append(b"\0")
    return b"".join(out)


def pack_dlc(value: bytes) -> bytes:
    return pack_number(len(value)) + pack_clr(value) if value else b"\0"
