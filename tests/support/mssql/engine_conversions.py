"""CAST and CONVERT, and the operators whose meaning depends on the types of their operands."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

from tests.support.mssql import sqlserver_types as t
from tests.support.mssql.sqlserver_errors import SqlError, conversion_failed
from tests.support.mssql.sqlserver_types import SqlType, parse_type
from tests.support.mssql.sqlserver_values import (
    DAY_ZERO,
    VARIANT,
    SqlValue,
    as_text,
    encode_plain,
    overflow,
    parse_time,
    text_of_time,
    variant,
)

_CONTEXT: Final = Context(prec=60)
_STYLES: Final = {
    101: "%m/%d/%Y",
    103: "%d/%m/%Y",
    104: "%d.%m.%Y",
    108: "%H:%M:%S",
    112: "%Y%m%d",
    120: "%Y-%m-%d %H:%M:%S",
    23: "%Y-%m-%d",
}


@lru_cache(maxsize=1000)
def cast_type(text: str) -> SqlType:
    return parse_type(text, cast=True)


def unwrap(value: SqlValue) -> SqlValue:
    """Return the value of a sql_variant."""
    return value[1:].split(VARIANT, 1)[1] if isinstance(value, str) and value.startswith(VARIANT) else value


def convert(value: SqlValue, kind: SqlType, style: int = 0, source: SqlType | None = None) -> SqlValue:
    """Return a value as another type, as the engine stores it. `source` is its type, if known. Raises SqlError."""
    if value is None:
        return None
    if kind.name == "sql_variant":
        return variant(source, value) if source is not None else value
    value = unwrap(value)
    name = kind.name
    if (name in t.SIZED and not kind.is_text) or name in ("image", "timestamp", *t.UDTS):
        return _binary(value, kind, style)
    if kind.is_text or name == "xml":
        text = _text(value, style, source)
        return text[: kind.size] if name in t.SIZED and kind.size != t.MAX else text
    if name in t.INTEGERS or name == "bit":
        return _integer(value, kind)
    if name in ("decimal", "numeric", *t.MONEYS):
        return _decimal(value, kind)
    if name in t.FLOATS:
        return _float(value)
    if name in (*t.TIMES, *t.DATETIMES, "date"):
        return _time(value, kind)
    encode_plain(kind, value)  # raises the error of a GUID that is none
    return as_text(value).upper()


def _text(value: SqlValue, style: int, source: SqlType | None) -> str:
    if isinstance(value, bytes):
        if style in (1, 2):
            return ("0x" if style == 1 else "") + value.hex().upper()
        return value.decode("utf-16-le" if source is not None and source.is_unicode else "latin-1", "replace")
    if style in _STYLES and isinstance(value, str):
        return parse_time(value)[0].strftime(_STYLES[style])
    return as_text(value)


def _binary(value: SqlValue, kind: SqlType, style: int) -> bytes:
    if isinstance(value, str) and style in (1, 2):
        data = bytes.fromhex(value.removeprefix("0x"))
    elif isinstance(value, bytes):
        data = value
    elif isinstance(value, int):
        data = value.to_bytes(8 if kind.size == 8 else 4, "big", signed=True)
    else:
        data = as_text(value).encode("latin-1", "replace")
    return data[: kind.size] if kind.size > 0 else data


def _integer(value: SqlValue, kind: SqlType) -> int:
    if isinstance(value, str):
        text = value.strip() or "0"
        if kind.name == "bit" and text.lower() in ("true", "false"):
            return int(text.lower() == "true")
        if not re.fullmatch(r"[+-]?\d+(\.\d*)?", text):
            raise conversion_failed(value, "varchar", kind.name)
        value = int(Decimal(text))
    number = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else int(value or 0)
    if kind.name == "bit":
        return int(number != 0)
    size, signed = t.INTEGERS[kind.name] * 8, kind.name != "tinyint"
    if not (-(1 << size - 1) if signed else 0) <= number < 1 << (size - signed):
        raise overflow(kind)
    return number


def _decimal(value: SqlValue, kind: SqlType) -> SqlValue:
    scale = 4 if kind.name in t.MONEYS else kind.scale
    try:
        number = Decimal(as_text(value).strip().lstrip("$")).quantize(
            Decimal(1).scaleb(-scale), ROUND_HALF_UP, _CONTEXT
        )
    except InvalidOperation:
        raise SqlError(8114, f"Error converting data type varchar to {kind.name}.", state=5) from None
    if kind.precision and abs(number) >= Decimal(10) ** (kind.precision - scale):
        raise overflow(kind)
    text = format(number, "f")
    return text if len(text) > 15 else (int(number) if scale == 0 else float(number))


def _float(value: SqlValue) -> float:
    try:
        return float(as_text(value))
    except ValueError:
        raise SqlError(8114, "Error converting data type varchar to float.", state=5) from None


def _time(value: SqlValue, kind: SqlType) -> str:
    if isinstance(value, int | float):
        moment = DAY_ZERO + timedelta(days=float(value))
        return text_of_time(kind, moment, moment.microsecond * 10, 0)
    moment, hundreds, offset = parse_time(as_text(value))
    return text_of_time(kind, moment, hundreds, offset)


def add(left: SqlValue, right: SqlValue) -> SqlValue:
    """The operator `+`: it concatenates texts, and converts a text beside a number."""
    if left is None or right is None:
        return None
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left + right
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    return _number(left, right) + _number(right, left)


def _number(value: SqlValue, other: SqlValue) -> int | float:
    if isinstance(value, str):
        if isinstance(other, float):
            return _float(value)
        return _integer(value, t.INT)
    return value if isinstance(value, int | float) else 0


def divide(left: SqlValue, right: SqlValue) -> SqlValue:
    """The operator `/`, which cuts integers off."""
    if left is None or right is None:
        return None
    one, other = _number(left, right), _number(right, left)
    if other == 0:
        raise SqlError(8134, "Divide by zero error encountered.")
    if isinstance(one, int) and isinstance(other, int):
        return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
    return one / other


@lru_cache(maxsize=1000)
def like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    parts, pos = [], 0
    while pos < len(pattern):
        sign = pattern[pos]
        close = pattern.find("]", pos + 2)
        if sign == escape and pos + 1 < len(pattern):
            pos += 1
            parts.append(re.escape(pattern[pos]))
        elif sign == "[" and close > 0:
            parts.append(f"[{pattern[pos + 1 : close]}]".replace("\\", "\\\\").replace("[[", "[\\["))
            pos = close
        else:
            parts.append({"%": ".*", "_": "."}.get(sign, re.escape(sign)))
        pos += 1
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)
