"""Requests of clients: batches, procedure calls, transaction manager requests and bulk loads (MS-TDS 2.2.6)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.support.mssql import sqlserver_types as t
from tests.support.mssql.sqlserver_collations import DEFAULT, SqlCollation, encoding_of
from tests.support.mssql.sqlserver_types import SqlType
from tests.support.mssql.sqlserver_values import SqlValue, decode_plain

TRANSACTION_HEADER: Final = 2
PROCEDURES: Final = {
    1: "sp_cursor",
    2: "sp_cursoropen",
    3: "sp_cursorprepare",
    4: "sp_cursorexecute",
    5: "sp_cursorprepexec",
    6: "sp_cursorunprepare",
    7: "sp_cursorfetch",
    8: "sp_cursoroption",
    9: "sp_cursorclose",
    10: "sp_executesql",
    11: "sp_prepare",
    12: "sp_execute",
    13: "sp_prepexec",
    14: "sp_prepexecrpc",
    15: "sp_unprepare",
}
_SHORT_NAMES: Final = {
    0xAF: "char",
    0xA7: "varchar",
    0xEF: "nchar",
    0xE7: "nvarchar",
    0xAD: "binary",
    0xA5: "varbinary",
    0x2F: "char",
    0x27: "varchar",
    0x2D: "binary",
    0x25: "varbinary",  # lengths of one byte
}
_LONG_NAMES: Final = {0x23: "text", 0x63: "ntext", 0x22: "image"}
_TIME_NAMES: Final = {0x29: "time", 0x2A: "datetime2", 0x2B: "datetimeoffset"}
_SIZED_CODES: Final = {
    0x26: {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"},
    0x68: {1: "bit"},
    0x6D: {4: "real", 8: "float"},
    0x6E: {4: "smallmoney", 8: "money"},
    0x6F: {4: "smalldatetime", 8: "datetime"},
}


class BadRequest(Exception):
    """Bytes that the specification does not allow."""


class TdsInput:
    """A cursor over a message's body. Reading beyond its end raises BadRequest."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.pos = 0

    @property
    def left(self) -> int:
        return len(self.body) - self.pos

    def take(self, size: int) -> bytes:
        if size < 0 or self.left < size:
            raise BadRequest(f"{size} bytes wanted at {self.pos}, {self.left} are left")
        self.pos += size
        return self.body[self.pos - size : self.pos]

    def peek(self) -> int:
        return self.body[self.pos]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def b_varchar(self) -> str:
        return self.take(self.number(1) * 2).decode("utf-16-le")

    def us_varchar(self) -> str:
        return self.take(self.number(2) * 2).decode("utf-16-le")


@dataclass(frozen=True)
class TableValue:
    """A table as a parameter: the name of its type, its columns and rows."""

    type_name: str
    columns: Sequence[SqlType]
    rows: Sequence[Sequence[SqlValue]]


@dataclass(frozen=True)
class RpcParameter:
    name: str
    type: SqlType
    value: SqlValue | TableValue
    output: bool = False
    default: bool = False


@dataclass(frozen=True)
class ProcedureCall:
    """A call. `no_metadata`: the client knows the columns, and the answer leaves them out."""

    name: str
    parameters: Sequence[RpcParameter]
    no_metadata: bool = False


def read_headers(source: TdsInput, version: int) -> bytes | None:
    """Skip ALL_HEADERS, which TDS 7.2 brought. Return the transaction descriptor."""
    if not t.has(version, t.V72):
        return None
    total = source.number(4)
    end = source.pos - 4 + total
    if total < 4 or end > len(source.body):
        raise BadRequest("ALL_HEADERS are longer than the message")
    descriptor = None
    while source.pos < end:
        size, kind = source.number(4), source.number(2)
        data = source.take(size - 6)
        if kind == TRANSACTION_HEADER:
            if len(data) != 12 or struct.unpack("<I", data[8:])[0] != 1:
                raise BadRequest("a transaction header needs a descriptor, and one outstanding request")
            descriptor = data[:8]
    if source.pos != end:
        raise BadRequest("headers do not end with ALL_HEADERS")
    return descriptor


def read_batch(source: TdsInput) -> str:
    return source.take(source.left).decode("utf-16-le")


def read_calls(source: TdsInput, version: int) -> list[ProcedureCall]:
    """Read the calls of an RPC request."""
    separators = (0xFF, 0xFE) if t.has(version, t.V72) else (0x80, 0xFE)
    calls = []
    while source.left:
        size = source.number(2)
        if size == 0xFFFF:
            number = source.number(2)
            if number not in PROCEDURES:
                raise BadRequest(f"there is no procedure {number}")
            name = PROCEDURES[number]
        else:
            name = source.take(size * 2).decode("utf-16-le")
        flags = source.number(2)
        parameters = []
        while source.left and source.peek() not in separators:
            parameters.append(_read_parameter(source))
        calls.append(ProcedureCall(name, parameters, bool(flags & 2)))
        if source.left:
            source.take(1)
    return calls


