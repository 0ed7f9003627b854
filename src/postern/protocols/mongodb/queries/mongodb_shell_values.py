"""Values that scripts construct by name: `ObjectId("…")`, `ISODate("…")`, `NumberLong("5")` and the like.

Each function takes the arguments, which are values already, and returns a value that `bson` encodes. It raises
ValueError with a message for the author.
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.binary import MD5_SUBTYPE, UUID_SUBTYPE

Value = Any  # a value that `bson` can encode
Arguments = Sequence[Value]

MIN_INT32: Final = -(1 << 31)
MAX_INT32: Final = (1 << 31) - 1
MIN_INT64: Final = -(1 << 63)
MAX_INT64: Final = (1 << 63) - 1
_MAX_DATE: Final = 8_640_000_000_000_000  # milliseconds, as in JavaScript

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(
    r"(\d{4})(?:-?(\d\d)(?:-?(\d\d))?)?"
    r"(?:[Tt ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d{1,9}))?)?)?\s*(Z|z|[+-]\d\d(?::?\d\d)?)?)?"
)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_REGEX_FLAGS = "imsux"


class SketchedValue(int):
    """Stands for the value of a placeholder, which is not known."""


def number(value: float, *, is_whole: bool) -> Value:
    """Return a number of JavaScript as the type that drivers choose: int32 where it fits, else double."""
    if is_whole and MIN_INT32 <= value <= MAX_INT32:
        return int(value)
    return float(value)


def make_regex(pattern: str, flags: str) -> Regex[str]:
    """Return a regular expression. Raises ValueError for a flag that the database does not know."""
    if "\0" in pattern:
        raise ValueError("a regular expression cannot contain a zero character")
    unknown = [flag for flag in flags if flag not in _REGEX_FLAGS]
    if unknown or len(set(flags)) != len(flags):
        raise ValueError(f"the flags of a regular expression are {', '.join(_REGEX_FLAGS)}, each once; not {flags!r}")
    return Regex(pattern, flags)


def parse_date(text: str) -> DatetimeMS:
    """Return the date of an ISO 8601 text, in UTC unless it says otherwise. Raises ValueError."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a date; write it as in 2026-01-31T12:30:00Z")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    seconds = int(second or 0)
    moment = datetime(int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), seconds, tzinfo=UTC)
    millis = (moment - _EPOCH) // timedelta(milliseconds=1) + int((fraction or "0").ljust(3, "0")[:3])
    return DatetimeMS(millis - _offset(zone))


def _offset(zone: str | None) -> int:
    """Return the milliseconds that a time zone is ahead of UTC."""
    if zone is None or zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return minutes * 60_000 * (-1 if zone[0] == "-" else 1)


