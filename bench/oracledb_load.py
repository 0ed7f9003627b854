"""Clients of Oracle Database in one process, which send prepared calls: a driver would be the slowest part.

    python -m bench.oracledb_load PORT USER PASSWORD CLIENTS SECONDS     one row each, after the answer to the last
    python -m bench.oracledb_load PORT USER PASSWORD large               one result to its end, 1,000 rows at a time

Prints JSON: `count`, `seconds`, `bytes`, and latencies in microseconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import uvloop
from tests.support.oracledb.server_replies import Completion, Dialogue, completion_reply

from postern.domain.secret import Secret
from postern.protocols.oracledb.login.oracle_login import OracleTargetLogin
from postern.protocols.oracledb.login.oracle_login import connect as log_in
from postern.protocols.oracledb.queries.oracle_own_calls import ROWS, encode_execute, encode_fetch
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.relay.relay_handshake import StreamHandshake

_TEXT = "select id, name, email, address from customers where id = {number}"
_LARGE = "select id, name, email, address from lines"
_CURSOR = 2  # of the large result, see `bench/oracledb_server.py`
_LAST = b"ORA-01403: no data found\n"  # ends the last answer of each result
_MORE = completion_reply(Completion(cursor=_CURSOR, rows=ROWS), Dialogue(12))  # ends the others
_FULL = 64  # bytes; a shorter packet without an end is the rest of an answer


class OracleRequester(asyncio.Protocol):
    """One client. It sends its calls in turn, up to `until`, and each after the answer to the last. `fetch` is the call
    for more rows."""

    def __init__(self, calls: list[bytes], fetch: bytes = b"") -> None:
        self.until = 0.0  # by the performance counter
        self.size = 0
        self.latencies: list[float] = []
        self.done = asyncio.get_running_loop().create_future()
        self._calls = calls
        self._fetch = fetch
        self._packets = tns.TnsReader("server", True, tns.MAX_SDU)

    def begin(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._write(self._calls[len(self.latencies) % len(self._calls)])

    def _write(self, call: bytes) -> None:
        self._is_first, self._end = True, b""
        self._transport.write(call)

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        self._packets.feed(data)
        while packet := self._packets.read():
            body = packet.body
            if packet.type != tns.DATA or (self._is_first and body[:1] == bytes((c.ERROR,))):
                self._fail(RuntimeError(f"an error: {body!r}"))
                return
            self._is_first = False
            self._end = body if len(body) >= _FULL else self._end + body
            if self._end.endswith(_LAST):
                self._finish_answer()
            elif self._end.endswith(_MORE):
                self._write(self._fetch)

    def _finish_answer(self) -> None:
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


async def connect(port: int, user: str, password: str, requester: OracleRequester) -> asyncio.Transport:
    """Log in, and hand the connection over."""
    transport, stream = await asyncio.get_running_loop().create_connection(
        lambda: StreamHandshake(None, server_name="127.0.0.1"), "127.0.0.1", port
    )
    await log_in(stream, OracleTargetLogin("127.0.0.1", port, user, Secret(password), "shop"))
    stream.hand_over(requester)
    return transport


async def point_selects(port: int, user: str, password: str, clients: int, seconds: float) -> dict[str, float]:
    calls = [encode_execute(_TEXT.format(number=number), (), number % 255 + 1) for number in range(1, 1001)]
    requesters = [OracleRequester(calls) for _ in range(clients)]
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
    requester = OracleRequester([encode_execute(_LARGE, (), 1)], encode_fetch(_CURSOR, 2))
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
