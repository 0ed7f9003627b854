"""Values of Oracle Database as text, and back.

NUMBER        a byte of sign and exponent, then digits to the base 100
DATE          century and year plus 100, month, day; hour, minute and second plus 1
TIMESTAMP     a DATE, then nanoseconds in 4 bytes; with a time zone, 2 bytes of it. The time is in UTC then
INTERVAL      numbers with an offset
BINARY_FLOAT  IEEE 754, changed so that bytes sort like numbers; BINARY_DOUBLE is alike
"""

from __future__ import annotations

import re
import struct
from typing import Final

from postern.interception.events import Scalar, TextKind
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.ttc_columns import OracleColumn

MAX_NUMBER: Final = 21  # bytes
_MAX_DIGITS: Final = 40
_DURATION: Final = 0x80000000
_OFFSET: Final = 60
_HOUR_ZONE, _MINUTE_ZONE = 20, 60
_REGION: Final = 0x80
_TEXT_NUMBER: Final = re.compile(rb"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,4}))?")


def number_text(data: bytes) -> bytes:
    """Return a NUMBER as text: digits, a sign and a point, without an exponent. Raises ValueError."""
    if not data or len(data) > MAX_NUMBER + 1:
        raise ValueError("not a NUMBER")
    first = data[0]
    if len(data) == 1:
        if first == 0x80:
            return b"0"
        if first == 0:
            return b"-~"  # negative infinity
        raise ValueError("not a NUMBER")
    positive = bool(first & 0x80)
    if positive:
        if first == 255 and data[1:] == b"\x65":
            return b"~"
        pairs = [byte - 1 for byte in data[1:]]
        exponent = first - 193
    else:
        body = data[1:-1] if data[-1] == 102 else data[1:]
        pairs = [101 - byte for byte in body]
        exponent = 62 - first
    if not pairs or any(not 0 <= pair <= 99 for pair in pairs):
        raise ValueError("not a NUMBER")
    digits = b"".join([b"%02d" % pair for pair in pairs])
    point = 2 * (exponent + 1)
    if point <= 0:
        whole, fraction = b"0", b"0" * -point + digits
    else:
        whole, fraction = digits[:point].ljust(point, b"0"), digits[point:]
    whole = whole.lstrip(b"0") or b"0"
    fraction = fraction.rstrip(b"0")
    return (b"" if positive else b"-") + whole + (b"." + fraction if fraction else b"")


def pack_number_text(text: bytes) -> bytes:
    """Return the NUMBER for a text. Raises ValueError for one that is none, or is outside of its range."""
    match = _TEXT_NUMBER.fullmatch(text)
    if text in (b"~", b"-~"):
        return b"\xff\x65" if text == b"~" else b"\0"
    if match is None or not (match[2] or match[3]):
        raise ValueError("not a number")
    digits = match[2] + (match[3] or b"")
    point = len(match[2]) + int(match[4] or 0)
    stripped = digits.lstrip(b"0")
    point -= len(digits) - len(stripped)
    digits = stripped.rstrip(b"0")
    if not digits:
        return b"\x80"
    if point % 2:
        digits, point = b"0" + digits, point + 1
    digits += b"0" * (len(digits) % 2)
    if len(digits) > _MAX_DIGITS or not -128 < point <= 126:
        raise ValueError("the number is outside of the range of NUMBER")
    pairs = [int(digits[at : at + 2]) for at in range(0, len(digits), 2)]
    exponent = point // 2 - 1
    if match[1] != b"-":
        return bytes((exponent + 193, *[pair + 1 for pair in pairs]))
    tail = (102,) if len(pairs) < 20 else ()
    return bytes((62 - exponent, *[101 - pair for pair in pairs], *tail))


