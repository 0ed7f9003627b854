"""Oracle's types and the bytes of their values, by a codec of the test server's own.

A value in Python is an int or Decimal (NUMBER), str (texts), bytes (RAW), float (BINARY_*), datetime (DATE and
TIMESTAMP*), or None.
"""

from __future__ import annotations

import datetime
import struct
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

VARCHAR2, NUMBER, INTEGER, LONG, ROWID, DATE, RAW, LONG_RAW = 1, 2, 3, 8, 11, 12, 23, 24
CHAR, BINARY_FLOAT, BINARY_DOUBLE, CURSOR, CLOB, BLOB = 96, 100, 101, 102, 112, 113
TIMESTAMP, TIMESTAMP_TZ, TIMESTAMP_LTZ, UROWID, BOOLEAN = 180, 181, 231, 208, 252
TEXTS = frozenset({VARCHAR2, CHAR, LONG, CLOB, ROWID, UROWID, 5, 9, 94, 97, 155})
NUMBERS = frozenset({NUMBER, INTEGER, 4, 6, 68, 91})
MOMENTS = frozenset({DATE, TIMESTAMP, TIMESTAMP_TZ, TIMESTAMP_LTZ})
LOBS = frozenset({CLOB, BLOB})
UTF8, UTF16 = 873, 2000  # character sets: AL32UTF8, AL16UTF16
IMPLICIT, NATIONAL = 1, 2  # forms of character sets
NAMES = {VARCHAR2: "VARCHAR2", NUMBER: "NUMBER", LONG: "LONG", DATE: "DATE", RAW: "RAW", LONG_RAW: "LONG RAW"}
NAMES |= {CHAR: "CHAR", BINARY_FLOAT: "BINARY_FLOAT", BINARY_DOUBLE: "BINARY_DOUBLE", CLOB: "CLOB", BLOB: "BLOB"}
NAMES |= {TIMESTAMP: "TIMESTAMP(6)", TIMESTAMP_TZ: "TIMESTAMP(6) WITH TIME ZONE"}
NAMED_REGION = 0x80  # in a time zone's hour
DIGITS = Context(prec=38, rounding=ROUND_HALF_EVEN)

Scalar = int | float | str | bytes | Decimal | datetime.datetime | None


@dataclass(frozen=True)
class OracleType:
    """The type of a column or of a bind variable."""

    number: int
    size: int = 0  # bytes
    precision: int = 0
    scale: int = 0
    form: int = 0  # of its character set; 0: not a text

    @property
    def name(self) -> str:
        """Its name in the data dictionary."""
        return ("N" if self.form == NATIONAL else "") + NAMES.get(self.number, str(self.number))

    @property
    def is_lob(self) -> bool:
        return self.number in LOBS


def text_type(characters: int, number: int = VARCHAR2, form: int = IMPLICIT) -> OracleType:
    return OracleType(number, max(characters, 1) * (2 if form == NATIONAL else 4), form=form)


NUMBER_TYPE = OracleType(NUMBER, 22, 0, -127)
DATE_TYPE = OracleType(DATE, 7)


def encode_number(value: int | Decimal) -> bytes:
    """Return a NUMBER: an exponent of 100, then the digits of base 100."""
    number = DIGITS.plus(Decimal(value))
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} has no NUMBER")
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    exponent += len(text) - len(stripped)
    if not stripped:
        return b"\x80"
    if exponent % 2:
        stripped, exponent = stripped + "0", exponent - 1
    if len(stripped) % 2:
        stripped = "0" + stripped
    pairs = [int(stripped[start : start + 2]) for start in range(0, len(stripped), 2)]
    first = len(pairs) + exponent // 2 - 1 + 193
    if sign:
        return bytes([first ^ 0xFF, *(101 - pair for pair in pairs)]) + (b"\x66" if len(pairs) < 20 else b"")
    return bytes([first, *(pair + 1 for pair in pairs)])


