"""Clients of MongoDB for `bench/mongodb.py`: see `bench/load_clients.py`. An empty user is one who does not log in."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import bson
from bench.load_clients import LoadClient, run_load

from postern.domain.secret import Secret
from postern.protocols.mongodb.login.mongodb_target_login import MongodbTargetConversation, MongodbTargetLogin
from postern.relay.relay_handshake import StreamHandshake

_HEAD = struct.Struct("<iiii")
_SESSION = {"id": bson.Binary(bytes(16), 4)}


def command(fields: dict[str, Any], number: int) -> bytes:
    body = b"\0\0\0\0\0" + bson.encode({**fields, "lsid": _SESSION, "$db": "shop"})
    return _HEAD.pack(16 + len(body), number, 0, 2013) + body


def point_read(number: int) -> bytes:
    """The command of PyMongo's `find_one`."""
    fields = {"find": "customers", "filter": {"_id": number}, "limit": 1, "singleBatch": True}
    return command(fields, number)


_SMALL = [point_read(number) for number in range(1, 1001)]
_LARGE = [command({"find": "lines", "filter": {}}, 1)]
_CURSOR = b"\x12id\0" + (7).to_bytes(8, "little")  # at the end of a reply that is not the last one


class PointReader(LoadClient):
    """A client that reads documents by their keys."""

    def __init__(self) -> None:
        super().__init__(_SMALL)
        self._awaited = 0

    def data_received(self, data: bytes) -> None:
        if not self._awaited:
            self._awaited = int.from_bytes(data[:4], "little")
            if b"cursor\0" not in data:
                self.fail(RuntimeError(f"an unexpected reply: {data!r}"))
                return
        self._awaited -= len(data)
        if not self._awaited:
            self.finish_answer()


class LargeReader(LoadClient):
    """A client that reads one result to its end."""

    def __init__(self) -> None:
        super().__init__(_LARGE)
        self._number, self._awaited = 1, 0
        self._start = b""

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        if not self._awaited:
            self._awaited = int.from_bytes(data[:4], "little")
            self._start = b""
        if len(self._start) < 200:
            self._start += data[:200]
        self._awaited -= len(data)
        if self._awaited:
            return
        if b"cursor\0" not in self._start:
            self.fail(RuntimeError(f"an unexpected reply: {self._start!r}"))
        elif data.find(_CURSOR, -100) >= 0:
            self._number += 1
            self.write(command({"getMore": bson.Int64(7), "collection": "lines"}, self._number))
        else:
            self.finish_answer()


async def connect(port: int, user: str, password: str, client: LoadClient) -> asyncio.Transport:
    """Log in, and hand the connection over."""
    transport, stream = await asyncio.get_running_loop().create_connection(StreamHandshake, "127.0.0.1", port)
    conversation = MongodbTargetConversation(stream)
    login = MongodbTargetLogin(user, Secret(password), mechanism="SCRAM-SHA-256" if user else "")
    server = await conversation.hello(login)
    await conversation.authenticate(login, server, verified=False)
    stream.hand_over(client)
    return transport


if __name__ == "__main__":
    run_load(connect, small=PointReader, large=LargeReader)
