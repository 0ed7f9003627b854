"""Measures the tunnel between two processes beside a plain WebSocket and a plain TLS connection.

    python -m bench.tunnel            # about 3 minutes
    python -m bench.tunnel --quick    # about 30 seconds: a rough look

Each way is TLS on loopback under uvloop. An echo answers each message by itself, as a relay does. The rounds of the
three are interleaved; what counts are the ratios of their medians.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, WSUpgradeRequest, ws_connect, ws_create_server
from tests.support.certificates import Issued, issue

from bench import machine
from postern.transport import websocket
from postern.transport.mux import Incoming, Mux
from postern.transport.websocket import WebSocketTransport

KINDS = ("tunnel", "websocket", "tls")
_ORDER = struct.Struct(">cQ")  # what is asked for first: b"E", size of a message; b"D", how many bytes to send
_CHUNK = bytes(64 * 1024)
_BULK = 1 << 30

Write = Callable[[bytes], None]


class Server:
    """What one connection asks for: an echo of each message, or so many bytes."""

    def __init__(self) -> None:
        self.write: Write = lambda data: None
        self._size = self._left = 0
        self._rest = b""
        self.full = False

    def take(self, data: bytes) -> None:
        if not self._size and not self._left:
            kind, number = _ORDER.unpack_from(data)
            data = data[_ORDER.size :]
            if kind == b"E":
                self._size = number
            else:
                self._left = number
                self.pour()
        if not self._size or not data:
            return
        if len(data) == self._size and not self._rest:
            self.write(data)
            return
        data = self._rest + data
        size = self._size
        whole = len(data) - len(data) % size
        for start in range(0, whole, size):
            self.write(data[start : start + size])
        self._rest = data[whole:]

    def pour(self) -> None:
        while self._left and not self.full:
            self._left -= len(_CHUNK)
            self.write(_CHUNK)

    def throttle(self, full: bool) -> None:
        self.full = full
        if not full:
            self.pour()


class Ended(asyncio.Protocol):
    """A transport's protocol that passes all on to `take`."""

    def __init__(self, server: Server | None, take: Callable[[bytes], None] | None = None) -> None:
        self.server = server
        self._take = take

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self.server is not None:
            self.server.write = self.transport.write
            self._take = self.server.take
        assert self._take is not None
        self.data_received = self._take  # type: ignore[method-assign, assignment]

    def pause_writing(self) -> None:
        if self.server is not None:
            self.server.throttle(True)

    def resume_writing(self) -> None:
        if self.server is not None:
            self.server.throttle(False)


class Listener(WSListener):
    """The same of a plain WebSocket: one message of ours is one of its messages."""

    def __init__(self, server: Server | None, take: Callable[[bytes], None] | None = None) -> None:
        self._server = server
        self._take = take or cast("Server", server).take

    def on_ws_connected(self, transport: WSTransport) -> None:
        if self._server is not None:
            self._server.write = lambda data: transport.send(WSMsgType.BINARY, data)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type is WSMsgType.BINARY:
            self._take(frame.get_payload_as_bytes())
        else:
            transport.disconnect()

    def pause_writing(self) -> None:
        if self._server is not None:
            self._server.throttle(True)

    def resume_writing(self) -> None:
        if self._server is not None:
            self._server.throttle(False)