def _read_parameter(source: TdsInput) -> RpcParameter:
    name, status = source.b_varchar(), source.number(1)
    if status & 8:
        raise BadRequest("an encrypted parameter, which was not negotiated")
    if source.peek() == 0xF3:
        source.take(1)
        return RpcParameter(name, t.SqlType("sql_variant"), _read_table_value(source))
    kind, fixed = read_type(source)
    return RpcParameter(name, kind, read_value(source, kind, fixed), bool(status & 1), bool(status & 2))


def read_type(source: TdsInput) -> tuple[SqlType, int]:
    """Read TYPE_INFO. Return the type, and how values begin: 0 for no length, 1, 2 or 4 bytes of it, -1 for chunks,
    -2 for a text in a row, which has a pointer, and 99 for NULL alone."""
    code = source.number(1)
    if code == 0x1F:
        return SqlType("nvarchar", 1), 99
    if code in t.FIXED_TYPES:
        return SqlType(t.FIXED_TYPES[code]), 0
    if code in _SIZED_CODES:
        size = source.number(1)
        if size not in _SIZED_CODES[code]:
            raise BadRequest(f"type 0x{code:02x} of {size} bytes")
        return SqlType(_SIZED_CODES[code][size]), 1
    if code in _TIME_NAMES:
        return SqlType(_TIME_NAMES[code], scale=source.number(1)), 1
    if code in (0x6A, 0x6C):
        source.take(1)
        return SqlType("decimal", precision=source.number(1), scale=source.number(1)), 1
    if code in _SHORT_NAMES:
        return _read_short(source, code)
    if code in _LONG_NAMES:
        source.take(4)
        name = _LONG_NAMES[code]
        return SqlType(name, collation=_read_collation(source) if name != "image" else DEFAULT), 4
    return _read_other(source, code)


def _read_other(source: TdsInput, code: int) -> tuple[SqlType, int]:
    if code == 0x24:
        source.take(1)
        return t.GUID, 1
    if code == 0x28:
        return SqlType("date"), 1
    if code == 0x62:
        source.take(4)
        return SqlType("sql_variant"), 4
    if code == 0xF1:
        if source.number(1):
            source.b_varchar(), source.b_varchar(), source.us_varchar()
        return SqlType("xml"), -1
    if code == 0xF0:
        names = [source.b_varchar() for _ in range(3)]
        return SqlType(names[-1].lower() if names[-1].lower() in t.UDTS else "varbinary", t.MAX), -1
    raise BadRequest(f"there is no type 0x{code:02x}")


