"""Conversion of single values to text and back, for display, rules and masking.

`plain` is what people are shown, in UTF-8; values of binary types are their bytes. `scalar_text` and `pack_scalar` are
the forms of `Scalar`. `fit_text` makes a text fit into a column: its code page, its size, its padding.
"""

from __future__ import annotations

import re
import struct
import uuid
from codecs import utf_16_le_decode, utf_16_le_encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from functools import lru_cache, partial
from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Change, Fill, KindChange, Scalar
from postern.protocols.mssql.wire import mssql_types as t
from postern.protocols.mssql.wire.mssql_types import MssqlType, scalar_of

_DAY_1900: Final = date(1900, 1, 1).toordinal()
_MICROS_OF_DAY: Final = 86_400_000_000
_WHOLE: Final = frozenset({t.INTN, t.INT2, t.INT4, t.INT8})
_MONIES: Final = frozenset({t.MONEY, t.MONEY4, t.MONEYN})
_OLD_TIMES: Final = frozenset({t.DATETIME, t.DATETIME4, t.DATETIMEN})
_TEXT_VARIANT: Final = bytes((t.NVARCHAR, 7)) + bytes.fromhex("0904d00034") + (8000).to_bytes(2, "little")
_WHOLE_VARIANTS: Final = t.BYTES | {t.GUID, t.DATE}
_DECIMAL: Final = re.compile(rb"(-?)(\d+)(?:\.(\d+))?")
_VECTOR_HEAD: Final = 8
_BITS: Final[dict[bytes, bytes]] = {b"t": b"\1", b"f": b"\0"}


def plain(kind: MssqlType, data: bytes) -> bytes:
    """Return a value as text in UTF-8. Raises ProtocolViolation for one that its type cannot have."""
    code = kind.code
    try:
        if kind.codec:
            return _read_text(kind, data)
        if code in _WHOLE or code == t.INT1:
            return b"%d" % _whole(data)
        if code in t.DECIMALS:
            return _decimal(data, kind.scale)
        if code in _MONIES:
            return _with_point(_money(data), 4)
        if code in (t.BIT, t.BITN):
            return b"1" if data[0] else b"0"
        if code == t.GUID:
            return str(uuid.UUID(bytes_le=data)).upper().encode()
        if code in (t.REAL, t.FLOAT, t.FLOATN):
            return _float(data)
        if code in t.BYTES or code == t.UDT:
            return data
        if code == t.SQL_VARIANT:
            return plain(*variant(data))
        if code == t.VECTOR:
            return _vector(data)
        return _moment(kind, data)
    except (ValueError, IndexError, struct.error, OverflowError) as error:
        raise ProtocolViolation(f"a value of type {code:#04x} in a row is invalid: {error}") from error


def _read_text(kind: MssqlType, data: bytes) -> bytes:
    if kind.codec == "utf-8":
        return data
    if kind.code == t.XML and data[:2] == b"\xff\xfe":
        data = data[2:]
    if kind.codec == t.UTF16:  # the same as `decode`, which looks for the codec each time
        return utf_16_le_decode(data, "replace", True)[0].encode("utf-8", "replace")
    return data.decode(kind.codec, "replace").encode("utf-8", "replace")


def plain_texts(kind: MssqlType, cells: list[bytes | None]) -> list[bytes]:
    """Return the values of a column that are not NULL, each as `plain` does."""
    values = [cell for cell in cells if cell is not None]
    if kind.codec == "utf-8":
        return values
    if kind.codec == t.UTF16 and kind.code != t.XML:
        texts = _read_together(values)
        if texts is not None:
            return texts
    return [plain(kind, value) for value in values]


def _read_together(values: list[bytes]) -> list[bytes] | None:
    """Read texts in UTF-16 by a single conversion. Returns None if they cannot be told apart."""
    if not values:
        return values
    for value in values:
        if len(value) & 1:
            return None
    texts = utf_16_le_decode(b"\0\0".join(values), "replace", True)[0].encode("utf-8", "replace").split(b"\0")
    return texts if len(texts) == len(values) else None


def _whole(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=len(data) > 1)  # TINYINT has no sign


def _decimal(data: bytes, scale: int) -> bytes:
    if data[0] > 1:
        raise ValueError("its sign")
    number = int.from_bytes(data[1:], "little")
    return _with_point(number if data[0] else -number, scale)


def _with_point(number: int, scale: int) -> bytes:
    sign = "-" if number < 0 else ""
    digits = str(abs(number)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}".encode() if scale else f"{sign}{digits}".encode()


def _money(data: bytes) -> int:
    if len(data) == 4:
        return int.from_bytes(data, "little", signed=True)
    high, low = struct.unpack("<iI", data)
    return int(high) << 32 | int(low)


