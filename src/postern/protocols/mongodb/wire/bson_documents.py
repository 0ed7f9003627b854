"""BSON documents as bytes: validation, the fields of one level, and changes that leave all other bytes as they are.

A document is its length (int32, little-endian, including itself), its elements and a NUL. An element is a type, a name
that ends with a NUL, and a value. Libraries decode documents into dictionaries, which lose repeated names and the
places of values. The wire needs both: it forwards slices, and rebuilds only the lengths around a changed value.

Positions are offsets in the whole message. Functions that read raise ProtocolViolation for bytes that are not a
document, so nothing is ever read beyond the parent of a value.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_f64_le, read_i32_le, read_i64_le
from mypy_extensions import i64

from postern.errors import ProtocolViolation

DOUBLE: Final = 0x01
STRING: Final = 0x02
DOCUMENT: Final = 0x03
ARRAY: Final = 0x04
BINARY: Final = 0x05
UNDEFINED: Final = 0x06
OBJECT_ID: Final = 0x07
BOOLEAN: Final = 0x08
DATE: Final = 0x09
NULL: Final = 0x0A
REGEX: Final = 0x0B
DB_POINTER: Final = 0x0C
CODE: Final = 0x0D
SYMBOL: Final = 0x0E
CODE_WITH_SCOPE: Final = 0x0F
INT32: Final = 0x10
TIMESTAMP: Final = 0x11
INT64: Final = 0x12
DECIMAL128: Final = 0x13
MAX_KEY: Final = 0x7F
MIN_KEY: Final = 0xFF

# Levels of documents and arrays within each other. Servers accept 200 in messages, and 100 in stored documents.
MAX_DEPTH: Final = 200
SHORTEST: Final = 5  # bytes of an empty document
MAX_FIELDS: Final = 1 << 21  # fields of one level that are read at once, each of which becomes an object

# By type: the bytes of a value of a fixed size, or one of these.
_UNKNOWN: Final = 255
_TEXT: Final = 254
_NESTED: Final = 253
_BYTES: Final = 252
_SPECIAL: Final = 251
_LARGEST_FIXED: Final = 16


def _sizes() -> bytes:
    sizes = bytearray([_UNKNOWN]) * 256
    for kind in (UNDEFINED, NULL, MIN_KEY, MAX_KEY):
        sizes[kind] = 0
    for kind in (DOUBLE, DATE, TIMESTAMP, INT64):
        sizes[kind] = 8
    for kind in (STRING, CODE, SYMBOL):
        sizes[kind] = _TEXT
    for kind in (DOCUMENT, ARRAY):
        sizes[kind] = _NESTED
    for kind in (REGEX, DB_POINTER, CODE_WITH_SCOPE):
        sizes[kind] = _SPECIAL
    sizes[BINARY] = _BYTES
    sizes[OBJECT_ID] = 12
    sizes[BOOLEAN] = 1
    sizes[INT32] = 4
    sizes[DECIMAL128] = 16
    return bytes(sizes)


_SIZES: Final = _sizes()

_TRUNCATED: Final = "a BSON value is longer than its document"
_UNTERMINATED: Final = "a BSON string does not end with NUL"


def int32_at(data: bytes, pos: i64) -> i64:
    """Return the signed int32 at `pos`."""
    return i64(read_i32_le(data, pos))


def int64_at(data: bytes, pos: i64) -> i64:
    """Return the signed int64 at `pos`."""
    return read_i64_le(data, pos)


def double_at(data: bytes, pos: i64) -> float:
    """Return the double at `pos`."""
    return read_f64_le(data, pos)


def name_end(data: bytes, pos: i64, last: i64) -> i64:
    """Return where the NUL of a name or C string at `pos` is, before `last`. The byte at `last` is NUL, or `last` is
    the end of a document whose last byte is."""
    while pos < last:
        byte: i64 = data[pos]
        if byte == 0:
            return pos
        pos += 1
    raise ProtocolViolation("a name in a BSON document does not end with NUL")


def value_end(data: bytes, kind: i64, pos: i64, last: i64) -> i64:
    """Return where the value of that type at `pos` ends, at most `last`. Nested documents are read by their length
    only."""
    if kind < 0 or kind > 255:
        raise ProtocolViolation("a BSON type is not a byte")
    size: i64 = _SIZES[kind]
    if size <= _LARGEST_FIXED:
        if last - pos < size:
            raise ProtocolViolation(_TRUNCATED)
        if kind == BOOLEAN and data[pos] > 1:
            raise ProtocolViolation("a BSON boolean is neither 0 nor 1")
        return pos + size
    if size == _TEXT:
        return _text_end(data, pos, last)
    if size == _NESTED:
        if last - pos < SHORTEST:
            raise ProtocolViolation(_TRUNCATED)
        length = int32_at(data, pos)
        if length < SHORTEST or length > last - pos or data[pos + length - 1] != 0:
            raise ProtocolViolation("the length of a BSON document is not valid")
        return pos + length
    if size == _BYTES:
        if last - pos < 5:
            raise ProtocolViolation(_TRUNCATED)
        length = int32_at(data, pos)
        if length < 0 or length > last - pos - 5:
            raise ProtocolViolation("the length of BSON binary data is not valid")
        if data[pos + 4] == 2 and (length < 4 or int32_at(data, pos + 5) != length - 4):
            raise ProtocolViolation("the inner length of old BSON binary data is not valid")
        return pos + 5 + length
    if size == _SPECIAL:
        return _special_end(data, kind, pos, last)
    raise ProtocolViolation(f"the BSON type {kind:#04x} is not known")


def _text_end(data: bytes, pos: i64, last: i64) -> i64:
    if last - pos < 5:
        raise ProtocolViolation(_TRUNCATED)
    length = int32_at(data, pos)
    if length < 1 or length > last - pos - 4:
        raise ProtocolViolation("the length of a BSON string is not valid")
    after: i64 = pos + 4 + length
    if data[after - 1] != 0:
        raise ProtocolViolation(_UNTERMINATED)
    return after


def _special_end(data: bytes, kind: i64, pos: i64, last: i64) -> i64:
    if kind == REGEX:
        after = name_end(data, pos, last) + 1
        return name_end(data, after, last) + 1
    if kind == DB_POINTER:
        after = _text_end(data, pos, last)
        if last - after < 12:
            raise ProtocolViolation(_TRUNCATED)
        return after + 12
    # Code with a scope: its whole length, the code, and a document.
    if last - pos < 14:
        raise ProtocolViolation(_TRUNCATED)
    length = int32_at(data, pos)
    if length < 14 or length > last - pos:
        raise ProtocolViolation("the length of BSON code is not valid")
    end: i64 = pos + length
    after = _text_end(data, pos + 4, end)
    if value_end(data, DOCUMENT, after, end) != end:
        raise ProtocolViolation("the scope of BSON code does not fit its length")
    return end


def check_document(data: bytes, pos: i64, end: i64, depth: i64 = 1) -> None:
    """Check a whole document, which is exactly the bytes from `pos` to `end`."""
    if depth > MAX_DEPTH:
        raise ProtocolViolation(f"a BSON document has more than {MAX_DEPTH} levels")
    if end - pos < SHORTEST or int32_at(data, pos) != end - pos or data[end - 1] != 0:
        raise ProtocolViolation("the length of a BSON document is not valid")
    pos += 4
    last: i64 = end - 1
    while pos < last:
        kind: i64 = data[pos]
        value = name_end(data, pos + 1, last) + 1
        pos = value_end(data, kind, value, last)
        if kind in (DOCUMENT, ARRAY):
            check_document(data, value, pos, depth + 1)
        elif kind == CODE_WITH_SCOPE:
            check_document(data, _text_end(data, value + 4, pos), pos, depth + 1)


def scope_of(data: bytes, value: i64, end: i64) -> i64:
    """Return where the scope of a value of the type CODE_WITH_SCOPE begins. It ends where the value ends."""
    return _text_end(data, value + 4, end)


class BsonField:
    """An element of a document: its type and name, and the positions of the element, its value, and its end."""

    __slots__ = ("end", "kind", "name", "start", "value")

    def __init__(self, kind: int, name: bytes, start: i64, value: i64, end: i64) -> None:
        self.kind = kind
        self.name = name
        self.start: i64 = start
        self.value: i64 = value
        self.end: i64 = end


def read_fields(data: bytes, pos: i64, end: i64, max_fields: i64 = MAX_FIELDS) -> list[BsonField]:
    """Return the elements of the document from `pos` to `end`, not those of nested documents. Raises ProtocolViolation
    if there are more than `max_fields`."""
    if end - pos < SHORTEST or int32_at(data, pos) != end - pos or data[end - 1] != 0:
        raise ProtocolViolation("the length of a BSON document is not valid")
    fields: list[BsonField] = []
    last: i64 = end - 1
    pos += 4
    while pos < last:
        kind: i64 = data[pos]
        stop = name_end(data, pos + 1, last)
        after = value_end(data, kind, stop + 1, last)
        if len(fields) >= max_fields:
            raise ProtocolViolation(f"a BSON document has more than {max_fields} fields")
        fields.append(BsonField(int(kind), data[pos + 1 : stop], pos, stop + 1, after))
        pos = after
    return fields


def count_elements(data: bytes, pos: i64, end: i64) -> i64:
    """Return the number of elements of the document from `pos` to `end`."""
    count: i64 = 0
    last: i64 = end - 1
    pos += 4
    while pos < last:
        kind: i64 = data[pos]
        pos = value_end(data, kind, name_end(data, pos + 1, last) + 1, last)
        count += 1
    return count


def find_field(fields: list[BsonField], name: bytes) -> BsonField | None:
    """Return the first field of that name."""
    for field in fields:
        if field.name == name:
            return field
    return None


def find_repeated(fields: list[BsonField]) -> bytes | None:
    """Return a name that several fields have."""
    names: set[bytes] = set()
    for field in fields:
        if field.name in names:
            return field.name
        names.add(field.name)
    return None


def string_at(data: bytes, field: BsonField) -> bytes | None:
    """Return the bytes of a string, or None for another type."""
    if field.kind != STRING:
        return None
    return data[field.value + 4 : field.end - 1]


def number_at(data: bytes, field: BsonField) -> float | None:
    """Return an int32, int64, double or boolean as a number, or None for another type."""
    if field.kind == INT32:
        return float(int(int32_at(data, field.value)))
    if field.kind == INT64:
        return float(int(int64_at(data, field.value)))
    if field.kind == DOUBLE:
        return double_at(data, field.value)
    if field.kind == BOOLEAN:
        return float(data[field.value])
    return None


def integer_at(data: bytes, field: BsonField) -> int | None:
    """Return a whole number of any numeric type, or None."""
    if field.kind == INT32:
        return int(int32_at(data, field.value))
    if field.kind == INT64:
        return int(int64_at(data, field.value))
    if field.kind == DOUBLE:
        number = double_at(data, field.value)
        return int(number) if number == number and abs(number) < 1e18 and number == int(number) else None
    return None


# Encoding


def packed32(value: i64) -> bytes:
    """Encode a signed int32."""
    return int(value).to_bytes(4, "little", signed=True)


def packed64(value: int) -> bytes:
    """Encode a signed int64."""
    return value.to_bytes(8, "little", signed=True)


def encode_document(*elements: bytes) -> bytes:
    """Return the document of these encoded elements."""
    content = b"".join(elements)
    return packed32(len(content) + SHORTEST) + content + b"\0"


def element(kind: int, name: bytes, value: bytes) -> bytes:
    """Encode an element from the bytes of its value."""
    return kind.to_bytes(1, "little") + name + b"\0" + value


def string_value(text: bytes) -> bytes:
    """Encode the value of a string."""
    return packed32(len(text) + 1) + text + b"\0"


def without_fields(data: bytes, pos: i64, end: i64, fields: list[BsonField], names: frozenset[bytes]) -> bytes:
    """Return the document from `pos` to `end` without the fields of these names. `fields` are all of its fields."""
    parts: list[bytes] = []
    copied: i64 = pos + 4
    for field in fields:
        if field.name in names:
            parts.append(data[copied : field.start])
            copied = field.end
    parts.append(data[copied : end - 1])
    return encode_document(*parts)


def with_element(data: bytes, pos: i64, end: i64, added: bytes) -> bytes:
    """Return the document from `pos` to `end` with one more encoded element at its end."""
    return encode_document(data[pos + 4 : end - 1], added)
