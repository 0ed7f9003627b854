"""Conversion of single BSON values to text and back, for rules and masking.

A *cell* is a value without what its type implies: the text of a string without its length and NUL, and the bytes of any
other value. A value whose replacement is not valid for its type becomes null.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from bson.decimal128 import Decimal128
from librt.strings import read_f64_le, read_i32_le, read_i64_le
from mypy_extensions import i64

from postern.interception.events import Change, Fill, KindChange, Scalar
from postern.protocols.mongodb.wire.bson_documents import (
    BINARY,
    BOOLEAN,
    CODE,
    CODE_WITH_SCOPE,
    DATE,
    DECIMAL128,
    DOUBLE,
    INT32,
    INT64,
    NULL,
    STRING,
    SYMBOL,
    UNDEFINED,
    packed32,
    packed64,
)

_UUIDS: Final = (3, 4)  # subtypes of binary data
_OLD_BINARY: Final = 2
_UUID_SIZE: Final = 16
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MILLIS: Final = -62135596800000  # year 1
_LAST_MILLIS: Final = 253402300799999  # year 9999
_WHOLE: Final = 1e17  # doubles below are shown as the whole numbers that they are
_INTEGER: Final = re.compile(rb"[+-]?\d{1,40}")

Value = tuple[int, bytes]  # a type and a cell
_NULL: Final[Value] = (NULL, b"")


def is_text(kind: i64) -> bool:
    """Return whether the cell of a value of that type is a text."""
    return kind in (STRING, SYMBOL, CODE, CODE_WITH_SCOPE)


def is_text_binary(data: bytes, pos: i64, end: i64) -> bool:
    """Return whether the binary value from `pos` to `end` is a text: of a general type, and valid UTF-8."""
    subtype: i64 = data[pos + 4]
    if subtype != 0 and subtype != _OLD_BINARY:
        return False
    start: i64 = pos + 5 if subtype == 0 else pos + 9
    try:
        data[start:end].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def binary_content(cell: bytes) -> bytes:
    """Return the data of a binary value."""
    return cell[9:] if cell[4] == _OLD_BINARY else cell[5:]


def pack_binary(subtype: int, content: bytes) -> bytes:
    """Encode a binary value."""
    if subtype == _OLD_BINARY:
        content = packed32(len(content)) + content
    return packed32(len(content)) + subtype.to_bytes(1, "little") + content


def number_text(kind: int, cell: bytes) -> bytes:
    """Return a number as digits, sign and point, as far as it has that form."""
    if kind == INT32:
        return b"%d" % int(read_i32_le(cell, 0))
    if kind == INT64:
        return b"%d" % int(read_i64_le(cell, 0))
    if kind == DECIMAL128:
        return str(Decimal128.from_bid(cell)).encode("ascii")
    number = read_f64_le(cell, 0)
    if -_WHOLE < number < _WHOLE and number == int(number):
        return b"%d" % int(number)
    return repr(number).encode("ascii")


def pack_number(kind: int, text: bytes) -> Value:
    """Encode a text as a number of that type; null if it is not one."""
    try:
        if kind in (INT32, INT64):
            size = 4 if kind == INT32 else 8
            return kind, _integer(text).to_bytes(size, "little", signed=True)
        if kind == DECIMAL128:
            return kind, Decimal128(text.decode("ascii")).bid
        return kind, _pack_double(float(text))
    except (ValueError, ArithmeticError, TypeError):
        return _NULL


def _integer(text: bytes) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("not a whole number")
    return int(text)


def _pack_double(number: float) -> bytes:
    return struct.pack("<d", number)


def scalar_text(kind: int, cell: bytes) -> tuple[Scalar, bytes]:
    """Return the type of a value and its plain text, as a `Change` takes them."""
    if kind in (STRING, SYMBOL, CODE, CODE_WITH_SCOPE):
        return Scalar.TEXT, cell
    if kind == INT32:
        return Scalar.INTEGER, number_text(kind, cell)
    if kind == INT64:
        return Scalar.BIGINT, number_text(kind, cell)
    if kind == DOUBLE:
        return Scalar.DOUBLE, repr(read_f64_le(cell, 0)).encode("ascii")
    if kind == DECIMAL128:
        return Scalar.DECIMAL, number_text(kind, cell)
    if kind == BOOLEAN:
        return Scalar.BOOLEAN, b"t" if cell == b"\x01" else b"f"
    if kind == DATE:
        millis = int(read_i64_le(cell, 0))
        if _FIRST_MILLIS <= millis <= _LAST_MILLIS:
            moment = (_EPOCH + timedelta(milliseconds=millis)).replace(tzinfo=None)
            return Scalar.MOMENT, moment.isoformat(" ").encode("ascii")
        return Scalar.OTHER, cell
    if kind == BINARY:
        if cell[4] in _UUIDS and len(cell) == 5 + _UUID_SIZE:
            return Scalar.UUID, str(UUID(bytes=cell[5:])).encode("ascii")
        return Scalar.BYTES, binary_content(cell)
    return Scalar.OTHER, cell


def pack_scalar(kind: int, cell: bytes, text: bytes) -> Value:
    """Encode the text that replaces a value of that type; null if it is not valid for the type."""
    if kind in (STRING, SYMBOL, CODE, CODE_WITH_SCOPE):
        return kind, text
    if kind in (INT32, INT64, DOUBLE, DECIMAL128):
        return pack_number(kind, text)
    if kind == BOOLEAN:
        return (kind, b"\x01" if text == b"t" else b"\x00") if text in (b"t", b"f") else _NULL
    try:
        if kind == DATE:
            moment = datetime.fromisoformat(text.decode("ascii")).replace(tzinfo=UTC)
            return kind, packed64((moment - _EPOCH) // timedelta(milliseconds=1))
        if kind == BINARY:
            subtype = cell[4]
            if subtype in _UUIDS and len(cell) == 5 + _UUID_SIZE:
                return kind, pack_binary(subtype, UUID(text.decode("ascii")).bytes)
            return kind, pack_binary(subtype, text)
    except (ValueError, OverflowError):
        return _NULL
    return _NULL


class ValueChange:
    """A `Change` applied to BSON values. Equal values get equal results.

    A `Fill` makes every value the same text: the type of a value that a command computes depends on other values.
    """

    def __init__(self, by: Change) -> None:
        self._by = by
        self._filled: Value | None = None
        if isinstance(by, Fill):
            constant = by.constant(Scalar.TEXT)
            text = None if constant is None else constant[0]
            self._filled = _NULL if text is None else (STRING, text)
        self._of: dict[Scalar, Callable[[bytes], bytes | None]] = {}
        self._results: dict[Value, Value] = {}

    def change(self, kind: int, cell: bytes) -> Value:
        """Return what replaces a value; the same if it stays. Null stays, unless a `Fill` replaces it."""
        if self._filled is not None:
            return self._filled
        if kind in (NULL, UNDEFINED):
            return kind, cell
        key = (kind, cell)
        result = self._results.get(key)
        if result is None:
            result = self._results[key] = self._change(kind, cell)
        return result

    def _change(self, kind: int, cell: bytes) -> Value:
        scalar, text = scalar_text(kind, cell)
        new = self._ask(scalar, text)
        if new is None:
            return _NULL
        return (kind, cell) if new == text else pack_scalar(kind, cell, new)

    def _ask(self, scalar: Scalar, text: bytes) -> bytes | None:
        by = self._by
        if not isinstance(by, KindChange):
            return by(scalar, text)
        ask = self._of.get(scalar)
        if ask is None:
            ask = self._of[scalar] = by.of(scalar)
        return ask(text)
