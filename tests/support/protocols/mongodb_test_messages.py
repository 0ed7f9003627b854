"""Messages of MongoDB's protocol, both ways, for playbooks and doubles: one short function for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import bson

from postern.protocols.mongodb.wire import mongodb_messages as m
from postern.protocols.mongodb.wire.bson_json import write_json
from postern.protocols.wire_base import Side

Fields = Mapping[str, Any]


def request(body: Fields | bytes, number: int = 1, *, flags: int = 0, sections: bytes = b"") -> bytes:
    """A request with that id. `body` is the whole command; `sections` are encoded ones of kind 1."""
    return m.encode_message(number, 0, document(body), flags=flags, sections=sections)


def command(name: str, value: Any = 1, number: int = 1, *, flags: int = 0, db: str = "shop", **fields: Any) -> bytes:
    """A command whose first field is its name, and `$db` its last."""
    return request({name: value, **fields, "$db": db}, number, flags=flags)


def sequence(name: str, *documents: Fields | bytes) -> bytes:
    """A section of kind 1."""
    return m.encode_sequence(name.encode(), b"".join([document(each) for each in documents]))


def raw_message(body: bytes, number: int = 1, *, to: int = 0, kind: int = m.OP_MSG) -> bytes:
    """A message whose flags and sections are given as bytes."""
    head = b"".join([value.to_bytes(4, "little", signed=True) for value in (m.HEAD + len(body), number, to, kind)])
    return head + body


def reply(body: Fields | bytes, to: int = 1, *, number: int = 900, flags: int = 0) -> bytes:
    """The target's reply to the request with the id `to`."""
    return m.encode_message(number, to, document(body), flags=flags)


def ok(to: int = 1, **fields: Any) -> bytes:
    return reply({**fields, "ok": 1.0}, to)


def batch(
    *documents: Fields, to: int = 1, cursor: int = 0, collection: str = "shop.customers", more: bool = False
) -> bytes:
    """The reply to a find, or with `more` to a getMore."""
    name = "nextBatch" if more else "firstBatch"
    return ok(to, cursor={name: list(documents), "id": bson.Int64(cursor), "ns": collection})


def error(text: str, to: int = 1, code: int = 11000, name: str = "DuplicateKey", **fields: Any) -> bytes:
    return reply({"ok": 0.0, "errmsg": text, "code": code, "codeName": name, **fields}, to)


def refusal(text: str, to: int = 1, code: tuple[int, str] = m.UNAUTHORIZED, hint: str = "") -> bytes:
    """The gateway's own error."""
    return m.encode_reply(to, m.error_document(text, code, hint))


def document(fields: Fields | bytes) -> bytes:
    return fields if isinstance(fields, bytes) else bson.encode(fields)


def pairs(*fields: tuple[str, Any]) -> bytes:
    """A document whose fields can repeat."""
    content = b"".join([bson.encode({name: value})[4:-1] for name, value in fields])
    return (len(content) + 5).to_bytes(4, "little") + content + b"\0"


def bodies(data: bytes) -> Sequence[dict[str, Any]]:
    """The documents of these messages."""
    found: list[dict[str, Any]] = []
    while data:
        size = int.from_bytes(data[:4], "little")
        message = m.parse_message(data[:size])
        found.append(bson.decode(data[message.pos : message.end]))
        data = data[size:]
    return found


def show(author: Side, data: bytes) -> list[str]:
    """Messages that `author` made, for people, one a line."""
    found: list[str] = []
    pos = 0
    while len(data) - pos >= m.HEAD:
        size = int.from_bytes(data[pos : pos + 4], "little")
        raw = data[pos : pos + size]
        number, to = int.from_bytes(raw[4:8], "little"), int.from_bytes(raw[8:12], "little")
        try:
            message = m.parse_message(raw)
            text = write_json(raw[message.pos : message.end], "replace")
            text += "".join([f" +{each.name.decode()}" for each in message.sequences])
            text += f" flags {int(message.flags):#x}" if message.flags else ""
        except Exception as problem:
            text = f"{raw[:100]!r} ({problem})"
        found.append(f"#{number} to {to}: {text}" + ("" if len(raw) == size else " (cut)"))
        pos += max(size, m.HEAD)
    return [*found, f"rest {data[pos:]!r}"] if pos < len(data) else found
