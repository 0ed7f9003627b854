"""Descriptions of columns and binds, and how long their values are on the wire."""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.ttc_buffers import TtcReader
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

MAX_COLUMNS: Final = 4_096
MAX_BINDS: Final = 65_536


class OracleColumn:
    """A column of a result, a bind, or a define.

    `form` is the form of its character set. `prefetch` is the number of bytes (characters of a CLOB) of each LOB that
    come with its locator; `has_lob_size`: locators come with the size of the LOB.
    """

    __slots__ = ("flags", "form", "has_lob_size", "is_null", "name", "prefetch", "size", "type", "type_name")

    def __init__(
        self,
        type_code: int,
        size: int = 0,
        *,
        name: str = "",
        flags: int = 0,
        form: int = 0,
        type_name: str = "",
        has_lob_size: bool = False,
        prefetch: int = 0,
        is_null: bool = False,
    ) -> None:
        self.type = type_code
        self.size = size
        self.name = name
        self.flags = flags
        self.form = form
        self.type_name = type_name
        self.has_lob_size = has_lob_size
        self.prefetch = prefetch
        self.is_null = is_null  # every value is NULL, and none of them is sent

    @property
    def is_array(self) -> bool:
        return bool(self.flags & c.BIND_ARRAY)

    @property
    def codec(self) -> str:
        """Return Python's name of its texts' encoding."""
        return "utf-16-be" if self.form == c.NCHAR else "utf-8"


def _read_head(reader: TtcReader, packed_sb1: bool) -> tuple[int, int]:
    kind, flags = reader.ub1(), reader.ub1()
    reader.ub1()  # precision
    reader.sb1(packed_sb1)  # scale
    return kind, flags


def read_bind(reader: TtcReader, layout: TtcLayout) -> OracleColumn:
    """Read the description of a bind or a define, as clients send it."""
    # Clients send no scale but 0, which has the same form in both representations.
    kind, flags = _read_head(reader, layout.packed_sb1)
    size = reader.ub4()
    reader.ub4()  # elements
    options = reader.ub8()
    reader.skip_dlc()  # identifier of an object type
    reader.ub2()  # version of it
    reader.ub2()  # character set
    form = reader.ub1()
    characters = reader.ub4()
    reader.ub4()  # collation
    has_size = bool(options & c.LOB_PREFETCH)
    prefetch = characters if has_size else 0
    return OracleColumn(kind, size, flags=flags, form=form, has_lob_size=has_size, prefetch=prefetch)


def read_column(reader: TtcReader, layout: TtcLayout) -> OracleColumn:
    """Read the description of a column of a result."""
    kind, flags = _read_head(reader, layout.packed_sb1)
    size = reader.ub4()
    reader.ub4()  # elements
    reader.ub8()  # options
    reader.skip_dlc()  # identifier of an object type
    reader.ub2()  # version of it
    reader.ub2()  # character set
    form = reader.ub1()
    reader.ub4()  # characters
    reader.ub4()  # collation
    reader.ub1()  # whether it can be NULL
    reader.ub1()  # length of the name, in an old form
    name = reader.dlc()
    reader.skip_dlc()  # schema of an object type
    type_name = reader.dlc()
    reader.ub2()  # position
    reader.ub4()  # flags: JSON
    is_null = size == 0 and kind not in c.LONGS and kind != c.UROWID
    return OracleColumn(
        kind,
        size,
        name=name.decode("utf-8", "replace"),
        flags=flags,
        form=form,
        type_name=type_name.decode("utf-8", "replace"),
        is_null=is_null,
    )


def read_description(reader: TtcReader, layout: TtcLayout) -> tuple[OracleColumn, ...]:
    """Read the description of a result, after the text at its beginning."""
    reader.ub4()  # size of a row
    count = reader.ub4()
    if count > MAX_COLUMNS:
        raise ProtocolViolation(f"a result of {count} columns; the most is {MAX_COLUMNS}")
    if count:
        reader.ub1()
    columns = tuple([read_column(reader, layout) for _ in range(count)])
    reader.skip_dlc()  # date
    for _ in range(4):
        reader.ub4()
    reader.skip_dlc()  # key of the query cache
    return columns


def skip_rowid(reader: TtcReader) -> None:
    """Skip the five numbers of a physical row identifier."""
    reader.ub4()
    reader.ub2()
    reader.ub1()
    reader.ub4()
    reader.ub2()


def skip_lob(reader: TtcReader, column: OracleColumn) -> None:
    """Skip a locator, with what comes before it."""
    if not reader.ub4():
        return
    if column.has_lob_size and column.type != c.BFILE:
        reader.ub8()  # size of the LOB
        reader.ub4()  # size of its chunks
        if column.prefetch:
            if column.type == c.CLOB:
                if reader.ub1():
                    reader.ub2()  # character set
                reader.ub1()  # form
            reader.skip_clr()
    reader.skip_clr()


def skip_object(reader: TtcReader) -> None:
    for _ in range(3):
        reader.skip_dlc()
    reader.ub2()
    size = reader.ub4()
    reader.ub2()
    if size:
        reader.skip_clr()


class NestedCursor:
    """A cursor within an answer, and the columns of its rows."""

    __slots__ = ("columns", "number")

    def __init__(self, number: int, columns: tuple[OracleColumn, ...]) -> None:
        self.number = number
        self.columns = columns


def read_nested(reader: TtcReader, layout: TtcLayout) -> NestedCursor:
    """Read the description of a nested cursor, with its number."""
    columns = read_description(reader, layout)
    return NestedCursor(reader.ub4(), columns)


def skip_value(reader: TtcReader, column: OracleColumn, layout: TtcLayout, nested: list[NestedCursor]) -> None:
    """Skip one value from the target, without what follows it, and store the cursor that it is, if it is one.

    Raises ProtocolViolation for an unknown type.
    """
    kind = column.type
    if kind in c.SCALARS:
        reader.skip_clr()
    elif kind == c.ROWID:
        size = reader.ub1()
        if size and size != 255:
            skip_rowid(reader)
    elif kind == c.UROWID:
        if reader.ub4():
            reader.skip_clr()
    elif kind in c.LOBS:
        skip_lob(reader, column)
    elif kind in (c.CURSOR, c.RESULT_SET):
        reader.ub1()
        nested.append(read_nested(reader, layout))
    elif kind in (c.JSON, c.VECTOR):
        if reader.ub4():
            reader.ub8()
            reader.ub4()
            reader.skip_clr()
            reader.skip_clr()
    elif kind == c.OBJECT:
        skip_object(reader)
    else:
        raise ProtocolViolation(f"the target sent a value of type {kind}, which is not supported")
