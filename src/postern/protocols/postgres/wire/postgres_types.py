"""Text inside cells, by type OID and format: extracting it and replacing it.

OIDs are those of `pg_type.dat`; binary layouts are those of the types' `*_send` functions. A cell of an unknown type is
treated as text, which at worst searches where there is nothing to find.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_interface
from typing import Final, Protocol

from postern.errors import ProtocolViolation
from postern.interception.events import Column, TextKind
from postern.protocols.postgres.wire.postgres_messages import PostgresField

TEXT = 0
BINARY = 1

BYTEA, INT8, INT2, INT4, JSON, JSONB, CIDR, INET, RECORD, NUMERIC = 17, 20, 21, 23, 114, 3802, 650, 869, 2249, 1700
MONEY, BOX = 790, 603

# bool, int2, int4, oid, float4, float8, money, macaddr, date and time types, uuid, bit, geometry, xid, lsn …
_OPAQUE = frozenset({
    16, 21, 23, 24, 26, 27, 28, 29, 600, 601, 602, 603, 604, 628, 700, 701, 718, 774, 790, 829, 1082, 1083, 1114, 1184,
    1186, 1266, 1560, 1562, 2202, 2205, 2206, 2950, 3220, 3904, 3906, 3908, 3910, 3912, 3926, 4089, 5069,
})  # fmt: skip

# Element type by array type.
ARRAYS: Mapping[int, int] = {
    1001: BYTEA, 1002: 18, 1003: 19, 1009: 25, 1014: 1042, 1015: 1043, 143: 142, 199: JSON, 3807: JSONB, 1016: INT8,
    1231: NUMERIC, 1041: INET, 651: CIDR, 2287: RECORD, 1000: 16, 1005: INT2, 1007: INT4, 1028: 26, 1021: 700,
    1022: 701, 1182: 1082, 1183: 1083, 1115: 1114, 1185: 1184, 1187: 1186, 1270: 1266, 2951: 2950, 791: MONEY,
    1040: 829, 775: 774, 1561: 1560, 1563: 1562, 1017: 600, 1018: 601, 1019: 602, 1020: BOX, 1027: 604, 629: 628,
    719: 718, 3643: 3614, 4073: 4072, 2201: 1790, 6150: 4451, 6151: 4532, 6152: 4533, 6153: 4534,
    6155: 4535, 6157: 4536,
    3905: 3904, 3907: 3906, 3909: 3908, 3911: 3910, 3913: 3912, 3927: 3926,
}  # fmt: skip

_TEXT_OID: Final = 25
UNKNOWN: Final = -1  # not the OID of any type
FIRST_OWN: Final = 16384  # OIDs from here on are of user-defined types

_INT32 = struct.Struct("!i")
_MAX_DIMENSIONS = 6  # MAXDIM of the backend


class TextCodec(Protocol):
    """Access to the searchable texts inside a cell. `rebuild` takes as many texts as `leaves` returned."""

    def leaves(self, cell: bytes) -> list[bytes]: ...

    def rebuild(self, cell: bytes, leaves: list[bytes]) -> bytes: ...


def describe(field: PostgresField) -> tuple[Column, TextCodec | None]:
    """Return the column for inspection, and the codec of its cells; None if the cell itself is the text."""
    kind, codec = _kind(field.oid, field.format)
    return Column(field.name, kind, field.table, field.place), codec


def _kind(oid: int, form: int) -> tuple[TextKind, TextCodec | None]:
    element = ARRAYS.get(oid)
    if element is not None:
        kind, _ = _kind(element, form)
        if kind is TextKind.OPAQUE:
            return kind, None
        if form == BINARY:
            return (TextKind.TEXT if kind is TextKind.JSON else kind), _BinaryArray()
        return (kind, _TextElements()) if kind in (TextKind.NUMBER, TextKind.ADDRESS) else (TextKind.TEXT, None)
    if oid in _OPAQUE:
        return TextKind.OPAQUE, None
    if oid in (JSON, JSONB):
        return TextKind.JSON, _Jsonb() if (oid == JSONB and form == BINARY) else None
    if oid in (INT8, NUMERIC):
        return TextKind.NUMBER, (_Int8() if oid == INT8 else _Numeric()) if form == BINARY else None
    if oid in (INET, CIDR):
        return TextKind.ADDRESS, _Inet() if form == BINARY else None
    if oid == BYTEA:
        return TextKind.TEXT, _HexBytea() if form == TEXT else None
    if form == BINARY and (oid == RECORD or oid >= FIRST_OWN):
        return TextKind.TEXT, _Composite()
    return TextKind.TEXT, None


class _Jsonb:
    """jsonb: a version byte, then the document as text."""

    def leaves(self, cell: bytes) -> list[bytes]:
        return [cell[1:]]

    def rebuild(self, cell: bytes, leaves: list[bytes]) -> bytes:
        return cell[:1] + leaves[0]


class _Int8:
    def leaves(self, cell: bytes) -> list[bytes]:
        return [b"%d" % int.from_bytes(cell, "big", signed=True)]

    def rebuild(self, cell: bytes, leaves: list[bytes]) -> bytes:
        sign = -1 if leaves[0].startswith(b"-") else 1
        value = sign * int(_digits(leaves[0]))
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError("the replacement does not fit into the 8 bytes of its column")
        return value.to_bytes(8, "big", signed=True)


class _Numeric:
    def leaves(self, cell: bytes) -> list[bytes]:
        text = decimal_of(cell)
        return [] if text is None else [text]

    def rebuild(self, cell: bytes, leaves: list[bytes]) -> bytes:
        return packed_decimal(leaves[0]) if leaves else cell


def decimal_of(cell: bytes) -> bytes | None:
    """Return a binary numeric as text; None for NaN and the infinities. Int16s: count of base-10000 digits, weight of
    the first, sign, digits after the point, digits."""
    count, weight, sign, scale = struct.unpack_from("!hhHh", cell, 0)
    if sign not in (0x0000, 0x4000):
        return None
    digits = struct.unpack_from(f"!{count}h", cell, 8)
    groups = [b"%04d" % (digits[i] if 0 <= i < count else 0) for i in range(min(0, weight + 1), max(count, weight + 1))]
    behind = weight + 1 - min(0, weight + 1)  # index of the first group after the point
    whole = b"".join(groups[:behind]).lstrip(b"0") or b"0"
    after = b"".join(groups[behind:])
    text = whole + (b"." + after.ljust(scale, b"0")[:scale] if scale > 0 else b"")
    return b"-" + text if sign else text


def packed_decimal(text: bytes) -> bytes:
    """Encode a decimal text as a binary numeric."""
    whole, _, after = text.partition(b".")
    whole, after = _digits(whole), _digits(after) if after else b""
    scale = len(after)
    whole = whole.rjust(-(-len(whole) // 4) * 4, b"0")
    after = after.ljust(-(-len(after) // 4) * 4, b"0")
    groups = [int((whole + after)[i : i + 4]) for i in range(0, len(whole) + len(after), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    if not groups:
        return struct.pack("!hhHh", 0, 0, 0, scale)
    sign = 0x4000 if text.startswith(b"-") else 0
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight, sign, scale, *groups)


class _Inet:
    """inet and cidr: family (2 is IPv4, 3 is IPv6), prefix length, is_cidr, address length, address."""

    def leaves(self, cell: bytes) -> list[bytes]:
        address = IPv4Address(cell[4:8]) if cell[0] == 2 else IPv6Address(cell[4:20])
        return [str(address).encode()]

    def rebuild(self, cell: bytes, leaves: list[bytes]) -> bytes:
        """Rebuild the cell. A text that is not an address of the same family becomes the null address."""
        try:
            address = ip_interface(leaves[0].decode()).ip
        except ValueError:
            return cell[:4] + bytes(len(cell) - 4)
        if address.version != (4 if cell[0] == 2 else 6):
            return cell[:4] + bytes(len(cell) - 4)
        return cell[:4] + address.packed


class _HexBytea:
    r"""bytea as `\x` and hexadecimal digits: encoded text is searched, too."""

    def leaves(self, cell: bytes) -> list[bytes]:
        return [bytes.fromhex(cell[2:].decode())] if cell.startswith(b"\\x") else [cell]

    def rebuild(self, cell: bytes, leaves: list[bytes]) -> bytes:
        return b"\\x" + leaves[0].hex().encode() if cell.startswith(b"\\x") else leaves[0]


class _TextElements:
    """The elements of an array literal whose elements need no quotes."""

    _element = re.compile(rb"[^{},\"]+")

    def leaves(self, cell: bytes) -> list[bytes]:
        return self._element.findall(cell)

    def rebuild(self, cell: bytes, leaves: list[bytes]) -> bytes:
        remaining = iter(leaves)
        return self._element.sub(lambda _: next(remaining), cell)


def _inner(oid: int, cell: bytes) -> tuple[TextCodec | None, list[bytes]]:
    """Return the texts of a value inside a binary array or record."""
    kind, codec = _kind(oid, BINARY)
    if kind is TextKind.OPAQUE:
        return codec, []
    return codec, [cell] if codec is None else codec.leaves(cell)


class _BinaryArray:
    """Binary array. Int32s: dimensions, has-NULL flag, element OID, two per dimension; then length and bytes by
    element."""

    def leaves(self, cell: bytes) -> list[bytes]:
        return _texts_of(cell, array_parts(cell))

    def rebuild(self, cell: bytes, leaves: list[bytes]) -> bytes:
        return _with_texts(cell, array_parts(cell), leaves)


class _Composite:
    """A record, or an array or an hstore of unknown types. Other bytes count as one text."""

    def leaves(self, cell: bytes) -> list[bytes]:
        parts = any_parts(cell)
        return [cell] if parts is None else _texts_of(cell, parts)

    def rebuild(self, cell: bytes, leaves: list[bytes]) -> bytes:
        parts = any_parts(cell)
        return leaves[0] if parts is None else _with_texts(cell, parts, leaves)


# A value inside another: its type's OID, its offset, and its size (-1: NULL).
_Part = tuple[int, int, int]


def _record_parts(cell: bytes) -> list[_Part]:
    """Parse a record: Int32 field count, then OID, length and bytes by field. Raises ProtocolViolation for other
    bytes."""
    count = _int32(cell, 0)
    parts: list[_Part] = []
    pos = 4
    for _ in range(count):
        part = (_int32(cell, pos) & 0xFFFFFFFF, pos + 8, _int32(cell, pos + 4))
        parts.append(part)
        pos = part[1] + max(part[2], 0)
    if pos != len(cell) or count < 0:
        raise ProtocolViolation("these bytes are not a record")
    return parts


def array_parts(cell: bytes) -> list[_Part]:
    """Parse the elements of a binary array. Raises ProtocolViolation for other bytes."""
    dimensions, has_null, oid = _int32(cell, 0), _int32(cell, 4), _int32(cell, 8) & 0xFFFFFFFF
    if not 0 <= dimensions <= _MAX_DIMENSIONS or has_null not in (0, 1):
        raise ProtocolViolation("these bytes are not an array")
    count = 1 if dimensions else 0
    for index in range(dimensions):
        count *= _int32(cell, 12 + 8 * index)
    pos = 12 + 8 * dimensions
    parts: list[_Part] = []
    for _ in range(count):
        part = (oid, pos + 4, _int32(cell, pos))
        parts.append(part)
        pos = part[1] + max(part[2], 0)
    if pos != len(cell):
        raise ProtocolViolation("these bytes are not an array")
    return parts


def _pairs(cell: bytes) -> list[_Part]:
    """Parse the keys and values of an hstore: Int32 count, then length and bytes of each. Raises ProtocolViolation for
    other bytes."""
    parts: list[_Part] = []
    pos = 4
    for _ in range(2 * _int32(cell, 0)):
        part = (_TEXT_OID, pos + 4, _int32(cell, pos))
        parts.append(part)
        pos = part[1] + max(part[2], 0)
    if pos != len(cell):
        raise ProtocolViolation("these bytes are not an hstore")
    return parts


def any_parts(cell: bytes) -> list[_Part] | None:
    for read in (_record_parts, array_parts, _pairs):
        try:
            return read(cell)
        except ProtocolViolation:
            continue
    return None


def _texts_of(cell: bytes, parts: list[_Part]) -> list[bytes]:
    texts: list[bytes] = []
    for oid, start, size in parts:
        if size >= 0:
            texts += _inner(oid, cell[start : start + size])[1]
    return texts


def _with_texts(cell: bytes, parts: list[_Part], new: list[bytes]) -> bytes:
    """Return the cell with these texts; parts whose texts are the same are unchanged."""
    out: list[bytes] = []
    copied = at = 0
    for oid, start, size in parts:
        if size < 0:
            continue
        value = cell[start : start + size]
        codec, old_texts = _inner(oid, value)
        mine = new[at : at + len(old_texts)]
        at += len(old_texts)
        if mine != old_texts:
            value = mine[0] if codec is None else codec.rebuild(value, mine)
            out += (cell[copied : start - 4], _INT32.pack(len(value)), value)
            copied = start + size
    out.append(cell[copied:])
    return b"".join(out)


def _int32(cell: bytes, pos: int) -> int:
    if len(cell) - pos < 4:
        raise ProtocolViolation("a value is shorter than its length field")
    return int.from_bytes(cell[pos : pos + 4], "big", signed=True)


def _digits(text: bytes) -> bytes:
    return re.sub(rb"[^0-9]", b"", text) or b"0"


def _float(size: str) -> Callable[[bytes], bytes]:
    return lambda cell: repr(struct.unpack("!" + size, cell)[0]).encode()


def _integer(cell: bytes) -> bytes:
    return b"%d" % int.from_bytes(cell, "big", signed=True)


def _boolean(cell: bytes) -> bytes:
    """Convert a boolean: the target reads every byte except zero as true."""
    return b"false" if cell == b"\0" else b"true"


def _number(cell: bytes) -> bytes:
    text = decimal_of(cell)
    return _SPECIAL.get(cell[4:6], b"NaN") if text is None else text


def _network(cell: bytes) -> bytes:
    """Convert an address, with the length of its prefix unless that is the whole address."""
    (address,) = _Inet().leaves(cell)
    return address if cell[1] == (32 if cell[0] == 2 else 128) else b"%s/%d" % (address, cell[1])


_SPECIAL: Final = {b"\xc0\0": b"NaN", b"\xd0\0": b"Infinity", b"\xf0\0": b"-Infinity"}
_PARAMETERS: Mapping[int, Callable[[bytes], bytes]] = {
    16: _boolean,
    20: _integer,
    21: _integer,
    23: _integer,
    26: _integer,
    700: _float("f"),
    701: _float("d"),
    NUMERIC: _number,
    JSONB: lambda cell: cell[1:],
    2950: lambda cell: cell.hex().encode(),
    INET: _network,
}


_PRINTABLE: Final = bytes((9, 10, 13, *range(32, 256)))


def readable(value: bytes, oid: int) -> bytes:
    r"""Return a binary value as text: by its type if that is known here, unchanged if printable, else `\x…`."""
    convert = _PARAMETERS.get(oid)
    if convert is not None:
        try:
            return convert(value)
        except (struct.error, ValueError, IndexError):
            return b"\\x" + value.hex().encode()
    if not value.translate(None, _PRINTABLE):
        return value
    return b"\\x" + value.hex().encode()
