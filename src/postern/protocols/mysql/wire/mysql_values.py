"""Conversion of single values to text and back, for display, rules and masking.

`plain` and `pack_value` convert between a value in a binary row and the text that a query would return. `CellChange`
decides about values of columns in either format. A value that cannot be parsed, or whose type has no value to replace
it, becomes NULL unless the change leaves it as it is.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from functools import partial
from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Change, Fill, KindChange, Scalar
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_messages import MysqlField
from postern.protocols.mysql.wire.mysql_types import DATED, SIZED, scalar_of, width_of

_TIME: Final = struct.Struct("<BIBBB")
_DAYS: Final = struct.Struct("<HBB")
_CLOCK: Final = re.compile(rb"\d\d:\d\d:\d\d(\.\d{1,6})?")
_WHOLE: Final = re.compile(rb"-?\d+")
_DECIMAL: Final = re.compile(rb"-?\d+(\.\d+)?")


def _micros(data: bytes, at: int) -> bytes:
    """Return the fractional digits, as the value has them: none or six."""
    if len(data) <= at:
        return b""
    return b".%06d" % int.from_bytes(data[at : at + 4], "little")


def _date(data: bytes) -> bytes:
    """Return a date as text; a length of 0 is the zero date."""
    if len(data) not in (0, 4, 7, 11):
        raise ProtocolViolation("a date in a row has an invalid length")
    year, month, day = _DAYS.unpack_from(data) if data else (0, 0, 0)
    return b"%04d-%02d-%02d" % (year, month, day)


def _stamp(data: bytes) -> bytes:
    days = _date(data)
    hours = bytes(data[4:7]) or bytes(3)
    return days + b" %02d:%02d:%02d" % tuple(hours) + _micros(data, 7)


def _time(data: bytes) -> bytes:
    if len(data) not in (0, 8, 12):
        raise ProtocolViolation("a time in a row has an invalid length")
    negative, days, hours, minutes, seconds = _TIME.unpack_from(data) if data else (0, 0, 0, 0, 0)
    sign = b"-" if negative else b""
    return sign + b"%02d:%02d:%02d" % (days * 24 + hours, minutes, seconds) + _micros(data, 8)


def plain(kind: int, unsigned: bool, data: bytes) -> bytes:
    """Return a value of a binary row as text. Raises ProtocolViolation for one of an impossible size."""
    if kind in (m.DATE, m.NEWDATE):
        return _date(data)
    if kind in (m.DATETIME, m.TIMESTAMP):
        return _stamp(data)
    if kind == m.TIME:
        return _time(data)
    if width_of(kind) < 0:
        return data
    if len(data) != width_of(kind):
        raise ProtocolViolation("the size of a number in a row differs from its type")
    if kind == m.FLOAT:
        return _float(struct.unpack("<f", data)[0], "%.6g")
    if kind == m.DOUBLE:
        return _float(struct.unpack("<d", data)[0], "%.17g")
    if kind == m.YEAR:
        return b"%04d" % int.from_bytes(data, "little")
    return b"%d" % int.from_bytes(data, "little", signed=not unsigned)


def _float(number: float, form: str) -> bytes:
    """Return the shortest text for the same number; for 4 bytes, the text that servers return."""
    return (repr(number) if form == "%.17g" else form % number).encode()


def pack_value(kind: int, unsigned: bool, text: bytes) -> bytes:
    """Encode a text as a value of a binary row. Raises ValueError if it is not valid for the type."""
    if kind in (m.DATE, m.NEWDATE):
        day = date.fromisoformat(text.decode())
        return _DAYS.pack(day.year, day.month, day.day)
    if kind in (m.DATETIME, m.TIMESTAMP):
        at = datetime.fromisoformat(text.decode())
        data = _DAYS.pack(at.year, at.month, at.day) + bytes((at.hour, at.minute, at.second))
        return data + (at.microsecond.to_bytes(4, "little") if at.microsecond else b"")
    if kind == m.TIME:
        clock = time.fromisoformat(text.decode())
        data = _TIME.pack(0, 0, clock.hour, clock.minute, clock.second)
        return data + (clock.microsecond.to_bytes(4, "little") if clock.microsecond else b"")
    try:
        if kind == m.FLOAT:
            return struct.pack("<f", float(text))
        if kind == m.DOUBLE:
            return struct.pack("<d", float(text))
        width = width_of(kind)
        return text if width < 0 else int(text).to_bytes(width, "little", signed=not unsigned)
    except (OverflowError, struct.error) as error:
        raise ValueError("the number does not fit into its type") from error


def read_binary(payload: bytes, pos: int, end: int, kind: int) -> tuple[bytes, int]:
    """Return the value of that type at `pos`, without its length, and where it ends."""
    width = width_of(kind)
    if width == SIZED:
        text, after = m.read_text(payload, pos, end)
        return text, int(after)
    if width == DATED:
        if pos >= end:
            raise ProtocolViolation("a row is truncated")
        width = payload[pos]
        pos += 1
    if end - pos < width:
        raise ProtocolViolation("a row is truncated")
    return payload[pos : pos + width], pos + width


def add_length_prefix(kind: int, data: bytes) -> bytes:
    """Return the value with its length, as in a binary row."""
    width = width_of(kind)
    if width == SIZED:
        return m.lenenc_text(data)
    return data if width >= 0 else len(data).to_bytes(1, "little") + data


def binary_texts(payload: bytes, fields: Sequence[MysqlField]) -> tuple[bytes | None, ...]:
    """Return the cells of a prepared statement's row as plain text, None for NULL. Raises ProtocolViolation for
    anything else than exactly such a row."""
    pos = 1 + (len(fields) + 9) // 8
    end = len(payload)
    if end < pos or payload[0] != 0:
        raise ProtocolViolation("a row is truncated")
    cells: list[bytes | None] = []
    for at, field in enumerate(fields):
        if payload[1 + (at + 2) // 8] >> (at + 2) % 8 & 1:
            cells.append(None)
            continue
        data, pos = read_binary(payload, pos, end, field.type)
        cells.append(plain(field.type, bool(field.flags & m.UNSIGNED), data))
    if pos != end:
        raise ProtocolViolation("a row is longer than its columns")
    return tuple(cells)


# Changing values


def _day_text(text: bytes) -> bytes:
    return date.fromisoformat(text.decode()).isoformat().encode()


def _clock_text(text: bytes) -> bytes:
    if _CLOCK.fullmatch(text) is None:
        raise ValueError("not a time of a day")
    return time.fromisoformat(_six(text.decode())).isoformat().encode()


def _stamp_text(text: bytes) -> bytes:
    return datetime.fromisoformat(_six(text.decode())).isoformat(" ").encode()


def _six(text: str) -> str:
    whole, point, part = text.partition(".")
    return f"{whole}.{part.ljust(6, '0')}" if point else text


def _require_match(pattern: re.Pattern[bytes], text: bytes) -> bytes:
    if pattern.fullmatch(text) is None:
        raise ValueError("not a value of its type")
    return text


def _float_text(text: bytes) -> bytes:
    return repr(float(text)).encode()


_READ: Final[dict[Scalar, Callable[[bytes], bytes]]] = {
    Scalar.SMALLINT: partial(_require_match, _WHOLE),
    Scalar.INTEGER: partial(_require_match, _WHOLE),
    Scalar.BIGINT: partial(_require_match, _WHOLE),
    Scalar.DECIMAL: partial(_require_match, _DECIMAL),
    Scalar.REAL: _float_text,
    Scalar.DOUBLE: _float_text,
    Scalar.DATE: _day_text,
    Scalar.TIME: _clock_text,
    Scalar.TIMESTAMP: _stamp_text,
}


def _bits(data: bytes) -> bytes:
    """Return as many zeros and ones as its bytes have: the number of bits of the column is unknown here."""
    return "".join([f"{byte:08b}" for byte in data]).encode()


def _bits_packed(text: bytes, size: int) -> bytes:
    if re.fullmatch(rb"[01]*", text) is None or len(text) > size * 8:
        raise ValueError("not as many zeros and ones as the column has")
    return int(text or b"0", 2).to_bytes(size, "big")


def cell_change(field: MysqlField, binary: bool, by: Change) -> Callable[[bytes], bytes | None]:
    """Return the change of a cell of that column, in its form in a row without its length; None becomes NULL."""
    scalar = scalar_of(field)
    if scalar is Scalar.OTHER:
        return lambda cell: _other(cell, by)
    ask: Callable[[bytes], bytes | None] = by.of(scalar) if isinstance(by, KindChange) else partial(by, scalar)
    if scalar is Scalar.BITS:
        return lambda cell: _of_bits(cell, ask)
    read = _READ.get(scalar)
    if read is None:
        return ask
    unsigned = bool(field.flags & m.UNSIGNED)

    def each(cell: bytes) -> bytes | None:
        try:
            plain_value = read(plain(field.type, unsigned, cell) if binary else cell)
        except (ValueError, ProtocolViolation):
            return _other(cell, by)
        new = ask(plain_value)
        if new is None or new == plain_value:
            return cell if new is not None else None
        try:
            data = pack_value(field.type, unsigned, new)
            return data if binary else new
        except ValueError:
            return None

    return each


def fill_value(field: MysqlField, binary: bool, by: Fill) -> bytes | None:
    """Return the value that every cell of that column gets."""
    scalar = scalar_of(field)
    constant = by.constant(scalar)
    if scalar is Scalar.OTHER or constant is None or constant[0] is None or scalar not in _READ or not binary:
        return None if scalar is Scalar.OTHER or constant is None else constant[0]
    try:
        return pack_value(field.type, bool(field.flags & m.UNSIGNED), constant[0])
    except ValueError:
        return None


def _of_bits(cell: bytes, ask: Callable[[bytes], bytes | None]) -> bytes | None:
    data = _bits(cell)
    new = ask(data)
    if new is None or new == data:
        return cell if new is not None else None
    try:
        return _bits_packed(new, len(cell))
    except ValueError:
        return None


def _other(cell: bytes, by: Change) -> bytes | None:
    return cell if by(Scalar.OTHER, cell) == cell else None