async def serve(kind: str, certificate: str, key: str) -> None:
    """Prints its port, and serves until it is ended."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    loop = asyncio.get_running_loop()

    def tunnelled(transport: WebSocketTransport, token: str) -> None:
        mux = Mux(dialler=False, hello={}, on_open=lambda incoming: incoming.accept({}, Ended(Server())))
        transport.set_protocol(mux)
        mux.connection_made(transport)

    def plain(request: WSUpgradeRequest) -> WSListener:
        return Listener(Server())

    server: asyncio.Server
    if kind == "tunnel":
        server = await websocket.serve(tunnelled, "127.0.0.1", 0, context)
    elif kind == "websocket":
        server = await ws_create_server(plain, "127.0.0.1", 0, ssl=context, max_frame_size=1 << 20)
    else:
        server = await loop.create_server(lambda: Ended(Server()), "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


class Client:
    """Opens connections of one kind; a tunnel's are streams."""

    def __init__(self, kind: str, port: int, authority: str) -> None:
        self._kind = kind
        self._port = port
        self._authority = authority
        self._context = ssl.create_default_context(cadata=authority)
        self._mux: Mux | None = None

    async def open(self, take: Callable[[bytes], None]) -> tuple[Write, Callable[[], None]]:
        """How to write, and how to close."""
        if self._kind == "tls":
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(
                lambda: Ended(None, take), "127.0.0.1", self._port, ssl=self._context, server_hostname="localhost"
            )
            return transport.write, transport.abort
        url = f"wss://localhost:{self._port}"
        if self._kind == "websocket":
            wire, _ = await ws_connect(lambda: Listener(None, take), url, ssl_context=self._context)
            return (lambda data: wire.send(WSMsgType.BINARY, data)), wire.disconnect
        if self._mux is None:
            _, made = await websocket.connect(
                url,
                token="t",
                ca=self._authority,
                protocol=lambda: Mux(dialler=True, hello={}, on_open=_nothing),
            )
            self._mux = cast("Mux", made)
        stream, _ = await self._mux.open({}, Ended(None, take))
        return stream.write, stream.abort

    async def echo(self, size: int, flight: int, seconds: float, streams: int = 1) -> tuple[float, float]:
        """Messages a second with `flight` of them on each of `streams`; and the median µs of a round trip when it is
        one."""
        done = asyncio.get_running_loop().create_future()
        runs = [_Echo(size, flight, time.perf_counter() + seconds, done) for _ in range(streams)]
        ways = [await self.open(run.take) for run in runs]
        started = time.perf_counter()
        for run, (write, _) in zip(runs, ways, strict=True):
            run.start(write)
        await done
        elapsed = time.perf_counter() - started
        for _, close in ways:
            close()
        trips = [trip for run in runs for trip in run.trips]
        return sum(run.count for run in runs) / elapsed, statistics.median(trips) * 1e6 if trips else 0.0

    async def bulk(self, size: int) -> float:
        """MB/s of one stream to the client."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = size

        def take(data: bytes) -> None:
            nonlocal left
            left -= len(data)
            if left <= 0 and not done.done():
                done.set_result(None)

        write, close = await self.open(take)
        started = time.perf_counter()
        write(_ORDER.pack(b"D", size))
        await done
        elapsed = time.perf_counter() - started
        close()
        return size / elapsed / 1e6


class _Echo:
    def __init__(self, size: int, flight: int, end: float, done: asyncio.Future[None]) -> None:
        self._message = bytes(size)
        self._flight = flight
        self._end = end
        self._done = done
        self._pending = 0
        self._sent = 0.0
        self._write: Write = lambda data: None
        self.count = 0
        self.trips: list[float] = []

    def start(self, write: Write) -> None:
        self._write = write
        write(_ORDER.pack(b"E", len(self._message)))
        self._sent = time.perf_counter()
        for _ in range(self._flight):
            write(self._message)

    def take(self, data: bytes) -> None:
        self._pending += len(data)
        size = len(self._message)
        if self._pending < size:
            return
        now = time.perf_counter()
        if now >= self._end:
            if not self._done.done():
                self._done.set_result(None)
            return
        if self._flight == 1:
            self.trips.append(now - self._sent)
            self._sent = now
        while self._pending >= size:
            self._pending -= size
            self.count += 1
            self._write(self._message)


def _nothing(incoming: Incoming) -> None:
    incoming.refuse("Denied", "nobody opens streams here")


class Stage:
    """A server process of each kind."""

    def __init__(self, folder: Path, issued: Issued) -> None:
        (folder / "c.pem").write_bytes(issued.certificate)
        (folder / "k.pem").write_bytes(issued.key)
        self.authority = issued.authority
        self.processes = {kind: self._start(kind, folder) for kind in KINDS}
        self.ports = {kind: int(cast("str", process.stdout.readline())) for kind, process in self.processes.items()}  # type: ignore[union-attr]

    def _start(self, kind: str, folder: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "bench.tunnel", "--serve", kind, str(folder / "c.pem"), str(folder / "k.pem")]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


Rounds = dict[str, dict[str, list[float]]]


def measure(stage: Stage, rounds: int, seconds: float) -> Rounds:
    """By name of the figure, by kind: one value a round."""
    found: Rounds = {}

    def keep(name: str, kind: str, value: float) -> None:
        found.setdefault(name, {}).setdefault(kind, []).append(value)

    async def one(kind: str) -> None:
        client = Client(kind, stage.ports[kind], stage.authority)
        rate, trip = await client.echo(200, 1, seconds)
        keep("round trip of 200 B, one in flight, µs (p50)", kind, trip)
        keep("messages/s, 200 B, 64 in flight", kind, (await client.echo(200, 64, seconds))[0])
        rate, _ = await client.echo(32 * 1024, 64, seconds)
        keep("MB/s each way, 32 KiB, 64 in flight", kind, rate * 32 * 1024 / 1e6)
        keep("MB/s, one way", kind, await client.bulk(_BULK if seconds >= 1 else _BULK // 4))
        keep("messages/s, 200 B, 64 streams, one in flight each", kind, (await client.echo(200, 1, seconds, 64))[0])

    for _ in range(rounds):
        for kind in KINDS:
            uvloop.run(one(kind))
    return found


def render(found: Rounds) -> str:
    lines = [
        "| | tunnel | plain WebSocket | plain TLS | tunnel : WebSocket | tunnel : TLS |",
        "|---|---|---|---|---|---|",
    ]
    for name, kinds in found.items():
        tunnel, plain, tls = (statistics.median(kinds[kind]) for kind in KINDS)
        lines.append(
            f"| {name} | {tunnel:,.0f} | {plain:,.0f} | {tls:,.0f} | {tunnel / plain:.2f} | {tunnel / tls:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two rounds of short runs")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve(*options.serve))
        return
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder), issue("localhost"))
        try:
            found = measure(stage, 2 if options.quick else 5, 0.5 if options.quick else 2.0)
        finally:
            stage.stop()
    print(f"The transport is {'compiled' if machine.is_compiled() else 'plain Python'}.\n")
    print(render(found))


if __name__ == "__main__":
    main()
