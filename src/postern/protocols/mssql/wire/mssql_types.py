"""Types of columns and parameters: TYPE_INFO (MS-TDS 2.2.5.4 to 2.2.5.6), and the form of their values.

A value has no type of its own: without its TYPE_INFO, it cannot be told where it ends. An unknown type is therefore a
violation of the protocol.

    fixed        the value
    BYTE         UInt8 length, value; length 0 is NULL
    SHORT        UInt16 length, value; 0xFFFF is NULL
    PLP          UInt64 length (all ones: NULL; one less: unknown), chunks of UInt32 length and data, an empty one
    POINTER      UInt8 length of a pointer (0 is NULL), pointer, 8 bytes, UInt32 length, value
    LONG         UInt32 length, value; all ones are NULL. Parameters have it instead of POINTER
    VARIANT      UInt32 length (0 is NULL), a type with its properties, value
    TABLE        columns and rows: a table-valued parameter
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import Scalar, TextKind
from postern.protocols.mssql.wire import mssql_collations as collations

# Forms of values. A form from 0 on is a fixed number of bytes.
BYTE: Final = -1
SHORT: Final = -2
PLP: Final = -3
POINTER: Final = -4
LONG: Final = -5
VARIANT: Final = -6
TABLE: Final = -7

NULL: Final = 0x1F
IMAGE: Final = 0x22
TEXT: Final = 0x23
GUID: Final = 0x24
OLD_VARBINARY: Final = 0x25
INTN: Final = 0x26
OLD_VARCHAR: Final = 0x27
DATE: Final = 0x28
TIME: Final = 0x29
DATETIME2: Final = 0x2A
DATETIMEOFFSET: Final = 0x2B
OLD_BINARY: Final = 0x2D
OLD_CHAR: Final = 0x2F
INT1: Final = 0x30
BIT: Final = 0x32
INT2: Final = 0x34
OLD_DECIMAL: Final = 0x37
INT4: Final = 0x38
DATETIME4: Final = 0x3A
REAL: Final = 0x3B
MONEY: Final = 0x3C
DATETIME: Final = 0x3D
FLOAT: Final = 0x3E
OLD_NUMERIC: Final = 0x3F
SQL_VARIANT: Final = 0x62
NTEXT: Final = 0x63
BITN: Final = 0x68
DECIMAL: Final = 0x6A
NUMERIC: Final = 0x6C
FLOATN: Final = 0x6D
MONEYN: Final = 0x6E
DATETIMEN: Final = 0x6F
MONEY4: Final = 0x7A
INT8: Final = 0x7F
VARBINARY: Final = 0xA5
VARCHAR: Final = 0xA7
BINARY: Final = 0xAD
CHAR: Final = 0xAF
NVARCHAR: Final = 0xE7
NCHAR: Final = 0xEF
UDT: Final = 0xF0
XML: Final = 0xF1
TVP: Final = 0xF3
JSON: Final = 0xF4
VECTOR: Final = 0xF5

FIXED: Final = {
    NULL: 0,
    **dict.fromkeys((INT1, BIT), 1),
    INT2: 2,
    **dict.fromkeys((INT4, DATETIME4, REAL, MONEY4), 4),
    **dict.fromkeys((MONEY, DATETIME, FLOAT, INT8), 8),
}
DECIMALS: Final = frozenset({OLD_DECIMAL, OLD_NUMERIC, DECIMAL, NUMERIC})
SCALED: Final = frozenset({TIME, DATETIME2, DATETIMEOFFSET})
CHARS: Final = frozenset({OLD_CHAR, OLD_VARCHAR, CHAR, VARCHAR, TEXT})  # in a code page
UNICODE: Final = frozenset({NCHAR, NVARCHAR, NTEXT, XML})  # in UTF-16
PADDED: Final = frozenset({OLD_CHAR, CHAR, NCHAR})
BYTES: Final = frozenset({OLD_BINARY, OLD_VARBINARY, BINARY, VARBINARY, IMAGE})
_COLLATED: Final = frozenset({CHAR, VARCHAR, NCHAR, NVARCHAR})
_ONE_SIZE: Final = frozenset({GUID, INTN, BITN, FLOATN, MONEYN, DATETIMEN})
_OLD: Final = frozenset({OLD_CHAR, OLD_VARCHAR, OLD_BINARY, OLD_VARBINARY})
_LONGS: Final = frozenset({IMAGE, TEXT, NTEXT})
_SHORTS: Final = frozenset({VARBINARY, VARCHAR, BINARY, CHAR, NVARCHAR, NCHAR})
_IN_VARIANT: Final = frozenset({VARBINARY, BINARY})

UNLIMITED: Final = 0xFFFF  # the size of VARCHAR(MAX) and its like
UTF16: Final = "utf-16-le"


class MssqlType:
    """A type. `size` is the most bytes of a value, or UNLIMITED. `codec` is that of texts, empty for other types.
    `is_nullable`: a value can be NULL, as far as the description of a column tells."""

    __slots__ = ("code", "codec", "form", "is_nullable", "name", "precision", "scale", "size")

    def __init__(
        self, code: int, form: int, size: int = 0, codec: str = "", precision: int = 0, scale: int = 0
    ) -> None:
        self.code = code
        self.form = form
        self.size = size
        self.codec = codec
        self.precision = precision
        self.scale = scale
        self.is_nullable = form < 0
        self.name = ""  # of a type that a database defines: UDT and TVP


def uint16(data: bytes, pos: i64) -> i64:
    """Return the unsigned little-endian Int16 at `pos`."""
    high: i64 = data[pos + 1]
    return data[pos] | (high << 8)


def uint32(data: bytes, pos: i64) -> i64:
    """Return the unsigned little-endian Int32 at `pos`."""
    b: i64 = data[pos + 1]
    c: i64 = data[pos + 2]
    d: i64 = data[pos + 3]
    return data[pos] | (b << 8) | (c << 16) | (d << 24)


class Truncated(Exception):
    """What is being read has not arrived completely. `need` is a number of bytes, from where the reading began or from
    the start of the buffer, without which it cannot be complete."""

    def __init__(self, need: int) -> None:
        super().__init__(need)
        self.need = need


def require(pos: i64, size: i64, end: i64) -> i64:
    """Return where `size` bytes from `pos` end. Raises Truncated if they are not all there."""
    if end - pos < size:
        raise Truncated(pos + size)
    return pos + size


def read_short_text(buf: bytes, pos: i64, end: i64) -> tuple[str, i64]:
    """Read a B_VARCHAR: UInt8 number of characters, and the text in UTF-16."""
    after = require(pos, 1, end)
    size: i64 = buf[pos]
    stop = require(after, 2 * size, end)
    return buf[after:stop].decode(UTF16, "surrogatepass"), stop


def read_text(buf: bytes, pos: i64, end: i64) -> tuple[str, i64]:
    """Read a US_VARCHAR: UInt16 number of characters, and the text in UTF-16."""
    after = require(pos, 2, end)
    stop = require(after, 2 * uint16(buf, pos), end)
    return buf[after:stop].decode(UTF16, "surrogatepass"), stop


def read_type(buf: bytes, pos: i64, end: i64, *, is_parameter: bool = False) -> tuple[MssqlType, i64]:
    """Read a TYPE_INFO. Raises Truncated, and ProtocolViolation for an unknown type.

    `is_parameter`: of an RPC or a bulk load's client, where some types have another form.
    """
    after = require(pos, 1, end)
    code = buf[pos]
    fixed = FIXED.get(code)
    if fixed is not None:
        return MssqlType(code, fixed, fixed), after
    if code in _ONE_SIZE or code in _OLD:
        pos, after = after, require(after, 1, end)
        codec = "cp1252" if code in CHARS else ""
        return MssqlType(code, BYTE, buf[pos], codec), after
    if code in _SHORTS:
        return _read_short(buf, after, end, code)
    if code in DECIMALS:
        pos, after = after, require(after, 3, end)
        return MssqlType(code, BYTE, buf[pos], "", buf[pos + 1], buf[pos + 2]), after
    if code in SCALED:
        pos, after = after, require(after, 1, end)
        if buf[pos] > 7:
            raise ProtocolViolation(f"a time has {buf[pos]} decimals")
        return MssqlType(code, BYTE, size_of_time(code, buf[pos]), "", 0, buf[pos]), after
    if code == DATE:
        return MssqlType(code, BYTE, 3), after
    if code in _LONGS:
        return _read_long(buf, after, end, code, is_parameter)
    if code == SQL_VARIANT:
        pos, after = after, require(after, 4, end)
        return MssqlType(code, VARIANT, int(uint32(buf, pos))), after
    return _read_large(buf, after, end, code, is_parameter)


def _read_short(buf: bytes, pos: i64, end: i64, code: int) -> tuple[MssqlType, i64]:
    after = require(pos, 2, end)
    size = int(uint16(buf, pos))
    form = SHORT
    if size == UNLIMITED:
        if code in PADDED or code == BINARY:
            raise ProtocolViolation("a type of fixed length has no length")
        form = PLP
    if code not in _COLLATED:
        return MssqlType(code, form, size), after
    pos, after = after, require(after, collations.SIZE, end)
    codec = UTF16 if code in UNICODE else collations.codec_of(buf[pos:after])
    return MssqlType(code, form, size, codec), after


def _read_long(buf: bytes, pos: i64, end: i64, code: int, is_parameter: bool) -> tuple[MssqlType, i64]:
    after = require(pos, 4, end)
    form = LONG if is_parameter else POINTER
    size = int(uint32(buf, pos))
    if code == IMAGE:
        return MssqlType(code, form, size), after
    pos, after = after, require(after, collations.SIZE, end)
    codec = UTF16 if code == NTEXT else collations.codec_of(buf[pos:after])
    return MssqlType(code, form, size, codec), after


def _read_large(buf: bytes, pos: i64, end: i64, code: int, is_parameter: bool) -> tuple[MssqlType, i64]:
    if code == XML:
        after = require(pos, 1, end)
        if buf[pos]:
            _, after = read_short_text(buf, after, end)
            _, after = read_short_text(buf, after, end)
            _, after = read_text(buf, after, end)
        return MssqlType(code, PLP, UNLIMITED, UTF16), after
    if code == JSON:
        return MssqlType(code, PLP, UNLIMITED, "utf-8"), pos
    if code == VECTOR:
        after = require(pos, 3, end)
        return MssqlType(code, SHORT, int(uint16(buf, pos)), scale=buf[pos + 2]), after
    if code not in (UDT, TVP):
        raise ProtocolViolation(f"type {code:#04x} is unknown")
    after = pos
    size = UNLIMITED
    if code == UDT and not is_parameter:
        after = require(after, 2, end)
        size = int(uint16(buf, pos))
    names: list[str] = []
    for _ in range(3):
        name, after = read_short_text(buf, after, end)
        names.append(name)
    if code == UDT and not is_parameter:
        _, after = read_text(buf, after, end)
    kind = MssqlType(code, PLP if code == UDT else TABLE, size)
    kind.name = ".".join([name for name in names if name])
    return kind, after


_TIME_SIZES: Final = (3, 3, 3, 4, 4, 5, 5, 5)  # by number of decimals


def size_of_time(code: int, scale: int) -> int:
    """Return the bytes of a TIME, DATETIME2 or DATETIMEOFFSET with that number of decimals."""
    return _TIME_SIZES[scale] + {TIME: 0, DATETIME2: 3, DATETIMEOFFSET: 5}[code]


_WHOLE: Final = {1: Scalar.SMALLINT, 2: Scalar.SMALLINT, 4: Scalar.INTEGER, 8: Scalar.BIGINT}
_SCALARS: Final = {
    **dict.fromkeys((INT1, INT2), Scalar.SMALLINT),
    INT4: Scalar.INTEGER,
    INT8: Scalar.BIGINT,
    **dict.fromkeys((BIT, BITN), Scalar.BOOLEAN),
    REAL: Scalar.REAL,
    FLOAT: Scalar.DOUBLE,
    **dict.fromkeys(DECIMALS, Scalar.DECIMAL),
    **dict.fromkeys((MONEY, MONEY4, MONEYN), Scalar.MONEY),
    **dict.fromkeys((DATETIME, DATETIME4, DATETIMEN, DATETIME2), Scalar.TIMESTAMP),
    DATE: Scalar.DATE,
    TIME: Scalar.TIME,
    DATETIMEOFFSET: Scalar.MOMENT,
    GUID: Scalar.UUID,
    **dict.fromkeys(BYTES, Scalar.BYTES),
    **dict.fromkeys((XML, SQL_VARIANT, UDT, VECTOR, NULL), Scalar.OTHER),
    JSON: Scalar.JSON,
}


def scalar_of(kind: MssqlType) -> Scalar:
    """Return the scalar kind of a type's values."""
    if kind.code == INTN:
        return _WHOLE.get(kind.size, Scalar.OTHER)
    if kind.code == FLOATN:
        return Scalar.REAL if kind.size == 4 else Scalar.DOUBLE
    return _SCALARS.get(kind.code, Scalar.TEXT)


_NUMBERS: Final = frozenset({*DECIMALS, INT8})


def text_kind_of(kind: MssqlType) -> TextKind:
    """Return the kind of a type's texts."""
    if kind.codec:
        return TextKind.JSON if kind.code == JSON else TextKind.TEXT
    if kind.code in _NUMBERS or (kind.code == INTN and kind.size == 8):
        return TextKind.NUMBER
    return TextKind.TEXT if kind.code in BYTES or kind.code in (SQL_VARIANT, UDT) else TextKind.OPAQUE