def _read_short(source: TdsInput, code: int) -> tuple[SqlType, int]:
    name = _SHORT_NAMES[code]
    narrow = code < 0x80
    size = source.number(1 if narrow else 2)
    collation = _read_collation(source) if name in t.TEXTS and not narrow else DEFAULT
    if size == 0xFFFF:
        return SqlType(name, t.MAX, collation=collation), -1
    return SqlType(name, size // (2 if name in t.UNICODE else 1), collation=collation), 1 if narrow else 2


def _read_collation(source: TdsInput) -> SqlCollation:
    wire = source.take(5)
    return SqlCollation("", wire, encoding_of(wire) if any(wire) else DEFAULT.encoding)


def read_value(source: TdsInput, kind: SqlType, lengths: int) -> SqlValue:
    """Read a value, as `read_type` says."""
    if lengths == 99:
        return None
    if lengths == 0:
        sizes: dict[str, int] = {**t.INTEGERS, **t.FLOATS, **t.MONEYS, **t.DATETIMES}
        return decode_plain(kind, source.take(sizes.get(kind.name, 1)))
    if lengths == -1:
        data = read_plp(source)
        return None if data is None else decode_plain(kind, data)
    if lengths == -2:
        pointer = source.number(1)
        if not pointer:
            return None
        source.take(pointer + 8)
        lengths = 4
    size = source.number(lengths)
    if size == {1: 0, 2: 0xFFFF, 4: 0xFFFFFFFF}[lengths] and not (lengths == 1 and kind.name in t.SIZED):
        return None
    if kind.name == "sql_variant":
        return _read_variant(source.take(size)) if size else None
    return decode_plain(kind, source.take(size))


def _read_variant(data: bytes) -> SqlValue:
    source = TdsInput(data)
    code, size = source.number(1), source.number(1)
    properties = source.take(size)
    # The same properties follow the code in TYPE_INFO, in another order, or none.
    if code in (0x6A, 0x6C):
        kind = SqlType("decimal", precision=properties[0], scale=properties[1])
    elif code in _TIME_NAMES:
        kind = SqlType(_TIME_NAMES[code], scale=properties[0])
    elif code in _SHORT_NAMES:
        name, wire = _SHORT_NAMES[code], properties[:5]
        kind = SqlType(name, 8000, collation=SqlCollation("", wire, encoding_of(wire)) if size > 2 else DEFAULT)
    elif code in t.FIXED_TYPES:
        kind = SqlType(t.FIXED_TYPES[code])
    else:
        kind = t.GUID if code == 0x24 else SqlType("date")
    return decode_plain(kind, source.take(source.left))


def read_plp(source: TdsInput) -> bytes | None:
    """Read a value in chunks. A total that is told must be right."""
    total = source.number(8)
    if total == 0xFFFFFFFFFFFFFFFF:
        return None
    chunks = []
    while size := source.number(4):
        chunks.append(source.take(size))
    data = b"".join(chunks)
    if total not in (0xFFFFFFFFFFFFFFFE, len(data)):
        raise BadRequest(f"a value of {total} bytes has {len(data)}")
    return data


def _read_table_value(source: TdsInput) -> TableValue:
    """Read a table (MS-TDS 2.2.5.5.5)."""
    name = ".".join(part for part in (source.b_varchar() for _ in range(3)) if part)
    count = source.number(2)
    columns: list[tuple[SqlType, int]] = []
    for _ in range(0 if count == 0xFFFF else count):
        source.take(6)  # user type and flags
        columns.append(read_type(source))
        source.b_varchar()
    while source.peek() in (0x10, 0x11):  # order, and columns in another order
        token = source.number(1)
        source.take(source.number(2) * (3 if token == 0x10 else 2))
    if source.number(1):
        raise BadRequest("no end of a table's columns")
    rows = []
    while source.number(1) == 1:
        rows.append([read_value(source, kind, lengths) for kind, lengths in columns])
    return TableValue(name, [kind for kind, _ in columns], rows)


@dataclass(frozen=True)
class TransactionRequest:
    """A transaction manager request. `name` of a savepoint or transaction; `begins` another one at once."""

    kind: int
    name: str = ""
    isolation: int = 0
    begins: bool = False


BEGIN, COMMIT, ROLLBACK, SAVE = 5, 7, 8, 9


def read_transaction(source: TdsInput) -> TransactionRequest:
    """Read a request. Clients tell the length of a name in bytes."""

    def name() -> str:
        return source.take(source.number(1)).decode("utf-16-le")

    kind = source.number(2)
    if kind == BEGIN:
        isolation = source.number(1)
        return TransactionRequest(kind, name(), isolation)
    if kind in (COMMIT, ROLLBACK):
        named, flags = name(), source.number(1)
        return TransactionRequest(kind, named, source.number(1) if flags & 1 else 0, bool(flags & 1))
    if kind == SAVE:
        return TransactionRequest(kind, name())
    raise BadRequest(f"transaction manager request {kind}")


def read_bulk_rows(source: TdsInput, version: int) -> tuple[list[str], list[list[SqlValue]]]:
    """Read a bulk load: COLMETADATA, rows, DONE. Return the names of the columns, and the rows."""
    if source.number(1) != 0x81:
        raise BadRequest("a bulk load begins with its columns")
    columns: list[tuple[str, SqlType, int]] = []
    for _ in range(source.number(2)):
        source.take(6 if t.has(version, t.V72) else 4)
        kind, lengths = read_type(source)
        if kind.name in t.LONG:
            lengths = -2
            source.us_varchar()  # the table, which a server would send in parts
        columns.append((source.b_varchar(), kind, lengths))
    rows: list[list[SqlValue]] = []
    while source.left:
        token = source.number(1)
        if token == 0xD1:
            rows.append([read_value(source, kind, lengths) for _, kind, lengths in columns])
        elif token == 0xD2:
            nulls = source.take((len(columns) + 7) // 8)
            rows.append(
                [
                    None if nulls[index // 8] >> (index % 8) & 1 else read_value(source, kind, lengths)
                    for index, (_, kind, lengths) in enumerate(columns)
                ]
            )
        elif token == 0xFD:
            source.take(source.left)
        else:
            raise BadRequest(f"token 0x{token:02x} in a bulk load")
    return [name for name, _, _ in columns], rows
