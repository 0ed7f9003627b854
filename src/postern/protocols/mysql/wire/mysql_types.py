"""The types of columns, and the format of their values in rows of prepared statements (binary protocol).

MySQL source documentation, "Binary Protocol Resultset": fixed sizes for numbers, a length byte before dates and times,
a length-encoded string for all others. In rows of plain queries every value is text with a length before it.
"""

from __future__ import annotations

from typing import Final

from postern.interception.events import Scalar, TextKind
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_messages import MysqlField

# Format of a value in a binary row: a number of bytes, or one of these.
DATED: Final = -1  # a byte with the length, then the value
SIZED: Final = -2  # a length-encoded string

_FIXED: Final = {
    m.TINY: 1,
    m.SHORT: 2,
    m.YEAR: 2,
    m.LONG: 4,
    m.INT24: 4,
    m.FLOAT: 4,
    m.LONGLONG: 8,
    m.DOUBLE: 8,
    m.NULL: 0,
}
_DATED: Final = frozenset({m.DATE, m.NEWDATE, m.TIME, m.DATETIME, m.TIMESTAMP})
_OPAQUE: Final = frozenset({*_FIXED, *_DATED, m.BIT, m.GEOMETRY}) - {m.LONGLONG}

_WHOLE: Final = {
    m.TINY: Scalar.SMALLINT,
    m.SHORT: Scalar.SMALLINT,
    m.YEAR: Scalar.SMALLINT,
    m.INT24: Scalar.INTEGER,
    m.LONG: Scalar.INTEGER,
    m.LONGLONG: Scalar.BIGINT,
}
# An unsigned number can be too large for the signed kind of its size.
_UNSIGNED: Final = {m.SHORT: Scalar.INTEGER, m.LONG: Scalar.BIGINT, m.LONGLONG: Scalar.DECIMAL}
_OTHERS: Final = {
    m.DECIMAL: Scalar.DECIMAL,
    m.NEWDECIMAL: Scalar.DECIMAL,
    m.FLOAT: Scalar.REAL,
    m.DOUBLE: Scalar.DOUBLE,
    m.DATE: Scalar.DATE,
    m.NEWDATE: Scalar.DATE,
    m.TIME: Scalar.TIME,
    m.DATETIME: Scalar.TIMESTAMP,
    m.TIMESTAMP: Scalar.TIMESTAMP,
    m.BIT: Scalar.BITS,
    m.JSON: Scalar.JSON,
    m.GEOMETRY: Scalar.OTHER,
    m.NULL: Scalar.OTHER,
}


def width_of(kind: int) -> int:
    """Return the format of a value of that type in a binary row; see DATED and SIZED."""
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed
    return DATED if kind in _DATED else SIZED


def kind_of(field: MysqlField) -> TextKind:
    """Return the kind of text. An unknown type is searched, which at worst finds nothing."""
    if field.type in _OPAQUE:
        return TextKind.OPAQUE
    if field.type in (m.LONGLONG, m.DECIMAL, m.NEWDECIMAL):
        return TextKind.NUMBER
    return TextKind.JSON if field.type == m.JSON else TextKind.TEXT


def scalar_of(field: MysqlField) -> Scalar:
    """Return the scalar kind of the column's values."""
    scalar = _OTHERS.get(field.type)
    if scalar is not None:
        return scalar
    if field.type in _WHOLE:
        unsigned = _UNSIGNED.get(field.type) if field.flags & m.UNSIGNED else None
        return unsigned or _WHOLE[field.type]
    return Scalar.BYTES if field.collation == m.BINARY_CHARSET else Scalar.TEXT
