"""Values of SQL Server's types on the wire (MS-TDS 2.2.5.5). In the engine they are what SQLite stores: integers,
floats, texts (also of decimals, times and GUIDs), and bytes."""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

from tests.support.mssql import sqlserver_types as t
from tests.support.mssql.sqlserver_errors import SqlError, not_supported
from tests.support.mssql.sqlserver_types import SqlType

SqlValue = int | float | str | bytes | None

DAY_ZERO: Final = datetime(1900, 1, 1)  # noqa: DTZ001 - values of SQL Server have no zone
_CONTEXT: Final = Context(prec=60)
_PLP_NULL: Final = b"\xff" * 8
_PLP_UNKNOWN: Final = b"\xfe" + b"\xff" * 7
_PLP_CHUNK: Final = 8000
_TEXT_POINTER: Final = b"\x10" + b"dummy textptr   " + b"dummyTS\0"
VARIANT: Final = "\x00"  # in the engine: \0TYPE\0VALUE is a sql_variant of a type that SQLite lacks


def encode_value(kind: SqlType, nullable: bool, value: SqlValue) -> bytes:
    """Return a value as it stands in a row. Raises SqlError for one that the type does not have."""
    if value is None:
        return _null(kind)
    if kind.name == "sql_variant":
        return _variant(value)
    data = encode_plain(kind, value)
    if t.is_plp(kind):
        return plp(data)
    if kind.name in t.LONG:
        return _TEXT_POINTER + struct.pack("<I", len(data)) + data
    if kind.name in t.SIZED or kind.name == "timestamp":
        return struct.pack("<H", len(data)) + data
    return data if t.is_fixed(kind, nullable) else bytes([len(data)]) + data


def _null(kind: SqlType) -> bytes:
    if t.is_plp(kind):
        return _PLP_NULL
    if kind.name == "sql_variant":
        return b"\0\0\0\0"
    return b"\xff\xff" if kind.name in t.SIZED or kind.name == "timestamp" else b"\0"


def plp(data: bytes) -> bytes:
    """Return chunks. Only values of some sizes tell their total, so that clients are tested with both."""
    total = struct.pack("<Q", len(data)) if len(data) % 2 == 0 else _PLP_UNKNOWN
    chunks = [data[pos : pos + _PLP_CHUNK] for pos in range(0, len(data), _PLP_CHUNK)]
    return total + b"".join(struct.pack("<I", len(chunk)) + chunk for chunk in chunks) + b"\0\0\0\0"


def encode_plain(kind: SqlType, value: SqlValue) -> bytes:
    """Return a value without lengths."""
    encode = _ENCODERS.get(kind.name)
    if encode is None:
        raise not_supported(f"values of {kind}")
    return encode(kind, value)


def _text(kind: SqlType, value: SqlValue) -> bytes:
    text = as_text(value)
    if kind.is_unicode:
        data = text.encode("utf-16-le", "surrogatepass")
        return _padded(kind, data)
    return _padded(kind, text.encode(kind.collation.encoding, "replace"))


