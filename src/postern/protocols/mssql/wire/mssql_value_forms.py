"""Where values end, what is in them, and how they are encoded again: by form (see `mssql_types`), not by type."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.protocols.mssql.wire import mssql_types as t
from postern.protocols.mssql.wire.mssql_types import MssqlType, uint16, uint32

_ONES: Final = b"\xff" * 8
_UNKNOWN: Final = b"\xfe" + b"\xff" * 7  # the length of a PLP value that is sent as it is made
_POINTER: Final = bytes((16,)) + bytes(24)  # a text pointer and a timestamp, which no client uses any more
_LONG_NULL: Final = 0xFFFFFFFF
MAX_LONG: Final = 0x7FFFFFFF


def value_end(buf: bytes, pos: i64, end: i64, form: i64) -> i64:
    """Return where the value at `pos` ends. If it is not all there: minus the position up to which bytes are needed at
    least. Raises ProtocolViolation."""
    after: i64
    if form >= 0:
        after = pos + form
    elif form == t.BYTE:
        if pos >= end:
            return -(pos + 1)
        after = pos + 1 + buf[pos]
    elif form == t.SHORT:
        if end - pos < 2:
            return -(pos + 2)
        size = uint16(buf, pos)
        after = pos + 2 if size == 0xFFFF else pos + 2 + size
    elif form == t.PLP:
        return _plp_end(buf, pos, end)
    elif form == t.POINTER:
        if pos >= end:
            return -(pos + 1)
        if not buf[pos]:
            return pos + 1
        after = pos + 1 + buf[pos] + 8
        if end - after < 4:
            return -(after + 4)
        after += 4 + _long(uint32(buf, after))
    else:  # LONG, VARIANT
        if end - pos < 4:
            return -(pos + 4)
        size = uint32(buf, pos)
        after = pos + 4 if form == t.LONG and size == _LONG_NULL else pos + 4 + _long(size)
    return after if after <= end else -after


def _long(size: i64) -> i64:
    if size > MAX_LONG:
        raise ProtocolViolation(f"a value claims to have {size} bytes")
    return size


def _plp_end(buf: bytes, pos: i64, end: i64) -> i64:
    if end - pos < 8:
        return -(pos + 8)
    if buf[pos + 7] == 0xFF and buf[pos] == 0xFF and buf[pos : pos + 8] == _ONES:
        return pos + 8
    pos += 8
    while True:
        if end - pos < 4:
            return -(pos + 4)
        size = _long(uint32(buf, pos))
        pos += 4 + size
        if not size:
            return pos
        if pos > end:
            return -(pos + 4)


def content(buf: bytes, start: i64, end: i64, form: i64) -> bytes | None:
    """Return the value between `start` and `end`, without lengths; None for NULL."""
    if form >= 0:
        return buf[start:end] if form else None
    if form == t.BYTE:
        return buf[start + 1 : end] if end - start > 1 else None
    if form == t.SHORT:
        if end - start == 2 and buf[start] == 0xFF and buf[start + 1] == 0xFF:
            return None
        return buf[start + 2 : end]
    if form == t.PLP:
        return _plp_content(buf, start, end)
    if form == t.POINTER:
        return buf[start + 1 + buf[start] + 12 : end] if buf[start] else None
    if form == t.LONG:
        return None if uint32(buf, start) == _LONG_NULL else buf[start + 4 : end]
    return buf[start + 4 : end] if end - start > 4 else None


def _plp_content(buf: bytes, start: i64, end: i64) -> bytes | None:
    if end - start == 8:
        return None
    parts: list[bytes] = []
    pos = start + 8
    while end - pos > 4:
        size = uint32(buf, pos)
        parts.append(buf[pos + 4 : pos + 4 + size])
        pos += 4 + size
    joined = parts[0] if len(parts) == 1 else b"".join(parts)
    claimed = buf[start : start + 8]
    if claimed != _UNKNOWN and int.from_bytes(claimed, "little") != len(joined):
        raise ProtocolViolation("a value in chunks has another length than it claims")
    return joined


def encode_content(kind: MssqlType, value: bytes | None) -> bytes:
    """Encode a value with its lengths; None is NULL. Raises ValueError if the form has no NULL, or not that length."""
    form = kind.form
    if form >= 0:
        if value is None or len(value) != form:
            raise ValueError("a value of fixed length has another length, or is NULL")
        return value
    if form == t.BYTE:
        return b"\0" if value is None else bytes((len(value),)) + value
    if form == t.SHORT:
        if value is None:
            return b"\xff\xff"
        return len(value).to_bytes(2, "little") + value
    if form == t.PLP:
        if value is None:
            return _ONES
        size = len(value)
        chunk = size.to_bytes(4, "little") + value if size else b""
        return size.to_bytes(8, "little") + chunk + bytes(4)
    if form == t.POINTER:
        return b"\0" if value is None else _POINTER + len(value).to_bytes(4, "little") + value
    if form == t.LONG and value is None:
        return b"\xff" * 4
    return len(value or b"").to_bytes(4, "little") + (value or b"")


class ValueSkipper:
    """Skips one value that has not arrived completely, in pieces of any size. `over` once it has ended."""

    __slots__ = ("_chunks", "_form", "_left", "over")

    def __init__(self) -> None:
        self.over = True
        self._form: i64 = 0
        self._left: i64 = 0
        self._chunks = False

    def begin(self, form: i64) -> None:
        self._form = form
        self._left = form if form >= 0 else -1
        self._chunks = False
        self.over = self._left == 0

    def skip(self, buf: bytes, pos: i64, end: i64) -> i64:
        """Return how far the value was skipped. Fewer bytes are left than its next length has, if it is not over."""
        while not self.over:
            if self._left < 0 and not self._read_length(buf, pos, end):
                return pos
            step: i64 = min(self._left, end - pos)
            self._left -= step
            pos += step
            if self._left:
                return pos
            if self._chunks:
                self._left = -1
            else:
                self.over = True
        return pos

    def _read_length(self, buf: bytes, pos: i64, end: i64) -> bool:
        """Read the next length. `_left` then has the bytes to skip, with those of the length."""
        if self._chunks:
            if end - pos < 4:
                return False
            size = _long(uint32(buf, pos))
            self._left = 4 + size
            self._chunks = size > 0
            return True
        if self._form == t.PLP:
            if end - pos < 8:
                return False
            self._left = 8
            self._chunks = buf[pos : pos + 8] != _ONES
            return True
        after = value_end(buf, pos, end, self._form)
        if after < 0:
            after = -after
            known = self._length_size(buf, pos, end)
            if end - pos < known:
                return False
        self._left = after - pos
        return True

    def _length_size(self, buf: bytes, pos: i64, end: i64) -> i64:
        """Return the number of bytes that have to be there before the value's end is known."""
        if self._form == t.BYTE:
            return 1
        if self._form == t.SHORT:
            return 2
        if self._form == t.POINTER:
            return 1 if pos >= end else 1 + buf[pos] + 12
        return 4
