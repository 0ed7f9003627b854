"""Data types of SQL Server: their text in T-SQL, and TYPE_INFO on the wire (MS-TDS 2.2.5.4 to 2.2.5.6)."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from typing import Final

from tests.support.mssql import sqlserver_collations as collations
from tests.support.mssql.sqlserver_collations import SqlCollation
from tests.support.mssql.sqlserver_errors import SqlError

MAX: Final = -1  # the size of varchar(max) and its like
V71, V72, V73, V74, V80 = 0x71000001, 0x72090002, 0x730B0003, 0x74000004, 0x08000000


def has(version: int, wanted: int) -> bool:
    """Whether a TDS version has what came with another. TDS 8.0 is the newest, and has the smallest number."""
    return version == V80 or version >= wanted


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type. `size` in characters or bytes, MAX for (max); `scale` also of times. `collation` of texts."""

    name: str
    size: int = 0
    precision: int = 0
    scale: int = 0
    collation: SqlCollation = collations.DEFAULT

    def __str__(self) -> str:
        if self.name in SIZED:
            return f"{self.name}({'max' if self.size == MAX else self.size})"
        if self.name in ("decimal", "numeric"):
            return f"{self.name}({self.precision},{self.scale})"
        return f"{self.name}({self.scale})" if self.name in TIMES else self.name

    @property
    def is_text(self) -> bool:
        return self.name in TEXTS

    @property
    def is_unicode(self) -> bool:
        return self.name in UNICODE


INTEGERS: Final = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
FLOATS: Final = {"real": 4, "float": 8}
MONEYS: Final = {"smallmoney": 4, "money": 8}
DATETIMES: Final = {"smalldatetime": 4, "datetime": 8}
TIMES: Final = ("time", "datetime2", "datetimeoffset")
SIZED: Final = ("char", "varchar", "nchar", "nvarchar", "binary", "varbinary")
UNICODE: Final = ("nchar", "nvarchar", "ntext", "xml")
TEXTS: Final = ("char", "varchar", "text", "nchar", "nvarchar", "ntext")
LONG: Final = ("text", "ntext", "image")
UDTS: Final = ("hierarchyid", "geometry", "geography")

_ALIASES: Final = {
    "integer": "int",
    "dec": "decimal",
    "character": "char",
    "char varying": "varchar",
    "rowversion": "timestamp",
    "doubleprecision": "float",
    "sysname": "nvarchar(128)",
}
_TYPE: Final = re.compile(
    r"\s*(?:\[?sys\]?\.)?\[?(\w+)\]?\s*(?:\(\s*(max|\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*", re.IGNORECASE
)
_KNOWN: Final = frozenset(
    {
        *(*INTEGERS, *FLOATS, *MONEYS, *DATETIMES, *TIMES, *SIZED, *LONG, *UDTS),
        *("bit", "decimal", "numeric", "uniqueidentifier", "date", "xml", "sql_variant", "timestamp"),
    }
)


def parse_type(text: str, *, cast: bool = False) -> SqlType:
    """Read a type as T-SQL writes it. Without a size, texts have 1 character, or 30 in a `cast`. Raises SqlError."""
    matched = _TYPE.fullmatch(text)
    if matched is None:
        raise SqlError(243, f"Type {text} is not a defined system type.")
    name, first, second = matched.groups()
    name = _ALIASES.get(name.lower(), name.lower())
    if "(" in name:
        return parse_type(name)
    if name not in _KNOWN:
        raise SqlError(243, f"Type {name} is not a defined system type.")
    if name in SIZED:
        default = 30 if cast else 1
        return SqlType(name, default if first is None else MAX if first.lower() == "max" else int(first))
    if name in ("decimal", "numeric"):
        return SqlType(name, precision=int(first or 18), scale=int(second or 0))
    if name == "float" and first is not None and int(first) <= 24:
        return SqlType("real")
    return SqlType(name, scale=int(first or 7) if name in TIMES else 0)


INT: Final = SqlType("int")
BIGINT: Final = SqlType("bigint")
BIT: Final = SqlType("bit")
FLOAT: Final = SqlType("float")
DATETIME: Final = SqlType("datetime")
SYSNAME: Final = SqlType("nvarchar", 128)
NVARCHAR: Final = SqlType("nvarchar", 4000)
NVARCHAR_MAX: Final = SqlType("nvarchar", MAX)
VARBINARY_MAX: Final = SqlType("varbinary", MAX)
GUID: Final = SqlType("uniqueidentifier")

