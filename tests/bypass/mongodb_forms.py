"""Forms in which a client can send one command: the messages differ, and servers do the same for all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import bson
from bson import Int64, json_util
from tests.support.protocols import mongodb_test_messages as mg

from postern.protocols.mongodb.dialect.mongodb_json import is_scalar
from postern.protocols.mongodb.wire.mongodb_commands import SEQUENCES

_NAMES: Final = frozenset(name.decode() for name in SEQUENCES)
_DEPTH: Final = 150
Pairs = list[tuple[str, Any]]


class Fields(Pairs):
    """A document whose names can repeat."""


def forms(text: str) -> Iterator[tuple[str, bytes]]:
    """Return messages by the name of their form; none for a text that no message can have."""
    try:
        command = json.loads(text, object_pairs_hook=Fields)
        encode(command)
    except (ValueError, TypeError, bson.errors.BSONError):
        return
    if not isinstance(command, Fields) or not command:
        return
    first, *rest = command
    yield "as it is", mg.request(encode(command))
    yield "fields in another order", mg.request(encode(Fields([first, *reversed(rest)])))
    yield "numbers of 64 bits", mg.request(encode(_with_numbers(command, Int64)))
    yield "doubles", mg.request(encode(_with_numbers(command, float)))
    deep: Any = 1
    for _ in range(_DEPTH):
        deep = Fields([("drop", deep)])
    if "comment" not in dict(rest):
        yield "deep comment", mg.request(encode(Fields([*command, ("comment", deep)])))
    lists = [(name, each) for name, each in rest if name in _NAMES and isinstance(each, list)]
    lists = [
        (name, each)
        for name, each in lists
        if not isinstance(each, Fields) and all(isinstance(item, Fields) for item in each)
    ]
    if lists and len(dict(lists)) == len(lists):
        body = encode(Fields([pair for pair in command if pair[0] not in dict(lists)]))
        sections = b"".join(mg.sequence(name, *map(encode, each)) for name, each in lists)
        yield "sections after the body", mg.request(body, sections=sections)
        yield "sections before the body", mg.raw_message(b"\0\0\0\0" + sections + b"\0" + body)
        yield "no answer", mg.request(body, sections=sections, flags=2)


def encode(value: Any) -> bytes:
    """Return a document in BSON. Raises ValueError if it is not one, or has a text that BSON cannot hold."""
    if not isinstance(value, Fields):
        raise ValueError("not a document")
    content = b"".join([_element(name, each) for name, each in value])
    return (len(content) + 5).to_bytes(4, "little") + content + b"\0"


def _element(name: str, value: Any) -> bytes:
    if "\0" in name:
        raise ValueError("a name with a NUL")
    is_list = isinstance(value, list) and not isinstance(value, Fields)
    if isinstance(value, Fields) and is_scalar(dict(value)):
        value = json_util.object_hook(dict(value))
    elif isinstance(value, Fields) or is_list:
        inner = Fields([(str(place), each) for place, each in enumerate(value)]) if is_list else value
        return (b"\4" if is_list else b"\3") + name.encode() + b"\0" + encode(inner)
    return bson.encode({name: value})[4:-1]


def _with_numbers(value: Any, kind: Any) -> Any:
    if isinstance(value, Fields) and is_scalar(dict(value)):
        return value
    if isinstance(value, Fields):
        return Fields([(name, _with_numbers(each, kind)) for name, each in value])
    if isinstance(value, list):
        return [_with_numbers(each, kind) for each in value]
    return kind(value) if isinstance(value, int) and not isinstance(value, bool) else value