def time_text(data: bytes) -> bytes:
    """Return a DATE or TIMESTAMP as text, with its zone if it has one. Raises ValueError."""
    if len(data) not in (7, 11, 13):
        raise ValueError("not a date")
    year = (data[0] - 100) * 100 + data[1] - 100
    sign = b"-" if year < 0 else b""
    text = sign + b"%04d-%02d-%02d %02d:%02d:%02d" % (
        *(abs(year), data[2], data[3]),
        *(data[4] - 1, data[5] - 1, data[6] - 1),
    )
    nanoseconds = int.from_bytes(data[7:11], "big")
    if nanoseconds:
        text += b"." + (b"%09d" % nanoseconds).rstrip(b"0")
    if len(data) == 13:
        text += _zone_text(data[11], data[12])
    return text


def _zone_text(hour: int, minute: int) -> bytes:
    if hour & _REGION:
        return b" UTC[%d]" % ((hour & 0x7F) << 6 | (minute & 0xFC) >> 2)
    hours, minutes = (hour - _HOUR_ZONE, minute - _MINUTE_ZONE) if hour and minute else (0, 0)
    return (
        b" UTC"
        if not (hours or minutes)
        else b" UTC%s%02d:%02d"
        % (
            b"-" if hours < 0 or minutes < 0 else b"+",
            abs(hours),
            abs(minutes),
        )
    )


_DATE: Final = re.compile(rb"(-?)(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?)?")


def pack_time(text: bytes, old: bytes) -> bytes:
    """Return the value of a text, in the form of the value that it replaces. Raises ValueError."""
    match = _DATE.match(text)
    if match is None:
        raise ValueError("not a date")
    year = int(match[2]) * (-1 if match[1] else 1)
    month, day = int(match[3]), int(match[4])
    hour, minute, second = int(match[5] or 0), int(match[6] or 0), int(match[7] or 0)
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60 and year >= -4712):
        raise ValueError("not a date")
    century = abs(year) // 100 * (-1 if year < 0 else 1)
    rest = abs(year) % 100 * (-1 if year < 0 else 1)
    data = bytes((century + 100, rest + 100, month, day, hour + 1, minute + 1, second + 1))
    if len(old) < 11:
        return data
    return data + int((match[8] or b"").ljust(9, b"0")).to_bytes(4, "big") + old[11:]


def interval_ym_text(data: bytes) -> bytes:
    """Return an INTERVAL YEAR TO MONTH as `years-months`. Raises ValueError."""
    if len(data) != 5:
        raise ValueError("not an interval")
    months = (int.from_bytes(data[:4], "big") - _DURATION) * 12 + data[4] - _OFFSET
    years, rest = divmod(abs(months), 12)
    return b"%s%d-%02d" % (b"-" if months < 0 else b"", years, rest)


def interval_ds_text(data: bytes) -> bytes:
    """Return an INTERVAL DAY TO SECOND as `days hours:minutes:seconds`. Raises ValueError."""
    if len(data) != 11:
        raise ValueError("not an interval")
    days = int.from_bytes(data[:4], "big") - _DURATION
    hours, minutes, seconds = data[4] - _OFFSET, data[5] - _OFFSET, data[6] - _OFFSET
    nanoseconds = int.from_bytes(data[7:11], "big") - _DURATION
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 10**9 + nanoseconds
    whole, fraction = divmod(abs(total), 10**9)
    text = b"%s%d %02d:%02d:%02d" % (
        b"-" if total < 0 else b"",
        whole // 86_400,
        whole // 3_600 % 24,
        whole // 60 % 60,
        whole % 60,
    )
    return text + (b"." + (b"%09d" % fraction).rstrip(b"0") if fraction else b"")


def _sortable(data: bytes) -> bytes:
    """Turn the sortable form of a float into IEEE 754."""
    if data[0] & 0x80:
        return bytes((data[0] & 0x7F,)) + data[1:]
    return bytes([byte ^ 0xFF for byte in data])


def float_text(data: bytes) -> bytes:
    """Return a BINARY_FLOAT or BINARY_DOUBLE as Python writes a float. Raises ValueError."""
    if len(data) not in (4, 8):
        raise ValueError("not a float")
    number: float = struct.unpack(">f" if len(data) == 4 else ">d", _sortable(data))[0]
    return repr(number).encode()


