"""Messages of MongoDB's protocol, for tests of both sides; written by hand, as far as that is possible."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

import bson

OP_REPLY: Final = 1
OP_QUERY: Final = 2004
OP_COMPRESSED: Final = 2012
OP_MSG: Final = 2013
MORE_TO_COME: Final = 2


def header(length: int, *, opcode: int = OP_MSG, request: int = 1, to: int = 0) -> bytes:
    return struct.pack("<iiii", length, request, to, opcode)


def message(body: bytes, **head: int) -> bytes:
    return header(16 + len(body), **head) + body


def command(
    document: Mapping[str, Any], *, flags: int = 0, request: int = 1, to: int = 0, database: str = "admin"
) -> bytes:
    """A command in OP_MSG. Its `$db` is added."""
    body = struct.pack("<I", flags) + b"\0" + bson.encode({**document, "$db": database})
    return message(body, request=request, to=to)


def reply(document: Mapping[str, Any], *, request: int = 1, to: int = 1) -> bytes:
    """A reply in OP_MSG."""
    return message(b"\0\0\0\0\0" + bson.encode(document), request=request, to=to)


def query(document: Mapping[str, Any], *, request: int = 1) -> bytes:
    """A command in OP_QUERY."""
    body = struct.pack("<I", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1) + bson.encode(document)
    return message(body, opcode=OP_QUERY, request=request)


def answer(document: Mapping[str, Any], *, request: int = 1, to: int = 1) -> bytes:
    """A reply in OP_REPLY."""
    return message(struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(document), opcode=OP_REPLY, request=request, to=to)


def parse(data: bytes) -> tuple[int, dict[str, Any]]:
    """Return the id that a reply answers, and its document."""
    length, _, to, opcode = struct.unpack_from("<iiii", data)
    assert length == len(data)
    return to, bson.decode(data[{OP_REPLY: 36, OP_MSG: 21}[opcode] :])