def _float(data: bytes) -> bytes:
    """Return the shortest text for the same number."""
    if len(data) == 8:
        return repr(struct.unpack("<d", data)[0]).encode()
    (number,) = struct.unpack("<f", data)
    for digits in (6, 7, 8):
        text = f"{number:.{digits}g}"
        if struct.pack("<f", float(text)) == data:
            return text.encode()
    return f"{number:.9g}".encode()


def _vector(data: bytes) -> bytes:
    count = int.from_bytes(data[2:4], "little")
    numbers = struct.unpack(f"<{count}f", data[_VECTOR_HEAD : _VECTOR_HEAD + 4 * count])
    return ("[" + ",".join([_float(struct.pack("<f", number)).decode() for number in numbers]) + "]").encode()


def _moment(kind: MssqlType, data: bytes) -> bytes:
    """Return a date or time, with as many decimals as its type has."""
    if kind.code == t.DATE:
        return _day(data).isoformat().encode()
    if kind.code in _OLD_TIMES:
        at = _old_time(data)
        return at.isoformat(" ", "milliseconds" if len(data) == 8 else "seconds").encode()
    size = t.size_of_time(t.TIME, kind.scale)
    if len(data) != t.size_of_time(kind.code, kind.scale):
        raise ValueError("its length")
    units = int.from_bytes(data[:size], "little")
    if kind.code == t.TIME:
        return _clock(units, kind.scale)
    if kind.code == t.DATETIME2:
        return _day(data[size:]).isoformat().encode() + b" " + _clock(units, kind.scale)
    return _offset_text(kind.scale, units, _day(data[size : size + 3]), data[size + 3 :])


def _offset_text(scale: int, units: int, day: date, zone: bytes) -> bytes:
    """Return a DATETIMEOFFSET, which is in UTC, in its own time zone."""
    minutes = int.from_bytes(zone, "little", signed=True)
    units += minutes * 60 * 10**scale
    days, units = divmod(units, 86_400 * 10**scale)
    day = day + timedelta(days=days)
    sign = "-" if minutes < 0 else "+"
    place = f" {sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    return day.isoformat().encode() + b" " + _clock(units, scale) + place.encode()


def _day(data: bytes) -> date:
    if len(data) != 3:
        raise ValueError("its length")
    return date.fromordinal(int.from_bytes(data, "little") + 1)


def _clock(units: int, scale: int) -> bytes:
    seconds, part = divmod(units, 10**scale)
    if seconds >= 86_400:
        raise ValueError("a time of more than a day")
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return (f"{text}.{part:0{scale}}" if scale else text).encode()


def _old_time(data: bytes) -> datetime:
    if len(data) == 4:
        days, minutes = struct.unpack("<HH", data)
        return datetime.fromordinal(_DAY_1900 + days) + timedelta(minutes=minutes)
    days, ticks = struct.unpack("<iI", data)
    return datetime.fromordinal(_DAY_1900 + days) + timedelta(milliseconds=round(ticks * 10 / 3))


_PROPERTIES: Final = {
    **dict.fromkeys((t.NVARCHAR, t.NCHAR, t.VARCHAR, t.CHAR), 7),
    **dict.fromkeys((t.BINARY, t.VARBINARY, t.DECIMAL, t.NUMERIC), 2),
    **dict.fromkeys(t.SCALED, 1),
}


def variant(data: bytes) -> tuple[MssqlType, bytes]:
    """Return the type and the value inside an SQL_VARIANT. Raises ValueError, IndexError or ProtocolViolation."""
    code, size = data[0], data[1]
    start = 2 + size
    if size != _PROPERTIES.get(code, 0) or len(data) < start:
        raise ValueError("properties of another type")
    properties, value = data[2:start], data[start:]
    if code in t.FIXED:
        kind = MssqlType(code, t.FIXED[code], t.FIXED[code])
    elif size == 7:
        kind = t.read_type(bytes((code,)) + properties[5:] + properties[:5], 0, 8)[0]
    elif code in t.DECIMALS:
        kind = MssqlType(code, t.BYTE, len(value), "", properties[0], properties[1])
    elif code in t.SCALED:
        kind = t.read_type(bytes((code,)) + properties, 0, 2)[0]
    elif code in _WHOLE_VARIANTS:
        kind = MssqlType(code, t.BYTE, len(value))
    else:
        raise ValueError(f"a variant of type {code:#04x}")
    if kind.form >= 0 and len(value) != kind.form:
        raise ValueError("a variant of another length")
    return kind, value


# Encoding