def _padded(kind: SqlType, data: bytes) -> bytes:
    if kind.name == "nchar":
        return data + b" \0" * (kind.size - len(data) // 2)
    if kind.name == "char":
        return data.ljust(kind.size)
    return data


def _binary(kind: SqlType, value: SqlValue) -> bytes:
    data = value if isinstance(value, bytes) else as_text(value).encode("latin-1", "replace")
    return data.ljust(kind.size, b"\0") if kind.name == "binary" else data


def _integer(kind: SqlType, value: SqlValue) -> bytes:
    number, size = int(Decimal(as_text(value))), t.INTEGERS[kind.name]
    try:
        return number.to_bytes(size, "little", signed=kind.name != "tinyint")
    except OverflowError:
        raise overflow(kind) from None


def overflow(kind: SqlType) -> SqlError:
    return SqlError(8115, f"Arithmetic overflow error converting expression to data type {kind.name}.")


def _bit(kind: SqlType, value: SqlValue) -> bytes:
    return bytes([int(Decimal(as_text(value)) != 0)])


def _float(kind: SqlType, value: SqlValue) -> bytes:
    return struct.pack("<f" if kind.name == "real" else "<d", float(as_text(value)))


def _decimal(kind: SqlType, value: SqlValue) -> bytes:
    scaled = Decimal(as_text(value)).scaleb(kind.scale, _CONTEXT).to_integral_value(ROUND_HALF_UP)
    try:
        magnitude = abs(int(scaled)).to_bytes(t.decimal_size(kind.precision), "little")
    except OverflowError:
        raise overflow(kind) from None
    return bytes([int(scaled >= 0)]) + magnitude


def _money(kind: SqlType, value: SqlValue) -> bytes:
    scaled = int(Decimal(as_text(value)).scaleb(4, _CONTEXT).to_integral_value(ROUND_HALF_UP))
    if kind.name == "smallmoney":
        return struct.pack("<i", scaled)
    return struct.pack("<iI", scaled >> 32, scaled & 0xFFFFFFFF)


def _datetime(kind: SqlType, value: SqlValue) -> bytes:
    passed = parse_time(as_text(value))[0] - DAY_ZERO
    if kind.name == "smalldatetime":
        return struct.pack("<HH", passed.days, round(passed.seconds / 60))
    ticks = round((passed.seconds + passed.microseconds / 1_000_000) * 300)
    return struct.pack("<iI", passed.days + ticks // 25_920_000, ticks % 25_920_000)


def _date(kind: SqlType, value: SqlValue) -> bytes:
    return (parse_time(as_text(value))[0].toordinal() - 1).to_bytes(3, "little")


def _time(kind: SqlType, value: SqlValue) -> bytes:
    """Of time, datetime2 and datetimeoffset; the last is in UTC on the wire."""
    moment, hundreds, offset = parse_time(as_text(value))
    moment -= timedelta(minutes=offset)
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
    ticks = (seconds * 10_000_000 + hundreds) // 10 ** (7 - kind.scale)
    data: bytes = ticks.to_bytes(time_size(kind.scale), "little")
    if kind.name != "time":
        data += (moment.toordinal() - 1).to_bytes(3, "little")
    return data + struct.pack("<h", offset) if kind.name == "datetimeoffset" else data


def time_size(scale: int) -> int:
    return 3 if scale <= 2 else 4 if scale <= 4 else 5


_ONE_DIGIT: Final = re.compile(r"-(\d)(?=\D|$)")
_MOMENT: Final = re.compile(
    r"\s*(?:(\d{4})-?(\d{2})-?(\d{2}))?[T ]?(?:(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(?:([+-])(\d{2}):(\d{2})|Z)?\s*"
)


def parse_time(text: str) -> tuple[datetime, int, int]:
    """Return the local time, its 100 ns behind the second, and the offset in minutes. Raises SqlError."""
    matched = _MOMENT.fullmatch(_ONE_DIGIT.sub(r"-0\1", text))
    if matched is None or not text.strip():
        raise SqlError(241, "Conversion failed when converting date and/or time from character string.")
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = matched.groups()
    hundreds = int((fraction or "").ljust(7, "0")[:7])
    offset = (int(hours) * 60 + int(minutes)) * (-1 if sign == "-" else 1) if sign else 0
    try:
        moment = DAY_ZERO.replace(int(year or 1900), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0))
        return moment.replace(second=int(second or 0), microsecond=hundreds // 10), hundreds, offset
    except ValueError:
        raise SqlError(
            242, "The conversion of a varchar data type to a datetime data type resulted in an out-of-range value."
        ) from None


def _guid(kind: SqlType, value: SqlValue) -> bytes:
    try:
        return uuid.UUID(as_text(value)).bytes_le
    except ValueError:
        raise SqlError(8169, "Conversion failed when converting from a character string to uniqueidentifier.") from None


_ENCODERS: Final[dict[str, Callable[[SqlType, SqlValue], bytes]]] = {
    **dict.fromkeys((*t.TEXTS, "xml"), _text),
    **dict.fromkeys(("binary", "varbinary", "image", "timestamp", *t.UDTS), _binary),
    **dict.fromkeys(t.INTEGERS, _integer),
    **dict.fromkeys(t.FLOATS, _float),
    **dict.fromkeys(t.MONEYS, _money),
    **dict.fromkeys(t.DATETIMES, _datetime),
    **dict.fromkeys(t.TIMES, _time),
    **dict.fromkeys(("decimal", "numeric"), _decimal),
    "bit": _bit,
    "date": _date,
    "uniqueidentifier": _guid,
}


def as_text(value: SqlValue) -> str:
    """Return the text of a value, as a conversion to nvarchar does it."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return "" if value is None else str(value)


def variant(kind: SqlType, value: SqlValue) -> SqlValue:
    """Return a value of a type as a sql_variant of the engine."""
    if value is None or kind.name in ("int", "nvarchar", "float"):
        return value
    return f"{VARIANT}{kind}{VARIANT}{as_text(value)}"


def _variant(value: SqlValue) -> bytes:
    """Return a sql_variant: length, base type, its properties, value (MS-TDS 2.2.5.5.4)."""
    kind = SqlType("nvarchar", 4000)
    if isinstance(value, str) and value.startswith(VARIANT):
        name, value = value[1:].split(VARIANT, 1)
        kind = t.parse_type(name)
    elif isinstance(value, int):
        kind = t.INT if -(2**31) <= value < 2**31 else t.BIGINT
    elif isinstance(value, float):
        kind = t.FLOAT
    elif isinstance(value, bytes):
        kind = SqlType("varbinary", 8000)
    info, data = t.type_info(kind, nullable=kind.name in ("decimal", "numeric")), encode_plain(kind, value)
    if kind.is_text:
        properties = kind.collation.wire + struct.pack("<H", kind.size * (2 if kind.is_unicode else 1))
    elif kind.name in t.SIZED:
        properties = struct.pack("<H", kind.size)
    elif kind.name in ("decimal", "numeric"):
        properties = bytes([kind.precision, kind.scale])
    else:
        properties = bytes([kind.scale]) if kind.name in t.TIMES else b""
    body = bytes([info[0], len(properties)]) + properties + data
    return struct.pack("<I", len(body)) + body


def decode_plain(kind: SqlType, data: bytes) -> SqlValue:
    """Return what a client sent as a value."""
    name = kind.name
    if kind.is_text or name == "xml":
        return data.decode("utf-16-le", "surrogatepass") if kind.is_unicode else data.decode(kind.collation.encoding)
    if name in t.INTEGERS:
        return int.from_bytes(data, "little", signed=name != "tinyint")
    if name in t.FLOATS:
        return float(struct.unpack("<f" if len(data) == 4 else "<d", data)[0])
    if name in ("decimal", "numeric"):
        number = Decimal(int.from_bytes(data[1:], "little")).scaleb(-kind.scale, _CONTEXT)
        return format(number if data[0] else -number, "f")
    if name in t.MONEYS:
        raw = (
            struct.unpack("<i", data)[0]
            if len(data) == 4
            else (struct.unpack("<i", data[:4])[0] << 32) | (struct.unpack("<I", data[4:])[0])
        )
        return format(Decimal(raw).scaleb(-4), "f")
    if name in t.DATETIMES or name in t.TIMES or name == "date":
        return _decode_time(kind, data)
    if name == "uniqueidentifier":
        return str(uuid.UUID(bytes_le=data)).upper()
    return data[0] if name == "bit" else data


def _decode_time(kind: SqlType, data: bytes) -> str:
    if kind.name in t.DATETIMES:
        if len(data) == 4:
            days, minutes = struct.unpack("<HH", data)
            return text_of_time(kind, DAY_ZERO + timedelta(days=days, minutes=minutes), 0, 0)
        days, ticks = struct.unpack("<iI", data)
        moment = DAY_ZERO + timedelta(days=days, milliseconds=round(ticks * 10 / 3))
        return text_of_time(kind, moment, moment.microsecond * 10, 0)
    if kind.name == "date":
        return date.fromordinal(int.from_bytes(data, "little") + 1).isoformat()
    size, offset, day = time_size(kind.scale), 0, 1
    if kind.name != "time":
        day = int.from_bytes(data[size : size + 3], "little") + 1
    if kind.name == "datetimeoffset":
        offset = struct.unpack("<h", data[size + 3 :])[0]
    hundreds = int.from_bytes(data[:size], "little") * 10 ** (7 - kind.scale)
    moment = datetime.combine(date.fromordinal(day), time())
    moment += timedelta(seconds=hundreds // 10_000_000, minutes=offset)
    return text_of_time(kind, moment, hundreds % 10_000_000, offset)


def text_of_time(kind: SqlType, moment: datetime, hundreds: int, offset: int) -> str:
    """Return a time as the engine stores it, in the precision of its type."""
    if kind.name == "date":
        return moment.date().isoformat()
    scale = 3 if kind.name == "datetime" else kind.scale
    text = moment.strftime("%H:%M:%S") if kind.name == "time" else moment.isoformat(" ", "seconds")
    if scale:
        text += "." + f"{hundreds:07}"[:scale]
    if kind.name == "datetimeoffset":
        text += f" {'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    return text
