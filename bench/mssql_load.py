"""Clients of SQL Server in one process, which send prepared batches: a driver would be the slowest part.

    python -m bench.mssql_load PORT USER PASSWORD CLIENTS SECONDS     one row each, after the answer to the last
    python -m bench.mssql_load PORT USER PASSWORD large               one result to its end

Prints JSON: `count`, `seconds`, `bytes`, and latencies in microseconds.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time

import uvloop
from tests.support.protocols import mssql_test_messages as messages

from postern.domain.secret import Secret
from postern.protocols.mssql.login.mssql_login import MssqlTargetLogin
from postern.protocols.mssql.login.mssql_login import connect as log_in
from postern.protocols.mssql.wire import mssql_packets as p
from postern.relay.relay_handshake import StreamHandshake

_TEXT = "select id, name, email, address from customers where id = {number}"
_LARGE = "select id, name, email, address from lines"
_ERROR = b"\xaa"


class Requester(asyncio.Protocol):
    """One client. It sends its batches in turn, up to `until`, and each after the answer to the last."""

    def __init__(self, batches: list[bytes]) -> None:
        self.until = 0.0  # by the performance counter
        self.size = 0
        self.latencies: list[float] = []
        self.done = asyncio.get_running_loop().create_future()
        self._batches = batches
        self._head = b""
        self._left = 0  # bytes of the packet that is read
        self._is_last = False

    def begin(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._is_first = True
        self._transport.write(self._batches[len(self.latencies) % len(self._batches)])

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        if self._is_first and data[p.HEAD : p.HEAD + 1] == _ERROR:
            self._fail(RuntimeError(f"an error: {data!r}"))
            return
        self._is_first = False
        if self._head:
            data, self._head = self._head + data, b""
        at = self._left
        end = len(data)
        while at < end:
            if end - at < p.HEAD:
                self._head = data[at:]
                self._left = 0
                return
            self._is_last = bool(data[at + 1] & p.EOM)
            at += int.from_bytes(data[at + 2 : at + 4], "big")
        self._left = at - end
        if not self._left and self._is_last:
            self._finish_answer()

    def _finish_answer(self) -> None:
        self._is_last = False
        now = time.perf_counter()
        self.latencies.append(now - self._began)
        if now < self.until:
            self._send()
        elif not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionError("the connection was closed"))

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


async def connect(port: int, user: str, password: str, requester: Requester) -> asyncio.Transport:
    """Log in, and hand the connection over. As with most drivers, the login alone is encrypted on loopback."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    transport, stream = await asyncio.get_running_loop().create_connection(
        lambda: StreamHandshake(context, server_name="127.0.0.1"), "127.0.0.1", port
    )
    await log_in(stream, MssqlTargetLogin(user, Secret(password), "shop", sslmode="disable"))
    stream.hand_over(requester)
    return transport


async def point_selects(port: int, user: str, password: str, clients: int, seconds: float) -> dict[str, float]:
    batches = [messages.batch(_TEXT.format(number=number)) for number in range(1, 1001)]
    requesters = [Requester(batches) for _ in range(clients)]
    transports = [await connect(port, user, password, requester) for requester in requesters]
    began = time.perf_counter()
    for requester, transport in zip(requesters, transports, strict=True):
        requester.until = began + seconds
        requester.begin(transport)
    await asyncio.gather(*(requester.done for requester in requesters))
    took = time.perf_counter() - began
    latencies = sorted(latency for requester in requesters for latency in requester.latencies)
    return {
        "count": len(latencies),
        "seconds": took,
        "p50": latencies[len(latencies) // 2] * 1e6,
        "p99": latencies[len(latencies) * 99 // 100] * 1e6,
    }


async def large(port: int, user: str, password: str) -> dict[str, float]:
    requester = Requester([messages.batch(_LARGE)])
    transport = await connect(port, user, password, requester)
    began = time.perf_counter()
    requester.begin(transport)
    await requester.done
    return {"bytes": requester.size, "seconds": time.perf_counter() - began}


def main(port: str, user: str, password: str, what: str, seconds: str = "") -> None:
    if what == "large":
        print(json.dumps(uvloop.run(large(int(port), user, password))))
    else:
        print(json.dumps(uvloop.run(point_selects(int(port), user, password, int(what), float(seconds)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