def fit_text(kind: MssqlType, text: bytes) -> bytes:
    """Encode a text in UTF-8 as a value of a text, binary or variant type, cut to its size."""
    if kind.code == t.SQL_VARIANT:
        return _TEXT_VARIANT + fit_text(MssqlType(t.NVARCHAR, t.SHORT, 8000, t.UTF16), text)
    if not kind.codec:
        return text[: kind.size] if kind.form != t.PLP else text
    data = _encode_text(kind.codec, text)
    if kind.form not in (t.PLP, t.POINTER, t.LONG) and len(data) > kind.size:
        data = data[: kind.size].decode(kind.codec, "ignore").encode(kind.codec)
    if kind.code in t.PADDED:
        blank = " ".encode(kind.codec)
        data += blank * ((kind.size - len(data)) // len(blank))
    return data


def _encode_text(codec: str, text: bytes) -> bytes:
    if codec == t.UTF16:
        return utf_16_le_encode(text.decode("utf-8", "replace"), "replace")[0]
    return text.decode("utf-8", "replace").encode(codec, "replace")


def scalar_text(kind: MssqlType, data: bytes) -> bytes:
    """Return a value in the form of its `Scalar`. Raises ProtocolViolation."""
    code = kind.code
    if code in _MONIES:
        return b"%d" % _money(data)
    if code in (t.BIT, t.BITN):
        return b"t" if data[0] else b"f"
    if code == t.GUID:
        return plain(kind, data).lower()
    if code in _OLD_TIMES or code in t.SCALED:
        return _scalar_moment(kind, data)
    return plain(kind, data)


def _scalar_moment(kind: MssqlType, data: bytes) -> bytes:
    try:
        if kind.code in _OLD_TIMES:
            return _old_time(data).isoformat(" ").encode()
        size = t.size_of_time(t.TIME, kind.scale)
        units = int.from_bytes(data[:size], "little")
        micros = units * 10**6 // 10**kind.scale
        clock = datetime.fromordinal(1) + timedelta(microseconds=micros)
        if kind.code == t.TIME:
            return clock.time().isoformat().encode()
        return datetime.combine(_day(data[size : size + 3]), clock.time()).isoformat(" ").encode()
    except (ValueError, OverflowError, struct.error) as error:
        raise ProtocolViolation(f"a time in a row is invalid: {error}") from error


def pack_scalar(kind: MssqlType, text: bytes) -> bytes:
    """Encode a value from the form of its `Scalar`. Raises ValueError if its type cannot have it."""
    try:
        return _pack(kind, text)
    except (struct.error, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"a value does not fit into its type: {error}") from error


def _pack(kind: MssqlType, text: bytes) -> bytes:
    code = kind.code
    if kind.codec or code in t.BYTES or code == t.SQL_VARIANT:
        return fit_text(kind, text)
    if code in _WHOLE or code == t.INT1:
        return int(text).to_bytes(kind.size, "little", signed=kind.size > 1)
    if code in t.DECIMALS:
        return _pack_decimal(kind, text)
    if code in _MONIES:
        number = int(text)
        return struct.pack("<iI", number >> 32, number & 0xFFFFFFFF) if kind.size == 8 else struct.pack("<i", number)
    if code in (t.BIT, t.BITN):
        return _BITS[text] if text in _BITS else bool(int(text)).to_bytes(1, "little")
    if code == t.GUID:
        return uuid.UUID(text.decode()).bytes_le
    if code in (t.REAL, t.FLOAT, t.FLOATN):
        return struct.pack("<f" if kind.size == 4 else "<d", float(text))
    return _pack_moment(kind, text.decode())


def _pack_decimal(kind: MssqlType, text: bytes) -> bytes:
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise ValueError("not a decimal number")
    part = (match[3] or b"")[: kind.scale].ljust(kind.scale, b"0")
    number = int(match[2] + part)
    if kind.precision and number >= 10**kind.precision:
        raise ValueError("more digits than its type has")
    return (b"\0" if match[1] and number else b"\1") + number.to_bytes(kind.size - 1, "little")


def _pack_moment(kind: MssqlType, text: str) -> bytes:
    if kind.code == t.DATE:
        return _pack_day(date.fromisoformat(text))
    if kind.code == t.TIME:
        return _pack_clock(time.fromisoformat(text), kind.scale)
    if kind.code in (t.DATETIME2, t.DATETIMEOFFSET):
        at = datetime.fromisoformat(text)
        zone = bytes(2) if kind.code == t.DATETIMEOFFSET else b""
        return _pack_clock(at.time(), kind.scale) + _pack_day(at.date()) + zone
    if kind.code not in _OLD_TIMES:
        raise ValueError("a value of this type cannot be made from text")
    at = datetime.fromisoformat(text)
    days = at.toordinal() - _DAY_1900
    clock = at.time()
    micros = ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 10**6 + clock.microsecond
    if kind.size == 4:
        return struct.pack("<HH", days, micros // 60_000_000)
    ticks = (micros * 300 + 500_000) // 10**6
    return struct.pack("<iI", days, min(ticks, 86_400 * 300 - 1))


def _pack_day(day: date) -> bytes:
    return (day.toordinal() - 1).to_bytes(3, "little")


def _pack_clock(clock: time, scale: int) -> bytes:
    micros = ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 10**6 + clock.microsecond
    units: int = micros * 10**scale // 10**6
    return units.to_bytes(t.size_of_time(t.TIME, scale), "little")


# Changing values

_NEUTRAL_VARIANT: Final = fit_text(MssqlType(t.SQL_VARIANT, t.VARIANT, 8016), b"")
_EMPTY_TEXTS: Final = {
    Scalar.TIME: b"00:00:00",
    Scalar.DATE: b"1900-01-01",
    Scalar.TIMESTAMP: b"1900-01-01 00:00:00",
    Scalar.MOMENT: b"1900-01-01 00:00:00",
    Scalar.BOOLEAN: b"f",
    Scalar.UUID: b"00000000-0000-0000-0000-000000000000",
    Scalar.TEXT: b"",
    Scalar.BYTES: b"",
    Scalar.JSON: b"{}",
}


def empty_value(kind: MssqlType) -> bytes:
    """Return the value that stands for NULL in a column that cannot have NULL: clients trust its description."""
    if kind.code == t.SQL_VARIANT:
        return _NEUTRAL_VARIANT
    scalar = scalar_of(kind)
    if scalar is Scalar.OTHER:
        return bytes(max(kind.form, 0))
    return pack_scalar(kind, _EMPTY_TEXTS.get(scalar, b"0"))


@lru_cache(maxsize=1024)
def _empty(kind: MssqlType) -> bytes | None:
    return None if kind.is_nullable else empty_value(kind)


def cell_change(kind: MssqlType, by: Change) -> Callable[[bytes], bytes | None]:
    """Return the change of a column's values, without lengths. None becomes NULL; a column without NULL gets an empty
    value. So does what is not valid for its type."""
    scalar = scalar_of(kind)
    empty = _empty(kind)
    if scalar is Scalar.OTHER:
        return lambda data: data if by(Scalar.OTHER, data) == data else empty
    ask = _by_scalar(by, scalar)

    def each(data: bytes) -> bytes | None:
        try:
            text = scalar_text(kind, data)
        except ProtocolViolation:
            return data if by(Scalar.OTHER, data) == data else empty
        new = ask(text)
        if new is None:
            return empty
        if new == text:
            return data
        try:
            return pack_scalar(kind, new)
        except ValueError:
            return empty

    return each


def _by_scalar(by: Change, scalar: Scalar) -> Callable[[bytes], bytes | None]:
    return by.of(scalar) if isinstance(by, KindChange) else partial(by, scalar)


def change_cells(kind: MssqlType, cells: list[bytes | None], by: Change) -> list[bytes | None]:
    """Return the values of a column, each changed as `cell_change` does."""
    if kind.codec and scalar_of(kind) is Scalar.TEXT:
        return _change_texts(kind, cells, by)
    each = cell_change(kind, by)
    changes: dict[bytes, bytes | None] = {}
    for cell in cells:
        if cell is not None and cell not in changes:
            changes[cell] = each(cell)
    return [None if cell is None else changes[cell] for cell in cells]


def _change_texts(kind: MssqlType, cells: list[bytes | None], by: Change) -> list[bytes | None]:
    """Change all texts of a column, which are read together."""
    empty = _empty(kind)
    ask: Callable[[bytes], bytes | None] = (
        by.of(Scalar.TEXT) if isinstance(by, KindChange) else partial(by, Scalar.TEXT)
    )
    values = [cell for cell in cells if cell is not None]
    changes: dict[bytes, bytes | None] = {}
    for cell, text in zip(values, plain_texts(kind, cells), strict=True):
        if cell not in changes:
            new = ask(text)
            changes[cell] = empty if new is None else cell if new == text else fit_text(kind, new)
    return [None if cell is None else changes[cell] for cell in cells]


def fill_value(kind: MssqlType, by: Fill) -> bytes | None:
    """Return the value that every cell of a column gets."""
    scalar = scalar_of(kind)
    constant = by.constant(scalar)
    if scalar is Scalar.OTHER or constant is None or constant[0] is None:
        return _empty(kind)
    try:
        return pack_scalar(kind, constant[0])
    except ValueError:
        return _empty(kind)