def pack_float(text: bytes, size: int) -> bytes:
    """Return the float for a text. Raises ValueError."""
    try:
        data = struct.pack(">f" if size == 4 else ">d", float(text))
    except OverflowError:
        raise ValueError("the number is outside of the range of its type") from None
    if data[0] & 0x80:
        return bytes([byte ^ 0xFF for byte in data])
    return bytes((data[0] | 0x80,)) + data[1:]


def value_text(column: OracleColumn, data: bytes) -> bytes:
    """Return a value as text in UTF-8; hexadecimal where its type has no text, or it is not valid."""
    kind = column.type
    try:
        if kind in c.CHARACTERS:
            return data if column.form != c.NCHAR else data.decode("utf-16-be", "replace").encode("utf-8", "replace")
        if kind in c.NUMBERS:
            return number_text(data)
        if kind in c.TIMES:
            return time_text(data)
        if kind in c.INTERVALS_YM:
            return interval_ym_text(data)
        if kind in c.INTERVALS_DS:
            return interval_ds_text(data)
        if kind in (c.BINARY_FLOAT, c.BINARY_DOUBLE):
            return float_text(data)
        if kind == c.BOOLEAN:
            return b"true" if data[0] == 1 else b"false"
    except (ValueError, IndexError):
        pass
    return data.hex().upper().encode()


def is_utf8(column: OracleColumn) -> bool:
    """Return True if the values of a column are texts as they are shown."""
    return column.type in c.CHARACTERS and column.form != c.NCHAR


def kind_of(column: OracleColumn) -> TextKind:
    """Return the kind of a column's texts."""
    if column.type in c.CHARACTERS:
        return TextKind.TEXT
    return TextKind.NUMBER if column.type in c.NUMBERS else TextKind.OPAQUE


def scalar_of(column: OracleColumn) -> Scalar:
    """Return the type of a column's values, for changes by type."""
    kind = column.type
    if kind in c.CHARACTERS:
        return Scalar.TEXT
    if kind in c.NUMBERS:
        return Scalar.DECIMAL
    if kind in c.TIMES:
        return Scalar.TIMESTAMP
    if kind == c.BINARY_FLOAT:
        return Scalar.REAL
    if kind == c.BINARY_DOUBLE:
        return Scalar.DOUBLE
    if kind == c.BOOLEAN:
        return Scalar.BOOLEAN
    return Scalar.BYTES if kind in c.BINARIES else Scalar.OTHER


def plain_form(column: OracleColumn, data: bytes) -> bytes:
    """Return a value in the plain form of its `Scalar`. Raises ValueError for a value that is not valid."""
    scalar = scalar_of(column)
    if scalar is Scalar.TIMESTAMP:
        return time_text(data).partition(b" UTC")[0]
    if scalar is Scalar.BOOLEAN:
        return b"t" if data[:1] == b"\1" else b"f"
    if scalar is Scalar.BYTES or scalar is Scalar.OTHER:
        return data
    if scalar is Scalar.DECIMAL:
        return number_text(data)
    if scalar is Scalar.REAL or scalar is Scalar.DOUBLE:
        return float_text(data)
    return value_text(column, data)


def pack_plain(column: OracleColumn, plain: bytes | None, old: bytes) -> bytes | None:
    """Return the value of a changed plain form. What is not valid for the type becomes NULL, and so does an empty text,
    as everywhere in Oracle Database."""
    if not plain:
        return None
    scalar = scalar_of(column)
    try:
        if scalar is Scalar.TEXT:
            return plain if column.form != c.NCHAR else plain.decode("utf-8", "replace").encode("utf-16-be")
        if scalar is Scalar.DECIMAL:
            return pack_number_text(plain)
        if scalar is Scalar.TIMESTAMP:
            return pack_time(plain, old)
        if scalar is Scalar.REAL or scalar is Scalar.DOUBLE:
            return pack_float(plain, 4 if scalar is Scalar.REAL else 8)
    except (ValueError, OverflowError):
        return None
    if scalar is Scalar.BOOLEAN:
        return b"\1\1" if plain in (b"t", b"true") else b"\0"
    if scalar is Scalar.BYTES:
        return plain
    return old if plain == old else None
