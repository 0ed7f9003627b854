"""Clients of MongoDB in one process, which send prepared commands: a driver would be the slowest part.

    python -m bench.mongodb_load PORT USER PASSWORD CLIENTS SECONDS     point reads, each after the reply to the last
    python -m bench.mongodb_load PORT USER PASSWORD large               one result to its end

An empty USER is one who does not log in. Prints JSON: `count`, `seconds`, `bytes`, and latencies in microseconds.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time
from typing import Any

import bson
import uvloop

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


class PointReader(asyncio.Protocol):
    """One client, which reads until `until`."""

    def __init__(self) -> None:
        self.until = 0.0  # by the performance counter
        self._requests = [point_read(number) for number in range(1, 1001)]
        self._awaited = 0
        self.latencies: list[float] = []
        self.done = asyncio.get_running_loop().create_future()

    def begin(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._requests[len(self.latencies) % 1000])

    def data_received(self, data: bytes) -> None:
        if not self._awaited:
            self._awaited = int.from_bytes(data[:4], "little")
            if b"cursor\0" not in data:
                self.done.set_exception(RuntimeError(f"an unexpected reply: {data!r}"))
                return
        self._awaited -= len(data)
        if self._awaited:
            return
        now = time.perf_counter()
        self.latencies.append(now - self._began)
        if now < self.until:
            self._send()
        elif not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the connection was closed"))


class LargeReader(asyncio.Protocol):
    """A client that reads one result to its end."""

    def __init__(self) -> None:
        self._number, self._awaited = 1, 0
        self._start = b""
        self.size = 0
        self.done = asyncio.get_running_loop().create_future()

    def begin(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.write(command({"find": "lines", "filter": {}}, 1))

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
            self.done.set_exception(RuntimeError(f"an unexpected reply: {self._start!r}"))
        elif data.find(b"\x12id\0" + (7).to_bytes(8, "little"), -100) >= 0:
            self._number += 1
            self._transport.write(command({"getMore": bson.Int64(7), "collection": "lines"}, self._number))
        else:
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the connection was closed"))


async def connect(port: int, user: str, password: str, reader: asyncio.Protocol) -> asyncio.Transport:
    """Log in, and hand the connection over to the reader."""
    transport, stream = await asyncio.get_running_loop().create_connection(StreamHandshake, "127.0.0.1", port)
    conversation = MongodbTargetConversation(stream)
    login = MongodbTargetLogin(user, Secret(password), mechanism="SCRAM-SHA-256" if user else "")
    server = await conversation.hello(login)
    await conversation.authenticate(login, server, verified=False)
    stream.hand_over(reader)
    return transport


async def point_reads(port: int, user: str, password: str, clients: int, seconds: float) -> dict[str, float]:
    readers = [PointReader() for _ in range(clients)]
    transports = [await connect(port, user, password, reader) for reader in readers]
    began = time.perf_counter()
    for reader, transport in zip(readers, transports, strict=True):
        reader.until = began + seconds
        reader.begin(transport)
    await asyncio.gather(*(reader.done for reader in readers))
    took = time.perf_counter() - began
    latencies = sorted(latency for reader in readers for latency in reader.latencies)
    return {
        "count": len(latencies),
        "seconds": took,
        "p50": latencies[len(latencies) // 2] * 1e6,
        "p99": latencies[len(latencies) * 99 // 100] * 1e6,
    }


async def large(port: int, user: str, password: str) -> dict[str, float]:
    reader = LargeReader()
    transport = await connect(port, user, password, reader)
    began = time.perf_counter()
    reader.begin(transport)
    await reader.done
    return {"bytes": reader.size, "seconds": time.perf_counter() - began}


def main(port: str, user: str, password: str, what: str, seconds: str = "") -> None:
    if what == "large":
        print(json.dumps(uvloop.run(large(int(port), user, password))))
    else:
        print(json.dumps(uvloop.run(point_reads(int(port), user, password, int(what), float(seconds)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