_SHORT_CODES: Final = {
    "char": 0xAF,
    "varchar": 0xA7,
    "nchar": 0xEF,
    "nvarchar": 0xE7,
    "binary": 0xAD,
    "varbinary": 0xA5,
}
_LONG_CODES: Final = {"text": 0x23, "ntext": 0x63, "image": 0x22}
_TIME_CODES: Final = {"time": 0x29, "datetime2": 0x2A, "datetimeoffset": 0x2B}
_FIXED: Final = {
    "tinyint": 0x30,
    "bit": 0x32,
    "smallint": 0x34,
    "int": 0x38,
    "smalldatetime": 0x3A,
    "real": 0x3B,
    "money": 0x3C,
    "datetime": 0x3D,
    "float": 0x3E,
    "smallmoney": 0x7A,
    "bigint": 0x7F,
}
FIXED_TYPES: Final = {code: name for name, code in _FIXED.items()}


def sent_type(kind: SqlType, version: int) -> SqlType:
    """Return the type that stands for it in an older version of the protocol."""
    if not has(version, V73) and (kind.name == "date" or kind.name in TIMES):
        return SqlType("nvarchar", 40)
    if not has(version, V72) and (kind.name == "xml" or (kind.name in SIZED and kind.size == MAX)):
        long = {"varchar": "text", "varbinary": "image"}.get(kind.name, "ntext")
        return SqlType(long, collation=kind.collation)
    return kind


def is_plp(kind: SqlType) -> bool:
    """Whether values travel in chunks."""
    return (kind.name in SIZED and kind.size == MAX) or kind.name == "xml" or kind.name in UDTS


def is_fixed(kind: SqlType, nullable: bool) -> bool:
    """Whether values have no length in front of them."""
    return not nullable and kind.name in _FIXED


def type_info(kind: SqlType, nullable: bool = True) -> bytes:
    """Return TYPE_INFO of a type that `sent_type` returned."""
    name = kind.name
    if is_fixed(kind, nullable):
        return bytes([_FIXED[name]])
    for code, sizes in ((0x26, INTEGERS), (0x6D, FLOATS), (0x6E, MONEYS), (0x6F, DATETIMES), (0x68, {"bit": 1})):
        if name in sizes:
            return bytes([code, sizes[name]])
    if name in ("decimal", "numeric"):
        code = 0x6A if name == "decimal" else 0x6C
        return bytes([code, decimal_size(kind.precision) + 1, kind.precision, kind.scale])
    if name in _TIME_CODES:
        return bytes([_TIME_CODES[name], kind.scale])
    if name in _SHORT_CODES:
        size = 0xFFFF if kind.size == MAX else kind.size * (2 if kind.is_unicode else 1)
        return struct.pack("<BH", _SHORT_CODES[name], size) + (kind.collation.wire if kind.is_text else b"")
    if name in _LONG_CODES:
        size = 0x7FFFFFFE if name == "ntext" else 0x7FFFFFFF
        return struct.pack("<BI", _LONG_CODES[name], size) + (kind.collation.wire if kind.is_text else b"")
    if name in UDTS:
        names = b"".join(b_varchar(part) for part in ("master", "sys", name))
        assembly = f"Microsoft.SqlServer.Types.Sql{name.title()}, Microsoft.SqlServer.Types"
        return struct.pack("<BH", 0xF0, 0xFFFF) + names + us_varchar(assembly)
    return _OTHER_INFO[name]


_OTHER_INFO: Final = {
    "uniqueidentifier": b"\x24\x10",
    "date": b"\x28",
    "xml": b"\xf1\x00",
    "sql_variant": struct.pack("<BI", 0x62, 8009),
    "timestamp": struct.pack("<BH", 0xAD, 8),
}


def decimal_size(precision: int) -> int:
    """Return the bytes of a decimal's magnitude."""
    return 4 if precision <= 9 else 8 if precision <= 19 else 12 if precision <= 28 else 16


def b_varchar(text: str) -> bytes:
    return bytes([len(text.encode("utf-16-le")) // 2]) + text.encode("utf-16-le")


def us_varchar(text: str) -> bytes:
    encoded = text.encode("utf-16-le")
    return struct.pack("<H", len(encoded) // 2) + encoded


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of a result. `base` is the table of a text, ntext or image column."""

    name: str
    type: SqlType
    nullable: bool = True
    identity: bool = False
    base: str = ""
    hidden: bool = False


def as_nullable(column: SqlColumn) -> SqlColumn:
    return replace(column, nullable=True)