def decode_number(data: bytes) -> int | Decimal:
    """Return the int or Decimal of a NUMBER. Raises ValueError for the infinities."""
    first = data[0]
    if first == 0x80 and len(data) == 1:
        return 0
    negative = not first & 0x80
    if len(data) == 1 or data == b"\xff\x65":
        raise ValueError("NUMBER is infinite")
    exponent = (first ^ 0xFF if negative else first) - 193
    mantissa = data[1:-1] if negative and data[-1] == 0x66 else data[1:]
    pairs = [101 - byte if negative else byte - 1 for byte in mantissa]
    total = 0
    for pair in pairs:
        total = total * 100 + pair
    shift = 2 * (exponent - len(pairs) + 1)
    number = Decimal(-total if negative else total).scaleb(shift, Context(prec=60))
    return int(number) if shift >= 0 or number == number.to_integral_value() else number.normalize(Context(prec=60))


def encode_moment(value: datetime.datetime, number: int) -> bytes:
    """Return a DATE or TIMESTAMP. One with a time zone is in UTC, with the zone behind it."""
    minutes = 0
    if number == TIMESTAMP_TZ:
        offset = value.utcoffset() or datetime.timedelta()
        minutes = int(offset.total_seconds()) // 60
        value -= offset
    date = (value.year // 100 + 100, value.year % 100 + 100, value.month, value.day)
    data = bytes([*date, value.hour + 1, value.minute + 1, value.second + 1])
    if number == DATE or (number != TIMESTAMP_TZ and not value.microsecond):
        return data  # servers leave zero fractions out
    data += struct.pack(">I", value.microsecond * 1000)
    if number != TIMESTAMP_TZ:
        return data
    hours, rest = divmod(abs(minutes), 60)
    sign = -1 if minutes < 0 else 1
    return data + bytes([sign * hours + 20, sign * rest + 60])


def decode_moment(data: bytes) -> datetime.datetime:
    """Return the datetime of a DATE or TIMESTAMP, with a time zone if it has one."""
    century, year, month, day, hour, minute, second = data[:7]
    micro = int.from_bytes(data[7:11], "big") // 1000 if len(data) >= 11 else 0
    value = datetime.datetime(  # noqa: DTZ001 - a DATE has no time zone
        (century - 100) * 100 + year - 100, month, day, hour - 1, minute - 1, second - 1, micro
    )
    if len(data) < 13 or not data[11]:
        return value
    if data[11] & NAMED_REGION:
        return value.replace(tzinfo=datetime.UTC)  # the fields are in UTC; which region it is, is not looked up
    offset = datetime.timedelta(hours=data[11] - 20, minutes=data[12] - 60)
    return (value + offset).replace(tzinfo=datetime.timezone(offset))


def encode_float(value: float, double: bool) -> bytes:
    """Return a BINARY_DOUBLE or BINARY_FLOAT: IEEE 754, changed so that the order of bytes is that of values."""
    data = struct.pack(">d" if double else ">f", value)
    if data[0] & 0x80:
        return bytes(byte ^ 0xFF for byte in data)
    return bytes([data[0] | 0x80]) + data[1:]


def decode_float(data: bytes) -> float:
    plain = bytes([data[0] & 0x7F]) + data[1:] if data[0] & 0x80 else bytes(byte ^ 0xFF for byte in data)
    value: float = struct.unpack(">d" if len(data) == 8 else ">f", plain)[0]
    return value


def decode_value(data: bytes | None, kind: OracleType) -> Scalar:
    """Return the value of a bind variable."""
    if not data:
        return None
    if kind.number in NUMBERS:
        return decode_number(data)
    if kind.number in TEXTS:
        return data.decode("utf-16-be" if kind.form == NATIONAL else "utf-8")
    if kind.number in MOMENTS:
        return decode_moment(data)
    if kind.number in (BINARY_FLOAT, BINARY_DOUBLE):
        return decode_float(data)
    if kind.number == BOOLEAN:
        return int(data[0] == 1)
    return data


def encode_value(value: Scalar, kind: OracleType) -> bytes | None:
    """Return the bytes of a value that has been brought into its column's type."""
    if value is None:
        return None
    if kind.number in NUMBERS:
        assert isinstance(value, (int, Decimal))
        return encode_number(value)
    if kind.number in MOMENTS:
        assert isinstance(value, datetime.datetime)
        return encode_moment(value, kind.number)
    if kind.number in (BINARY_FLOAT, BINARY_DOUBLE):
        assert isinstance(value, float)
        return encode_float(value, kind.number == BINARY_DOUBLE)
    if kind.number == BOOLEAN:
        return b"\x01\x01" if value else b"\0"
    if isinstance(value, bytes):
        return value
    return str(value).encode("utf-16-be" if kind.form == NATIONAL else "utf-8")
