"""Cells and columns as SQL Server's tools write them."""

from __future__ import annotations

from typing import Final

from postern.protocols.mssql.wire import mssql_types as t
from postern.protocols.mssql.wire.mssql_tokens import MssqlColumn
from postern.protocols.mssql.wire.mssql_types import MssqlType
from postern.protocols.mssql.wire.mssql_values import plain

_BINARY: Final = t.BYTES | {t.UDT}
_NAMES: Final = {
    t.INT1: "tinyint",
    t.INT2: "smallint",
    t.INT4: "int",
    t.INT8: "bigint",
    t.BIT: "bit",
    t.BITN: "bit",
    t.REAL: "real",
    t.FLOAT: "float",
    t.MONEY: "money",
    t.MONEY4: "smallmoney",
    t.DATETIME: "datetime",
    t.DATETIME4: "smalldatetime",
    t.DATE: "date",
    t.GUID: "uniqueidentifier",
    t.TEXT: "text",
    t.NTEXT: "ntext",
    t.IMAGE: "image",
    t.XML: "xml",
    t.JSON: "json",
    t.SQL_VARIANT: "sql_variant",
}
_SIZED_NAMES: Final = {
    t.INTN: {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"},
    t.FLOATN: {4: "real", 8: "float"},
    t.MONEYN: {4: "smallmoney", 8: "money"},
    t.DATETIMEN: {4: "smalldatetime", 8: "datetime"},
}
_LENGTH_NAMES: Final = {
    **dict.fromkeys((t.CHAR, t.OLD_CHAR), "char"),
    **dict.fromkeys((t.VARCHAR, t.OLD_VARCHAR), "varchar"),
    **dict.fromkeys((t.BINARY, t.OLD_BINARY), "binary"),
    **dict.fromkeys((t.VARBINARY, t.OLD_VARBINARY), "varbinary"),
    t.NCHAR: "nchar",
    t.NVARCHAR: "nvarchar",
}
_SCALED_NAMES: Final = {t.TIME: "time", t.DATETIME2: "datetime2", t.DATETIMEOFFSET: "datetimeoffset"}


def shown_cell(column: MssqlColumn, cell: bytes | None) -> str | None:
    """Return a cell as text; bytes are hexadecimal. Raises ProtocolViolation for one that its type cannot have."""
    if cell is None:
        return None
    if column.type.code in _BINARY:
        return "0x" + cell.hex().upper()
    return plain(column.type, cell).decode("utf-8", "replace")


def type_name(kind: MssqlType) -> str | None:
    """Return the name of a type, as a table's definition has it: `nvarchar(20)`. None if the wire does not tell it."""
    code = kind.code
    if code in _NAMES:
        return _NAMES[code]
    if code in _SIZED_NAMES:
        return _SIZED_NAMES[code].get(kind.size)
    if code in t.DECIMALS:
        return f"decimal({kind.precision},{kind.scale})"
    if code in _SCALED_NAMES:
        return f"{_SCALED_NAMES[code]}({kind.scale})"
    if code in _LENGTH_NAMES:
        size = kind.size // 2 if code in (t.NCHAR, t.NVARCHAR) else kind.size
        return f"{_LENGTH_NAMES[code]}({'max' if kind.form == t.PLP else size})"
    return kind.name.rpartition(".")[2] if code == t.UDT and kind.name else None
