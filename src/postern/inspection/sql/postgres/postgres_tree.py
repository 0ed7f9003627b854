"""Parsing of texts into trees by libpg_query.

A tree is libpg_query's JSON: a message is a dict of its fields, without those that have default values. A field that
can hold one of several messages has a dict around it, with one entry: the message's name and the message. As JSON, a
tree costs a fifth of protobuf objects, and can be deeper than protobuf's hundred levels.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from postgast import pg_query_pb2
from postgast.native import PgQueryParseResult, lib

from postern.inspection.sql.postgres.postgres_lexing import DEEPEST, depth, has_loose_backslash, scans_slowly

type_of_node: Final = "Node"  # any one of several messages
Message = dict[str, Any]

MOST_BYTES = 1 << 20
# Limit of a tree's JSON, some 80,000 constants. Python reads JSON without releasing the GIL, so the event loop stops
# meanwhile in whatever thread it is done: 0.2 s for this size.
MOST_TREE = 4 << 20
_UNCHECKED_BYTES = 1_000  # such a short text cannot be nested too deeply
_READ_TWICE_BYTES = 4_096
_QUOTE: Final = ' "'
_SHORT = 4_096  # characters; a tree takes some fifty times the memory of its text
_LONG = 64 * 1024
_BACKSLASHES_ESCAPE = 32  # PG_QUERY_DISABLE_STANDARD_CONFORMING_STRINGS

_parse = lib.pg_query_parse_opts
_parse.argtypes = [ctypes.c_char_p, ctypes.c_int]
_parse.restype = PgQueryParseResult

FIELDS: Final[dict[str, dict[str, str]]] = {
    message.name: {field.json_name: field.message_type.name for field in message.fields if field.message_type}
    for message in pg_query_pb2.DESCRIPTOR.message_types_by_name.values()
}
"""For each message, its fields that hold messages, and their kinds."""


class UnreadablePostgres(Exception):
    """The text is not valid PostgreSQL, or cannot be passed to its parser. The message is for users."""


def readings(text: str) -> tuple[list[Message], ...]:
    """Return the statements of the text, for each way in which a server can read it. Each statement is a `Node`.

    There is a second reading if a literal contains a backslash, which escapes the next character when
    `standard_conforming_strings` is off. An error in the second reading means that it would do nothing, so it is left
    out.

    Several callers ask about one text in turn: recent results are cached and must not be changed. Raises
    UnreadablePostgres if the first reading is an error, or the text is too large, too deep or not valid.
    """
    if len(text) <= _SHORT:
        return _read_short(text)
    return _read_long(text) if len(text) <= _LONG else _readings(text)


def _readings(text: str) -> tuple[list[Message], ...]:
    data = encode_checked(text)
    first = _statements(data, 0)
    if b"\\" not in data:
        return (first,)
    if len(data) > _READ_TWICE_BYTES and has_loose_backslash(data):
        raise UnreadablePostgres("it has a backslash before a quote, and is too large to be read in both ways")
    try:
        second = _statements(data, _BACKSLASHES_ESCAPE)
    except UnreadablePostgres:
        return (first,)
    return (first, second)


_read_short = lru_cache(maxsize=64)(_readings)
_read_long = lru_cache(maxsize=2)(_readings)


def children(kind: str, message: Message) -> Iterator[tuple[str, str, Message]]:
    """Yield each message inside of this one: its field, kind and content. An unknown field has the kind ""."""
    kinds = FIELDS.get(kind, {})
    for name, value in message.items():
        if type(value) is not dict and type(value) is not list:
            continue
        kind_of_field = kinds.get(name, "")
        each: Any = value if type(value) is list else [value]
        for item in each:
            if kind_of_field != type_of_node:
                yield name, kind_of_field, item
                continue
            for node_kind, node in item.items():
                yield name, node_kind, node


def node(value: Message | None) -> tuple[str, Message]:
    """Return the name and content of a `Node`; ("", {}) if there is none."""
    for kind, content in (value or {}).items():
        return kind, content
    return "", {}


def names(value: list[Message] | None) -> list[str]:
    """Return the texts of a list of `String`s, with "" for other nodes, such as a star."""
    return [part.get("String", {}).get("sval", "") for part in value or ()]


def type_parts(message: Message) -> list[str]:
    """Return the parts of its type's name; none if it has no type."""
    return names(message.get("typeName", {}).get("names"))


def encode_checked(text: str) -> bytes:
    """Return the text in UTF-8, if it is safe for PostgreSQL's parser. Raises UnreadablePostgres.

    The parser ends the process for some texts, and takes minutes for others.
    """
    if "\0" in text:
        raise UnreadablePostgres("it contains a NUL character, where PostgreSQL stops reading")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise UnreadablePostgres("it contains bytes that are not valid in the agreed encoding") from None
    if len(data) > MOST_BYTES:
        raise UnreadablePostgres(f"it is larger than {MOST_BYTES >> 20} MiB")
    if scans_slowly(text):
        raise UnreadablePostgres("it contains too many operator signs in a row")
    if len(data) > _UNCHECKED_BYTES and depth(data) > DEEPEST:
        raise UnreadablePostgres("it is nested too deeply")
    return data


def _statements(data: bytes, options: int) -> list[Message]:
    result = _parse(data, options)
    try:
        if result.error:
            text = result.error.contents.message.decode(errors="replace")
            # The statement's text must not be in messages: what the parser quotes can be a whole literal.
            raise UnreadablePostgres(f"it cannot be parsed: {text.partition(_QUOTE)[0].removesuffix(' at or near')}")
        written = result.parse_tree
        if len(written) > MOST_TREE:
            raise UnreadablePostgres("it is too complex to be evaluated; send it in smaller parts, or use COPY")
        tree = json.loads(written)
    except RecursionError:
        raise UnreadablePostgres("it is nested too deeply") from None
    finally:
        lib.pg_query_free_parse_result(result)
    return [statement["stmt"] for statement in tree.get("stmts", ()) if statement.get("stmt")]
