"""Clients of one protocol in one process, which send prepared requests: a driver would be the slowest part.

    python -m bench.NAME_load PORT USER PASSWORD CLIENTS SECONDS     small answers, each after the one before
    python -m bench.NAME_load PORT USER PASSWORD large               one result to its end

Prints JSON: `count`, `seconds`, `bytes`, and latencies in microseconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

import uvloop


class LoadClient(asyncio.Protocol):
    """One client. It sends its requests in turn, up to `until`, and each after the answer to the last. A protocol says
    where an answer ends: `data_received` calls `finish_answer` there, and `fail` for an error."""

    def __init__(self, requests: Sequence[bytes]) -> None:
        self.until = 0.0  # by the performance counter
        self.size = 0
        self.latencies: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests = requests

    def begin(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self.write(self._requests[len(self.latencies) % len(self._requests)])

    def write(self, request: bytes) -> None:
        self._transport.write(request)

    def finish_answer(self) -> None:
        now = time.perf_counter()
        self.latencies.append(now - self._began)
        if now < self.until:
            self._send()
        elif not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.fail(error or ConnectionError("the connection was closed"))

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


Connect = Callable[[int, str, str, LoadClient], Awaitable[asyncio.Transport]]
"""Logs in by port, user and password, and hands the connection over to the client."""


async def _measure_small(
    connect: Connect, make: Callable[[], LoadClient], port: int, user: str, password: str, *, count: int, seconds: float
) -> dict[str, float]:
    clients = [make() for _ in range(count)]
    transports = [await connect(port, user, password, client) for client in clients]
    began = time.perf_counter()
    for client, transport in zip(clients, transports, strict=True):
        client.until = began + seconds
        client.begin(transport)
    await asyncio.gather(*(client.done for client in clients))
    took = time.perf_counter() - began
    latencies = sorted(latency for client in clients for latency in client.latencies)
    return {
        "count": len(latencies),
        "seconds": took,
        "p50": latencies[len(latencies) // 2] * 1e6,
        "p99": latencies[len(latencies) * 99 // 100] * 1e6,
    }


async def _measure_large(
    connect: Connect, make: Callable[[], LoadClient], port: int, user: str, password: str
) -> dict[str, float]:
    client = make()
    transport = await connect(port, user, password, client)
    began = time.perf_counter()
    client.begin(transport)
    await client.done
    return {"bytes": client.size, "seconds": time.perf_counter() - began}


def run_load(connect: Connect, *, small: Callable[[], LoadClient], large: Callable[[], LoadClient]) -> None:
    """Run what the command line says. `small` and `large` make clients, for small answers and for one large result."""
    port, user, password, what, *seconds = sys.argv[1:]
    if what == "large":
        measured = _measure_large(connect, large, int(port), user, password)
    else:
        measured = _measure_small(connect, small, int(port), user, password, count=int(what), seconds=float(seconds[0]))
    print(json.dumps(uvloop.run(measured)))
