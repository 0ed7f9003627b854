"""Names of types, as a table's definition spells them: `int unsigned`, `varchar(20)`, `decimal(10,2)`.

The wire has a number, flags and a length in bytes, from which the server computed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_charsets import bytes_per_character
from postern.protocols.mysql.wire.mysql_messages import MysqlField

_NAMES: Final[Mapping[int, str]] = {
    m.TINY: "tinyint",
    m.SHORT: "smallint",
    m.INT24: "mediumint",
    m.LONG: "int",
    m.LONGLONG: "bigint",
    m.FLOAT: "float",
    m.DOUBLE: "double",
    m.NULL: "null",
    m.DATE: "date",
    m.NEWDATE: "date",
    m.TIME: "time",
    m.DATETIME: "datetime",
    m.TIMESTAMP: "timestamp",
    m.YEAR: "year",
    m.JSON: "json",
    m.GEOMETRY: "geometry",
}
_ENUM_FLAG: Final = 0x0100
_SET_FLAG: Final = 0x0800
_BLOBS: Final = frozenset({m.TINY_BLOB, m.MEDIUM_BLOB, m.LONG_BLOB, m.BLOB})
_NUMBERS: Final = frozenset({m.TINY, m.SHORT, m.INT24, m.LONG, m.LONGLONG, m.FLOAT, m.DOUBLE})
_TIMED: Final = frozenset({m.TIME, m.DATETIME, m.TIMESTAMP})
_MAX_FRACTION: Final = 6  # digits of a second; more means none
_BLOB_SIZES: Final = (("tiny", (1 << 8) - 1), ("", (1 << 16) - 1), ("medium", (1 << 24) - 1))


def type_name(field: MysqlField) -> str | None:
    """Return the name of a column's type; None if the wire does not tell it."""
    if field.flags & _ENUM_FLAG:
        return "enum"
    if field.flags & _SET_FLAG:
        return "set"
    if field.type == m.BIT:
        return f"bit({field.length})"
    if field.type in (m.DECIMAL, m.NEWDECIMAL):
        return _decimal_name(field)
    if field.type in _BLOBS:
        return _blob_name(field)
    if field.type in (m.VARCHAR, m.VAR_STRING, m.STRING):
        return _text_name(field)
    name = _NAMES.get(field.type)
    if name is not None and field.type in _TIMED and 0 < field.decimals <= _MAX_FRACTION:
        return f"{name}({field.decimals})"
    return name if name is None or field.type not in _NUMBERS else name + _sign(field)


def _sign(field: MysqlField) -> str:
    return " unsigned" if field.flags & m.UNSIGNED else ""


def _decimal_name(field: MysqlField) -> str:
    """The length counts the point and, unless the type is unsigned, the sign."""
    precision = field.length - (field.decimals > 0) - (not field.flags & m.UNSIGNED)
    return f"decimal({precision},{field.decimals}){_sign(field)}"


def _blob_name(field: MysqlField) -> str:
    is_text = field.collation != m.BINARY_CHARSET
    width = bytes_per_character(field.collation) or 1
    size = next((size for size, limit in _BLOB_SIZES if field.length <= limit * width), "long")
    return size + ("text" if is_text else "blob")


def _text_name(field: MysqlField) -> str:
    is_binary = field.collation == m.BINARY_CHARSET
    name = ("binary" if is_binary else "char") if field.type == m.STRING else ("varbinary" if is_binary else "varchar")
    width = bytes_per_character(field.collation)
    return name if width is None else f"{name}({field.length // width})"
