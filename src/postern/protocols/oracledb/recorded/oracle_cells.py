"""Cells and columns as Oracle's tools write them."""

from __future__ import annotations

from typing import Final

from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_lobs import codec_of_lob
from postern.protocols.oracledb.wire.oracle_values import value_text
from postern.protocols.oracledb.wire.ttc_buffers import TtcReader
from postern.protocols.oracledb.wire.ttc_columns import NestedCursor, OracleColumn, skip_value
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

_SIZED: Final = frozenset({c.VARCHAR, c.CHAR, c.RAW})


def read_cell(reader: TtcReader, column: OracleColumn, layout: TtcLayout) -> str | None:
    """Read one value from the target as text; None for NULL. What has no text is a word in parentheses."""
    if column.is_null:
        return None
    kind = column.type
    if kind in c.SCALARS:
        value = reader.clr()
        return None if value is None else value_text(column, value).decode("utf-8", "replace")
    if kind in c.LOBS:
        return _read_lob(reader, column)
    start = int(reader.pos)
    nested: list[NestedCursor] = []
    skip_value(reader, column, layout, nested)
    if not nested and not reader.data[start : int(reader.pos)].strip(b"\0"):
        return None
    return f"({c.TYPE_NAMES.get(kind, 'value')})"


def _read_lob(reader: TtcReader, column: OracleColumn) -> str | None:
    """Read a locator. The beginning of the LOB can come with it."""
    if not reader.ub4():
        return None
    begin: bytes | None = None
    size = 0
    if column.has_lob_size and column.type != c.BFILE:
        size = reader.ub8()
        reader.ub4()
        if column.prefetch:
            if column.type == c.CLOB:
                if reader.ub1():
                    reader.ub2()
                reader.ub1()
            begin = reader.clr() or b""
    codec = codec_of_lob(reader.clr() or b"")
    if begin is None:
        return f"({c.TYPE_NAMES[column.type]})"
    text = begin.decode(codec, "replace") if codec else begin.hex().upper()
    rest = size - (len(text) if codec else len(begin))
    return f"{text} ({rest} more)" if rest > 0 else text


def type_name(column: OracleColumn) -> str:
    """Return the name of a type, as a table's definition has it."""
    if column.type == c.OBJECT and column.type_name:
        return column.type_name
    name = c.TYPE_NAMES.get(column.type, str(column.type))
    if column.form == c.NCHAR and column.type in (c.VARCHAR, c.CHAR, c.CLOB):
        name = f"N{name}"
    return f"{name}({column.size})" if column.type in _SIZED and column.size else name
