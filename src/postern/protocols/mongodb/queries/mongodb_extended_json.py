"""Extended JSON (version 2, canonical and relaxed) in documents: `{"$oid": "…"}` stands for an ObjectId, and so on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from postern.protocols.mongodb.queries import mongodb_shell_values as values
from postern.protocols.mongodb.queries.mongodb_shell_values import Value


def convert(document: Mapping[str, Value]) -> Value:
    """Return what a document stands for; the document itself if it is only that. Raises ValueError."""
    first = next(iter(document), "")
    reader = _READERS.get(first)
    if reader is None:
        return document
    names = _NAMES.get(first, ((first,),))
    if tuple(document) not in names and tuple(sorted(document)) not in names:
        raise ValueError(f"a document with {first} has no other fields")
    return reader(document)


def _object_id(document: Mapping[str, Value]) -> ObjectId:
    made = values.object_id([document["$oid"]])
    assert isinstance(made, ObjectId)
    return made


def _symbol(document: Mapping[str, Value]) -> str:
    return _text(document["$symbol"], "$symbol")


def _int32(document: Mapping[str, Value]) -> Value:
    return values.int32([_text(document["$numberInt"], "$numberInt")])


def _int64(document: Mapping[str, Value]) -> Value:
    return values.int64([_text(document["$numberLong"], "$numberLong")])


def _double(document: Mapping[str, Value]) -> Value:
    text = _text(document["$numberDouble"], "$numberDouble")
    if not re.fullmatch(r"-?(?:Infinity|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|NaN", text):
        raise ValueError(f"{text[:40]!r} is not a number")
    return float(text)


def _decimal(document: Mapping[str, Value]) -> Decimal128:
    made = values.decimal128([_text(document["$numberDecimal"], "$numberDecimal")])
    assert isinstance(made, Decimal128)
    return made


def _binary(document: Mapping[str, Value]) -> Binary:
    content = document["$binary"]
    if isinstance(content, Mapping):
        if sorted(content) != ["base64", "subType"]:
            raise ValueError('$binary is written as {"$binary": {"base64": …, "subType": …}}')
        return values.make_binary(_subtype(content["subType"]), _text(content["base64"], "base64"))
    if "$type" not in document:
        raise ValueError('$binary is written as {"$binary": {"base64": …, "subType": …}}')
    return values.make_binary(_subtype(document["$type"]), _text(content, "$binary"))


def _subtype(value: Value) -> int:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{1,2}", value):
        raise ValueError("the subtype of binary data is one or two hexadecimal digits")
    return int(value, 16)


def _uuid(document: Mapping[str, Value]) -> Value:
    return values.uuid_value([document["$uuid"]])


def _code(document: Mapping[str, Value]) -> Code:
    made = values.code([document["$code"], *([document["$scope"]] if "$scope" in document else [])])
    assert isinstance(made, Code)
    return made


def _timestamp(document: Mapping[str, Value]) -> Timestamp:
    made = values.timestamp([document["$timestamp"]])
    assert isinstance(made, Timestamp)
    return made


def _regex(document: Mapping[str, Value]) -> Regex[str]:
    content = document["$regularExpression"]
    if not isinstance(content, Mapping) or sorted(content) != ["options", "pattern"]:
        raise ValueError("$regularExpression has a pattern and options")
    return values.make_regex(_text(content["pattern"], "pattern"), _text(content["options"], "options"))


def _date(document: Mapping[str, Value]) -> DatetimeMS:
    content = document["$date"]
    if isinstance(content, str):
        return values.parse_date(content)
    if isinstance(content, bool) or not isinstance(content, int | Int64):
        raise ValueError("$date is a text, or a number of milliseconds")
    made = values.new_date([content])
    assert isinstance(made, DatetimeMS)
    return made


def _min_key(document: Mapping[str, Value]) -> MinKey:
    _require_one(document["$minKey"], "$minKey")
    return MinKey()


def _max_key(document: Mapping[str, Value]) -> MaxKey:
    _require_one(document["$maxKey"], "$maxKey")
    return MaxKey()


def _read_undefined(document: Mapping[str, Value]) -> None:
    if document["$undefined"] is not True:
        raise ValueError("$undefined is true")


def _pointer(document: Mapping[str, Value]) -> Value:
    raise ValueError("$dbPointer is not supported; MongoDB has deprecated it")


def _require_one(value: Value, name: str) -> None:
    if value is True or value != 1:
        raise ValueError(f"{name} is 1")


def _text(value: Value, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is a text")
    return value


_READERS: Final[Mapping[str, Callable[[Mapping[str, Value]], Value]]] = {
    "$oid": _object_id,
    "$symbol": _symbol,
    "$numberInt": _int32,
    "$numberLong": _int64,
    "$numberDouble": _double,
    "$numberDecimal": _decimal,
    "$binary": _binary,
    "$uuid": _uuid,
    "$code": _code,
    "$timestamp": _timestamp,
    "$regularExpression": _regex,
    "$date": _date,
    "$minKey": _min_key,
    "$maxKey": _max_key,
    "$undefined": _read_undefined,
    "$dbPointer": _pointer,
}
# Those with more than one field, as their names in order or sorted.
_NAMES: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "$binary": (("$binary",), ("$binary", "$type")),
    "$code": (("$code",), ("$code", "$scope")),
}
