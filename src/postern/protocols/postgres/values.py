"""Changing what a cell holds, whatever its type: value by value, so that arrays and records keep their shape.

What cannot be read, or has no value of its type to take its place, becomes NULL unless whoever is asked leaves it as it
is: nothing passes because it was strange.
"""

from __future__ import annotations

import re
import struct

from postern.errors import ProtocolViolation
from postern.interception.events import Change, Scalar
from postern.protocols.postgres.scalars import SCALARS, scalar_codec
from postern.protocols.postgres.types import ARRAYS, BINARY, BOX, FIRST_OWN, RECORD, any_parts, array_parts

_INT32 = struct.Struct("!i")
_NULL = b"\xff\xff\xff\xff"
# An element of an array literal: in quotes, with escapes, or bare.
_ELEMENT = re.compile(rb'"((?:[^"\\]|\\.)*)"|([^{},"]+)', re.DOTALL)
_BOX = re.compile(rb'"((?:[^"\\]|\\.)*)"|([^{};"]+)', re.DOTALL)  # there is a semicolon between these
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_NEEDS_ESCAPE = re.compile(rb'(["\\])')
_BARE = re.compile(rb"[0-9A-Za-z_.:+-]+")


def changed(oid: int, form: int, cell: bytes, by: Change) -> bytes | None:
    """The cell with its values changed; None where it became NULL."""
    element = ARRAYS.get(oid)
    try:
        if element is not None:
            if form == BINARY:
                return _array(cell, by)
            return _literal(cell, element, by)
        if form == BINARY and (oid == RECORD or oid >= FIRST_OWN):
            parts = any_parts(cell)
            if parts is not None:
                return _parts(cell, parts, by)
    except (ProtocolViolation, struct.error):
        return _other(cell, by)
    return _value(oid, form, cell, by)


def _value(oid: int, form: int, cell: bytes, by: Change) -> bytes | None:
    codec = scalar_codec(oid, form)
    if codec is None:
        return _other(cell, by)
    try:
        plain = codec.read(cell)
    except (ValueError, struct.error):
        return _other(cell, by)
    new = by(SCALARS[oid], plain)
    if new is None:
        return None
    if new == plain:
        return cell
    try:
        return codec.write(new) if codec.like is None else codec.like(cell, new)
    except (ValueError, struct.error):
        return None


def _other(cell: bytes, by: Change) -> bytes | None:
    return cell if by(Scalar.OTHER, cell) == cell else None


def _array(cell: bytes, by: Change) -> bytes:
    """With the flag that tells of NULLs among the elements."""
    new = _parts(cell, array_parts(cell), by)
    has_null = any(size < 0 for _, _, size in array_parts(new))
    return new[:4] + _INT32.pack(int(has_null)) + new[8:]


def _parts(cell: bytes, parts: list[tuple[int, int, int]], by: Change) -> bytes:
    out: list[bytes] = []
    copied = 0
    for oid, start, size in parts:
        if size < 0:
            continue
        new = changed(oid, BINARY, cell[start : start + size], by)
        out.append(cell[copied : start - 4])
        out += (_NULL,) if new is None else (_INT32.pack(len(new)), new)
        copied = start + size
    out.append(cell[copied:])
    return b"".join(out)


def _literal(cell: bytes, element: int, by: Change) -> bytes | None:
    """An array in the text format: `{1,NULL,"a b"}`, nested, perhaps with bounds in front."""
    bounds, equals, body = cell.partition(b"=") if cell.startswith(b"[") else (b"", b"", cell)
    if not body.startswith(b"{") or element == RECORD:
        return _other(cell, by)

    def one(found: re.Match[bytes]) -> bytes:
        quoted, bare = found.groups()
        if bare == b"NULL":
            return bare
        old = _ESCAPED.sub(rb"\1", quoted) if bare is None else bare
        new = _value(element, 0, old, by)
        if new is None:
            return b"NULL"
        if new == old:
            return found.group()
        if _BARE.fullmatch(new) and new.upper() != b"NULL":
            return new
        return b'"' + _NEEDS_ESCAPE.sub(rb"\\\1", new) + b'"'

    pattern = _BOX if element == BOX else _ELEMENT
    return bounds + equals + pattern.sub(one, body)
