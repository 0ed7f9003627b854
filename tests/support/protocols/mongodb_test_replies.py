"""Replies of a MongoDB server for readers, which do not see requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import bson
from bson import Int64

from postern.protocols.mongodb.wire.mongodb_messages import encode_message, parse_message


def reply(document: Mapping[str, Any], to: int = 1) -> bytes:
    return encode_message(900, to, bson.encode(document))


def ok(to: int = 1, **fields: Any) -> bytes:
    return reply({**fields, "ok": 1.0}, to)


def batch(
    documents: Sequence[Mapping[str, Any]], cursor: int = 0, *, to: int = 1, first: bool = True, ns: str = "shop.c"
) -> bytes:
    """The reply to a find, or with `first` False to a getMore."""
    name = "firstBatch" if first else "nextBatch"
    return ok(to, cursor={name: list(documents), "id": Int64(cursor), "ns": ns})


def error(message: str, code: int = 13, name: str = "Unauthorized", to: int = 1) -> bytes:
    return reply({"ok": 0.0, "errmsg": message, "code": code, "codeName": name}, to)


def sent_documents(data: bytes) -> list[dict[str, Any]]:
    """The commands of a stream of requests."""
    documents: list[dict[str, Any]] = []
    while data:
        size = int.from_bytes(data[:4], "little")
        message, data = data[:size], data[size:]
        parsed = parse_message(message)
        documents.append(bson.decode(message[int(parsed.pos) : int(parsed.end)]))
    return documents
