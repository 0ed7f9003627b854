"""Texts of single values: as cells of tables, and as what rules search."""

from __future__ import annotations

import re
from typing import Final

from bson.decimal128 import Decimal128

from postern.protocols.mongodb.recorded.mongodb_reading import single
from postern.protocols.mongodb.wire import bson_documents as b
from postern.protocols.mongodb.wire.bson_documents import BsonField
from postern.protocols.mongodb.wire.bson_json import write_json

_TYPE_NAMES: Final = {
    b.DOUBLE: "double",
    b.STRING: "string",
    b.DOCUMENT: "object",
    b.ARRAY: "array",
    b.BINARY: "binData",
    b.UNDEFINED: "undefined",
    b.OBJECT_ID: "objectId",
    b.BOOLEAN: "bool",
    b.DATE: "date",
    b.NULL: "null",
    b.REGEX: "regex",
    b.DB_POINTER: "dbPointer",
    b.CODE: "javascript",
    b.SYMBOL: "symbol",
    b.CODE_WITH_SCOPE: "javascriptWithScope",
    b.INT32: "int",
    b.TIMESTAMP: "timestamp",
    b.INT64: "long",
    b.DECIMAL128: "decimal",
    b.MIN_KEY: "minKey",
    b.MAX_KEY: "maxKey",
}
_TEXTS: Final = (b.STRING, b.SYMBOL, b.CODE)
_UUID: Final = 4
_TEXT_SUBTYPES: Final = (0, 2)
_OLD_BINARY: Final = 2
_PLAIN_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z_0-9]{0,63}")
_DATE: Final = re.compile(r'\{"\$date": "([^"]*)"\}')


def type_name(kind: int) -> str:
    """Return the name of a type, as `$type` returns it."""
    return _TYPE_NAMES.get(kind, "unknown")


def json_of(document: bytes) -> str:
    """Return a document as relaxed Extended JSON."""
    return write_json(document, "replace")


def cell_of(document: bytes, item: BsonField) -> str | None:
    """Return a value as a cell: texts, numbers and dates plain, nested values as relaxed Extended JSON."""
    kind, value = item.kind, document[item.value : item.end]
    if kind in (b.NULL, b.UNDEFINED):
        return None
    if kind in _TEXTS:
        return value[4:-1].decode("utf-8", "replace")
    if kind == b.OBJECT_ID:
        return value.hex()
    if kind == b.DECIMAL128:
        return str(Decimal128.from_bid(value))
    if kind == b.BINARY and value[4] == _UUID and len(value) == 21:
        digits = value[5:].hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    if kind == b.DOUBLE:
        return _plain_double(float(b.double_at(value, 0)))
    text = json_of(single(document, item))[len('{"": ') : -1]
    if kind == b.DATE and (match := _DATE.fullmatch(text)):
        return match[1]
    return text


def _plain_double(number: float) -> str:
    text = repr(number)
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)


def search_texts(document: bytes) -> tuple[bytes, ...]:
    """Return the texts of a document that rules search: texts, numbers, and names of fields that are not plain."""
    texts: list[bytes] = []
    _collect(document, 0, len(document), texts, named=True)
    return tuple(texts)


def _collect(document: bytes, pos: int, end: int, texts: list[bytes], *, named: bool) -> None:
    for item in b.read_fields(document, pos, end):
        if named and item.name and not _PLAIN_NAME.fullmatch(item.name):
            texts.append(item.name)
        kind, start, stop = item.kind, int(item.value), int(item.end)
        if kind in (b.DOCUMENT, b.ARRAY):
            _collect(document, start, stop, texts, named=kind == b.DOCUMENT)
        elif kind == b.CODE_WITH_SCOPE:
            scope = int(b.scope_of(document, start, stop))
            texts.append(document[start + 8 : scope - 1])
            _collect(document, scope, stop, texts, named=True)
        elif kind in _TEXTS:
            texts.append(document[start + 4 : stop - 1])
        elif kind in (b.INT32, b.INT64, b.DOUBLE, b.DECIMAL128):
            texts.append((cell_of(document, item) or "").encode())
        elif kind == b.BINARY and document[start + 4] in _TEXT_SUBTYPES:
            data = document[start + (9 if document[start + 4] == _OLD_BINARY else 5) : stop]
            if _is_text(data):
                texts.append(data)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return bool(data)
