"""Texts to trees, by libpg_query.

A tree is what libpg_query's JSON says: a message is a dict of its fields, without those that have their default value;
where a field may hold one of many messages, a dict of one entry, the message's name and itself, stands around it. Read
as JSON, a tree costs a fifth of what it does as protobuf objects, and may be deeper than protobuf's hundred levels.
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

type_of_node: Final = "Node"  # one of many
Message = dict[str, Any]

MOST_BYTES = 1 << 20
# Of a tree's JSON: some 80,000 constants. Python reads JSON without a break, so that in whatever thread it is done, the
# event loop stands still for as long: 0.2 s for this much.
MOST_TREE = 4 << 20
_UNCHECKED_BYTES = 1_000  # a text as short as this cannot nest deep enough to hurt
_READ_TWICE_BYTES = 4_096
_QUOTE: Final = ' "'
_SHORT = 4_096  # characters; a tree takes some fifty times as much memory as its text
_LONG = 64 * 1024
_BACKSLASHES_ESCAPE = 32  # PG_QUERY_DISABLE_STANDARD_CONFORMING_STRINGS

_parse = lib.pg_query_parse_opts
_parse.argtypes = [ctypes.c_char_p, ctypes.c_int]
_parse.restype = PgQueryParseResult

FIELDS: Final[dict[str, dict[str, str]]] = {
    message.name: {field.json_name: field.message_type.name for field in message.fields if field.message_type}
    for message in pg_query_pb2.DESCRIPTOR.message_types_by_name.values()
}
"""Of each message, its fields that hold messages, and which."""


class UnreadablePostgres(Exception):
    """The text is none of PostgreSQL's, or nothing that may be given to its parser; says why, for people."""


def readings(text: str) -> tuple[list[Message], ...]:
    """The statements of the text, by each way in which a server may read it: a second one where a literal holds a
    backslash, which escapes what follows where `standard_conforming_strings` is off. What is an error in the second
    way does nothing there, and is left out. Each statement is a `Node`.

    Several ask about one text, one after the other: what was read last is kept, and must not be changed. Raises
    Unreadable where the first way is an error, or the text is too large, too deep or no text.
    """
    if len(text) <= _SHORT:
        return _read_short(text)
    return _read_long(text) if len(text) <= _LONG else _readings(text)


def _readings(text: str) -> tuple[list[Message], ...]:
    data = checked(text)
    first = _statements(data, 0)
    if b"\\" not in data:
        return (first,)
    if len(data) > _READ_TWICE_BYTES and has_loose_backslash(data):
        raise UnreadablePostgres("it holds a backslash before a quote, and is too large to be read both ways")
    try:
        second = _statements(data, _BACKSLASHES_ESCAPE)
    except UnreadablePostgres:
        return (first,)
    return (first, second)


_read_short = lru_cache(maxsize=64)(_readings)
_read_long = lru_cache(maxsize=2)(_readings)


def children(kind: str, message: Message) -> Iterator[tuple[str, str, Message]]:
    """Of each message within this one: the field, its kind, itself. A field that is not known of has the kind ""."""
    kinds = FIELDS.get(kind, {})
    for name, value in message.items():
        if type(value) is not dict and type(value) is not list:
            continue
        kind_of_field = kinds.get(name, "")
        each: Any = value if type(value) is list else [value]
        for one in each:
            if kind_of_field != type_of_node:
                yield name, kind_of_field, one
                continue
            for node_kind, node in one.items():
                yield name, node_kind, node


def node(value: Message | None) -> tuple[str, Message]:
    """Name and content of a `Node`; ("", {}) where there is none."""
    for kind, content in (value or {}).items():
        return kind, content
    return "", {}


def names(value: list[Message] | None) -> list[str]:
    """The texts of a list of `String`s, "" for what is none, such as a star."""
    return [one.get("String", {}).get("sval", "") for one in value or ()]


def type_parts(message: Message) -> list[str]:
    """The name of its type, in parts; none where it says no type."""
    return names(message.get("typeName", {}).get("names"))


def checked(text: str) -> bytes:
    """The text in UTF-8, if it may be given to PostgreSQL's parser, which ends the process for some and takes minutes
    for others. Raises Unreadable."""
    if "\0" in text:
        raise UnreadablePostgres("it holds a NUL character, which PostgreSQL does not read past")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise UnreadablePostgres("it holds bytes that are not text in the encoding agreed on") from None
    if len(data) > MOST_BYTES:
        raise UnreadablePostgres(f"it is larger than {MOST_BYTES >> 20} MiB")
    if scans_slowly(text):
        raise UnreadablePostgres("it has too many signs in a row")
    if len(data) > _UNCHECKED_BYTES and depth(data) > DEEPEST:
        raise UnreadablePostgres("it is nested too deeply")
    return data


def _statements(data: bytes, options: int) -> list[Message]:
    result = _parse(data, options)
    try:
        if result.error:
            said = result.error.contents.message.decode(errors="replace")
            # The statement's own text has no place in messages: what is near may be all of a literal.
            raise UnreadablePostgres(f"it cannot be parsed: {said.partition(_QUOTE)[0].removesuffix(' at or near')}")
        written = result.parse_tree
        if len(written) > MOST_TREE:
            raise UnreadablePostgres("it holds too much to be judged; send it in smaller parts, or use COPY")
        tree = json.loads(written)
    except RecursionError:
        raise UnreadablePostgres("it is nested too deeply") from None
    finally:
        lib.pg_query_free_parse_result(result)
    return [statement["stmt"] for statement in tree.get("stmts", ()) if statement.get("stmt")]
