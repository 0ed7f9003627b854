"""Changing the content of a cell of any type, value by value, so that arrays and records keep their shape.

A value that cannot be parsed, or whose type has no value to replace it, becomes NULL unless the change leaves it as it
is: nothing passes unmasked because it was unusual.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from postern.errors import ProtocolViolation
from postern.interception.events import Change, Fill, KindChange, Scalar
from postern.protocols.postgres.wire.postgres_scalars import SCALARS, ScalarCodec, scalar_codec
from postern.protocols.postgres.wire.postgres_types import (
    ARRAYS,
    BINARY,
    BOX,
    FIRST_OWN,
    RECORD,
    any_parts,
    array_parts,
)

_INT32 = struct.Struct("!i")
_EMPTY_ARRAY = struct.Struct("!iiI")  # no dimensions, no flags, the type of the elements
_NULL = b"\xff\xff\xff\xff"
# An element of an array literal: in quotes, with escapes, or bare.
_ELEMENT = re.compile(rb'"((?:[^"\\]|\\.)*)"|([^{},"]+)', re.DOTALL)
_BOX = re.compile(rb'"((?:[^"\\]|\\.)*)"|([^{};"]+)', re.DOTALL)  # there is a semicolon between these
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_NEEDS_ESCAPE = re.compile(rb'(["\\])')
# One dimension, with nothing in quotes.
_FLAT = re.compile(rb'\{[^{},"]++(?:,[^{},"]++)*+\}')
_FEW = 8  # types of the elements of one array column
_BARE = re.compile(rb"[0-9A-Za-z_.:+-]+")


class CellChange(NamedTuple):
    """A `Change` of the cells of one type and format. `each` returns the new cell, or None for NULL. If `is_fixed`, all
    cells become `fixed`."""

    each: Callable[[bytes], bytes | None]
    is_fixed: bool = False
    fixed: bytes | None = None


def change_cell(oid: int, form: int, cell: bytes, by: Change) -> bytes | None:
    """Return the cell with its values changed; None for NULL."""
    return cell_change(oid, form, by).each(cell)


def cell_change(oid: int, form: int, by: Change) -> CellChange:
    """Return what `change_cell` does to the cells of one type. NULL stays, except for `Fill`."""
    if isinstance(by, Fill):
        value = fill_value(oid, form, by)
        return CellChange(lambda _: value, True, value)
    element = ARRAYS.get(oid)
    if element is not None:
        return CellChange(_guard_change(_array(by) if form == BINARY else _literals(element, by), by))
    change = _value(oid, form, by)
    if form != BINARY or not (oid == RECORD or oid >= FIRST_OWN):
        return change

    def each(cell: bytes) -> bytes | None:
        parts = any_parts(cell)
        return change.each(cell) if parts is None else _parts(cell, parts, by)

    return CellChange(_guard_change(each, by))


def fill_value(oid: int, form: int, by: Fill) -> bytes | None:
    """Return the value that every cell of one type gets."""
    element = ARRAYS.get(oid)
    if element is not None:
        if by.constant(Scalar.TEXT) == (None,):
            return None
        return _EMPTY_ARRAY.pack(0, 0, element) if form == BINARY else b"{}"
    codec = scalar_codec(oid, form)
    constant = None if codec is None or codec.like is not None else by.constant(SCALARS[oid])
    if codec is None or constant is None or constant[0] is None:
        return None
    try:
        return codec.write(constant[0])
    except (ValueError, struct.error):
        return None


def _guard_change(each: Callable[[bytes], bytes | None], by: Change) -> Callable[[bytes], bytes | None]:
    """Guard the change of a value with parts, which may be malformed."""

    def change_guarded(cell: bytes) -> bytes | None:
        try:
            return each(cell)
        except (ProtocolViolation, struct.error):
            return _other(cell, by)

    return change_guarded


def _value(oid: int, form: int, by: Change) -> CellChange:
    codec = scalar_codec(oid, form)
    if isinstance(by, KindChange):
        constant = by.constant(Scalar.OTHER if codec is None else SCALARS[oid])
        if constant == (None,) == by.constant(Scalar.OTHER):
            return CellChange(lambda _: None, True, None)
        if codec is not None and constant is not None:
            return _constant(codec, constant[0], by)
    if codec is None:
        return CellChange(lambda cell: _other(cell, by))
    ask = by.of(SCALARS[oid]) if isinstance(by, KindChange) else partial(by, SCALARS[oid])
    read, write, like = codec

    def each(cell: bytes) -> bytes | None:
        try:
            plain = read(cell)
        except (ValueError, struct.error):
            return _other(cell, by)
        new = ask(plain)
        if new is None:
            return None
        if new == plain:
            return cell
        try:
            return write(new) if like is None else like(cell, new)
        except (ValueError, struct.error):
            return None

    return CellChange(each)


def _constant(codec: ScalarCodec, new: bytes | None, by: Change) -> CellChange:
    """Return the change to one constant value."""
    read, write, like = codec
    if codec.is_plain:
        return CellChange(lambda _: new, True, new)
    try:
        data = None if new is None or like is not None else write(new)
    except (ValueError, struct.error):
        data = None

    def each(cell: bytes) -> bytes | None:
        try:
            plain = read(cell)
        except (ValueError, struct.error):
            return _other(cell, by)
        if new is None or new == plain:
            return None if new is None else cell
        try:
            return data if like is None else like(cell, new)
        except (ValueError, struct.error):
            return None

    return CellChange(each)


def _other(cell: bytes, by: Change) -> bytes | None:
    return cell if by(Scalar.OTHER, cell) == cell else None


def _array(by: Change) -> Callable[[bytes], bytes]:
    """Change an array, and update its flag for NULLs among the elements."""
    changes: dict[int, CellChange] = {}

    def each(cell: bytes) -> bytes:
        new = _parts(cell, array_parts(cell), by, changes)
        has_null = any(size < 0 for _, _, size in array_parts(new))
        return new[:4] + _INT32.pack(int(has_null)) + new[8:]

    return each


def _parts(
    cell: bytes, parts: list[tuple[int, int, int]], by: Change, change_by_oid: dict[int, CellChange] | None = None
) -> bytes:
    """Change the parts. `change_by_oid` caches the changes by type; an array has few types."""
    out: list[bytes] = []
    copied = 0
    for oid, start, size in parts:
        if size < 0:
            continue
        change = None if change_by_oid is None else change_by_oid.get(oid)
        if change is None:
            change = cell_change(oid, BINARY, by)
            if change_by_oid is not None and len(change_by_oid) < _FEW:
                change_by_oid[oid] = change
        new = change.each(cell[start : start + size])
        out.append(cell[copied : start - 4])
        out += (_NULL,) if new is None else (_INT32.pack(len(new)), new)
        copied = start + size
    out.append(cell[copied:])
    return b"".join(out)


def _literals(element: int, by: Change) -> Callable[[bytes], bytes | None]:
    """Change arrays in the text format: `{1,NULL,"a b"}`, nested, and possibly with bounds before them."""
    change = _value(element, 0, by)
    value, is_fixed = change.each, change.is_fixed
    fixed = _write_element(change.fixed)
    pattern = _BOX if element == BOX else _ELEMENT
    is_split = element not in (BOX, RECORD)

    def one(match: re.Match[bytes]) -> bytes:
        quoted, bare = match.groups()
        if bare == b"NULL":
            return bare
        old = _ESCAPED.sub(rb"\1", quoted) if bare is None else bare
        new = value(old)
        return match.group() if new == old else _write_element(new)

    def bare(old: bytes) -> bytes:
        if old == b"NULL":
            return old
        new = value(old)
        return old if new == old else _write_element(new)

    def each(cell: bytes) -> bytes | None:
        if is_split and _FLAT.fullmatch(cell):
            parts = cell[1:-1].split(b",")
            if is_fixed:
                new = [old if old in (b"NULL", change.fixed) else fixed for old in parts]
            else:
                new = [bare(old) for old in parts]
            return b"{%b}" % b",".join(new)
        bounds, equals, body = cell.partition(b"=") if cell.startswith(b"[") else (b"", b"", cell)
        if not body.startswith(b"{") or element == RECORD:
            return _other(cell, by)
        return bounds + equals + pattern.sub(one, body)

    return each


def _write_element(value: bytes | None) -> bytes:
    """Write a value as an element."""
    if value is None:
        return b"NULL"
    if _BARE.fullmatch(value) and value.upper() != b"NULL":
        return value
    return b'"' + _NEEDS_ESCAPE.sub(rb"\\\1", value) + b'"'