def _now() -> DatetimeMS:
    return DatetimeMS((datetime.now(UTC) - _EPOCH) // timedelta(milliseconds=1))


def date_as_text(arguments: Arguments) -> Value:
    """`Date()` without `new` is a text, as in JavaScript."""
    _expect(arguments, 0)
    now = datetime.now(UTC)
    day = f"{_DAYS[now.weekday()]} {_MONTHS[now.month - 1]} {now.day:02} {now.year}"
    return f"{day} {now:%H:%M:%S} GMT+0000 (Coordinated Universal Time)"


def new_date(arguments: Arguments) -> Value:
    """`new Date()`: now, from a text, from milliseconds, or from year, month (from 0), day and so on, in UTC."""
    if not arguments:
        return _now()
    if len(arguments) > 1:
        return _date_of_parts([_whole(part) for part in arguments])
    (only,) = arguments
    if isinstance(only, str):
        return parse_date(only)
    if isinstance(only, DatetimeMS):
        return only
    return _checked_date(_whole(only))


def _date_of_parts(parts: Sequence[int]) -> DatetimeMS:
    if len(parts) > 7:
        raise ValueError("a date has at most 7 parts")
    year, month, day, hour, minute, second, millis = (*parts, *(0, 0, 1, 0, 0, 0, 0)[len(parts) :])
    year += 1900 if 0 <= year <= 99 else 0
    year, month = year + month // 12, month % 12
    try:
        start = (datetime(year, month + 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise ValueError("the year of a date must be between 1 and 9999") from None
    return _checked_date(start + (((day - 1) * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + millis)


def _checked_date(millis: int) -> DatetimeMS:
    if abs(millis) > _MAX_DATE:
        raise ValueError("this date is out of range")
    return DatetimeMS(millis)


def iso_date(arguments: Arguments) -> Value:
    _expect(arguments, 0, 1)
    return parse_date(_text(arguments[0])) if arguments else _now()


def object_id(arguments: Arguments) -> Value:
    _expect(arguments, 0, 1)
    if not arguments:
        return ObjectId()
    if isinstance(arguments[0], ObjectId):
        return arguments[0]
    text = _text(arguments[0])
    if not re.fullmatch(r"[0-9a-fA-F]{24}", text):
        raise ValueError("an ObjectId has 24 hexadecimal digits")
    return ObjectId(text)


def int64(arguments: Arguments) -> Value:
    _expect(arguments, 0, 1)
    return Int64(_in_range(arguments[0] if arguments else 0, MIN_INT64, MAX_INT64, "a 64-bit integer"))


def int32(arguments: Arguments) -> Value:
    _expect(arguments, 0, 1)
    return _in_range(arguments[0] if arguments else 0, MIN_INT32, MAX_INT32, "a 32-bit integer")


def double(arguments: Arguments) -> Value:
    _expect(arguments, 0, 1)
    value = arguments[0] if arguments else 0
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a double is made of a number")
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{str(value)[:40]!r} is not a number") from None


def decimal128(arguments: Arguments) -> Value:
    _expect(arguments, 1)
    value = arguments[0]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a decimal is made of a text or a number")
    try:
        return Decimal128(value if isinstance(value, str) else repr(value))
    except (InvalidOperation, ValueError):
        raise ValueError(f"{str(value)[:40]!r} is not a decimal of at most 34 digits") from None


def uuid_value(arguments: Arguments) -> Value:
    _expect(arguments, 0, 1)
    if not arguments:
        return Binary(uuid.uuid4().bytes, UUID_SUBTYPE)
    text = _text(arguments[0])
    if not re.fullmatch(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}", text):
        raise ValueError("a UUID has 32 hexadecimal digits")
    return Binary(uuid.UUID(text).bytes, UUID_SUBTYPE)


def bin_data(arguments: Arguments) -> Value:
    """`BinData(subtype, "base64")`."""
    _expect(arguments, 2)
    return make_binary(_whole(arguments[0]), _text(arguments[1]))


def make_binary(subtype: int, text: str) -> Binary:
    """Return binary data from base64. Raises ValueError."""
    if not 0 <= subtype <= 255:
        raise ValueError("the subtype of binary data is a number from 0 to 255")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("binary data is written in base64") from None
    return Binary(data, subtype)


def hex_data(arguments: Arguments) -> Value:
    """`HexData(subtype, "hex")`."""
    _expect(arguments, 2)
    subtype = _whole(arguments[0])
    if not 0 <= subtype <= 255:
        raise ValueError("the subtype of binary data is a number from 0 to 255")
    return Binary(_hex(arguments[1]), subtype)


def md5(arguments: Arguments) -> Value:
    _expect(arguments, 1)
    return Binary(_hex(arguments[0]), MD5_SUBTYPE)


def timestamp(arguments: Arguments) -> Value:
    """`Timestamp(seconds, counter)`, or with a document of `t` and `i`."""
    _expect(arguments, 0, 1, 2)
    if len(arguments) == 1:
        parts = arguments[0]
        if not isinstance(parts, Mapping) or set(parts) != {"t", "i"}:
            raise ValueError("a timestamp is written as Timestamp({t: seconds, i: counter})")
        arguments = [parts["t"], parts["i"]]
    seconds, counter = (_in_range(part, 0, (1 << 32) - 1, "a part of a timestamp") for part in arguments or (0, 0))
    return Timestamp(seconds, counter)


def min_key(arguments: Arguments) -> Value:
    _expect(arguments, 0)
    return MinKey()


def max_key(arguments: Arguments) -> Value:
    _expect(arguments, 0)
    return MaxKey()


def db_ref(arguments: Arguments) -> Value:
    _expect(arguments, 2, 3)
    return DBRef(_text(arguments[0]), arguments[1], _text(arguments[2]) if len(arguments) == 3 else None)


def regex(arguments: Arguments) -> Value:
    _expect(arguments, 1, 2)
    return make_regex(*[_text(argument) for argument in (*arguments, "")[:2]])


def code(arguments: Arguments) -> Value:
    _expect(arguments, 1, 2)
    if len(arguments) == 2 and not isinstance(arguments[1], Mapping):
        raise ValueError("the scope of code is a document")
    return Code(_text(arguments[0]), arguments[1] if len(arguments) == 2 else None)


CONSTRUCTORS: Mapping[str, Callable[[Arguments], Value]] = {
    "ObjectId": object_id,
    "ISODate": iso_date,
    "Date": date_as_text,
    "NumberLong": int64,
    "Long": int64,
    "Long.fromString": int64,
    "Long.fromNumber": int64,
    "NumberInt": int32,
    "Int32": int32,
    "Double": double,
    "NumberDecimal": decimal128,
    "Decimal128": decimal128,
    "Decimal128.fromString": decimal128,
    "UUID": uuid_value,
    "BinData": bin_data,
    "HexData": hex_data,
    "MD5": md5,
    "Timestamp": timestamp,
    "MinKey": min_key,
    "MaxKey": max_key,
    "DBRef": db_ref,
    "RegExp": regex,
    "BSONRegExp": regex,
    "Code": code,
}
NEW_CONSTRUCTORS: Mapping[str, Callable[[Arguments], Value]] = {**CONSTRUCTORS, "Date": new_date}
"""The same after `new`."""

CONSTANTS: Mapping[str, Callable[[], Value]] = {
    "true": lambda: True,
    "false": lambda: False,
    "null": lambda: None,
    "undefined": lambda: None,
    "NaN": lambda: float("nan"),
    "Infinity": lambda: float("inf"),
    "MinKey": MinKey,
    "MaxKey": MaxKey,
}


def _expect(arguments: Arguments, *counts: int) -> None:
    if len(arguments) not in counts:
        raise ValueError(f"it takes {' or '.join(map(str, counts))} arguments, not {len(arguments)}")


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError("its argument must be a text")
    return value


def _hex(value: Value) -> bytes:
    text = _text(value)
    if not re.fullmatch(r"(?:[0-9a-fA-F]{2})*", text):
        raise ValueError("its data is written in hexadecimal digits")
    return bytes.fromhex(text)


def _whole(value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value in (_INF, -_INF):
        raise ValueError("its argument must be a number")
    if int(value) != value:
        raise ValueError("its argument must be a whole number")
    return int(value)


_INF = float("inf")


def _in_range(value: Value, low: int, high: int, name: str) -> int:
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?\d{1,40}", value.strip()):
            raise ValueError(f"{value[:40]!r} is not {name}")
        whole = int(value)
    elif isinstance(value, Decimal128):
        whole = _whole(float(Decimal(str(value))))
    else:
        whole = _whole(value)
    if not low <= whole <= high:
        raise ValueError(f"{whole} is out of the range of {name}")
    return whole
