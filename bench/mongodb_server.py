"""A target that answers MongoDB commands with prepared replies, so that it is never the slowest part.

    python bench/mongodb_server.py PORT BATCHES

A find on `customers` returns one document. One on `lines` returns a batch, and further BATCHES of LARGE bytes by
getMore, the size that servers use. There are no users.
"""

from __future__ import annotations

import asyncio
import datetime
import struct
import sys
from typing import Any, cast

import bson
import uvloop

LARGE = 16_000_000  # bytes of a batch
_HEAD = struct.Struct("<iiii")
_OP_REPLY, _OP_QUERY, _OP_MSG = 1, 2004, 2013
_HELLO = {
    "ismaster": True,
    "isWritablePrimary": True,
    "minWireVersion": 0,
    "maxWireVersion": 21,
    "maxBsonObjectSize": 16 << 20,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "readOnly": False,
    "ok": 1.0,
}


def customer(number: int) -> dict[str, Any]:
    """A document of about 250 bytes, with values that masking finds."""
    return {
        "_id": number,
        "name": "Ada Lovelace",
        "email": f"ada.{number}@example.com",
        "address": {"street": "St James's Square 12", "city": "London", "zip": "SW1Y 4JH"},
        "tags": ["first", "second"],
        "total": 1815.25,
        "visits": number % 100,
        "created": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    }


def batch(documents: list[dict[str, Any]], *, cursor: int = 0, more: bool = False) -> bytes:
    """The part of a reply after its header."""
    name = "nextBatch" if more else "firstBatch"
    fields = {"cursor": {name: documents, "id": bson.Int64(cursor), "ns": "shop.customers"}, "ok": 1.0}
    return _body(fields)


def _body(fields: dict[str, Any]) -> bytes:
    return b"\0\0\0\0\0" + bson.encode(fields)


class Answering(asyncio.Protocol):
    """One connection."""

    one = batch([customer(4711)])
    first = b""
    rest = b""
    last = b""
    batches = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._buffer = b""
        self._left = 0

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        at = 0
        while len(buffer) - at >= 16:
            size, number, _, opcode = _HEAD.unpack_from(buffer, at)
            if len(buffer) - at < size:
                break
            self._answer(buffer[at : at + size], number, opcode)
            at += size
        self._buffer = buffer[at:]

    def _answer(self, message: bytes, number: int, opcode: int) -> None:
        if opcode == _OP_QUERY:
            body = struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(_HELLO)
            self._transport.write(_HEAD.pack(16 + len(body), 1, number, _OP_REPLY) + body)
            return
        body = self._reply(message)
        self._transport.write(_HEAD.pack(16 + len(body), 1, number, _OP_MSG) + body)

    def _reply(self, message: bytes) -> bytes:
        name = message[26 : message.index(b"\0", 26)]
        if name == b"find":
            if b"\0\x06\0\0\0lines\0" not in message[:64]:
                return self.one
            self._left = self.batches
            return self.first
        if name == b"getMore":
            self._left -= 1
            return self.rest if self._left else self.last
        if name in (b"hello", b"isMaster", b"ismaster"):
            return _body(_HELLO)
        if name == b"buildInfo":
            return _body({"version": "7.0.0", "ok": 1.0})
        if name == b"listDatabases":
            return _body({"databases": [{"name": "shop", "sizeOnDisk": 1, "empty": False}], "ok": 1.0})
        if name == b"listCollections":
            found: list[dict[str, Any]] = [
                {"name": name, "type": "collection", "options": {}} for name in ("customers", "lines")
            ]
            return batch(found if b"$db\0\x05\0\0\0shop\0" in message else [])
        return batch([])


async def serve(port: int, batches: int) -> None:
    size = len(bson.encode(customer(4711))) + 6
    documents = [customer(number) for number in range(LARGE // size)]
    Answering.batches = batches
    Answering.first = batch(documents[:101], cursor=7)
    Answering.rest = batch(documents, cursor=7, more=True)
    Answering.last = batch(documents, more=True)
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
