"""Conversion of binary bind values to texts that the target reads as the same values.

Values of unknown types have no such text, because what reviewers see must be what runs.
"""

from __future__ import annotations

import struct
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.postgres.wire.postgres_scalars import scalar_codec
from postern.protocols.postgres.wire.postgres_types import ARRAYS, BINARY, BYTEA, TEXT, array_parts, readable

_SHOWN: Final = frozenset({16, 20, 21, 23, 26, 650, 700, 701, 869, 1700, 2950, 3802})  # converted by `readable`
_WRITTEN: Final = frozenset({18, 19, 25, 114, 142, 705, 1042, 1043})  # their binary format is their text
_READ: Final = frozenset({1082, 1083, 1114, 1184, 1186, 1560, 1562})
_MOMENT: Final = 1184
_INTERVAL: Final = 1186
_FIRST: Final = struct.Struct("!i")  # the lower bound of a dimension


def parameters(
    values: tuple[bytes | None, ...], formats: tuple[int, ...], oids: tuple[int, ...]
) -> tuple[tuple[bytes | None, ...], tuple[int, ...]]:
    r"""Return bind values as text, and the numbers (from 1) of those that could not be converted: the type is unknown,
    or the value is not valid for it. Those are unchanged if printable, else `\x…`."""
    if not formats or not any(formats):
        return values, ()
    plain_values: list[bytes | None] = []
    unsure: list[int] = []
    for index, value in enumerate(values):
        form = formats[0] if len(formats) == 1 else formats[index] if index < len(formats) else 0
        if value is None or form == TEXT:
            plain_values.append(value)
            continue
        oid = oids[index] if index < len(oids) else 0
        text = plain(value, oid)
        if text is None and value:
            unsure.append(index + 1)
        plain_values.append(readable(value, 0) if text is None else text)
    return tuple(plain_values), tuple(unsure)


def plain(value: bytes, oid: int) -> bytes | None:
    """Return the value as the target would read it; None if unknown."""
    if oid in _WRITTEN:
        return value
    if oid == BYTEA:
        return b"\\x" + value.hex().encode()
    try:
        if oid in ARRAYS:
            return _array(value, ARRAYS[oid])
        if oid in _READ:
            return _read(value, oid)
        if oid not in _SHOWN:
            return None
        text = readable(value, oid)
    except (ProtocolViolation, ValueError, struct.error, IndexError):
        return None
    return None if text.startswith(b"\\x") and oid != 3802 else text


def _read(value: bytes, oid: int) -> bytes | None:
    codec = scalar_codec(oid, BINARY)
    if codec is None:
        return None
    text = codec.read(value)
    if oid == _INTERVAL:
        return b"%b mons %b days %b microseconds" % tuple(text.split())
    return text + b"+00" if oid == _MOMENT else text


def _array(cell: bytes, element: int) -> bytes | None:
    """Convert a one-dimensional array with lower bound 1."""
    parts = array_parts(cell)
    if cell[:4] == b"\0\0\0\0":
        return b"{}"
    if cell[:4] != b"\0\0\0\1" or _FIRST.unpack_from(cell, 16) != (1,):
        return None
    texts: list[bytes] = []
    for oid, start, size in parts:
        text = plain(cell[start : start + size], oid) if size >= 0 else b"NULL"
        if text is None or oid != element:
            return None
        quoted = text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        texts.append(text if size < 0 else b'"%b"' % quoted)
    return b"{%b}" % b",".join(texts)
