"""Runs the test server on a loopback port, in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.oracledb import listener_packets as packets
from tests.support.oracledb.database import Database
from tests.support.oracledb.listener_packets import BadPacket, Packet, PacketSplitter
from tests.support.oracledb.server_session import ServerOptions, ServerSession
from tests.support.oracledb.ttc_fields import BadMessage

# Seconds until a break is answered. JDBC sends a break and the reset behind it from two threads with one buffer: it
# fails or waits forever if the answer comes at once.
BREAK_DELAY = 0.1

Tap = Callable[[bool, bytes], None]  # sees each piece of bytes; True: from the client


@dataclass
class OracleTestServer:
    """A server that runs. `failures` has what it could not read: tests expect none."""

    database: Database
    options: ServerOptions
    port: int = 0
    tls: ssl.SSLContext | None = None
    taps: list[Tap] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    descriptors: list[str] = field(default_factory=list)
    change: Callable[[bytes], bytes] = bytes  # what becomes of each reply on its way

    @property
    def user(self) -> str:
        return next(iter(self.options.users)).lower()

    @property
    def password(self) -> str:
        return next(iter(self.options.users.values()))

    @property
    def service(self) -> str:
        return self.options.services[0]

    @property
    def easy_connect(self) -> str:
        return f"127.0.0.1:{self.port}/{self.service}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await Connection(self, reader, writer).run()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the server is stopping
        except (BadMessage, BadPacket) as error:
            self.failures.append(str(error))
        except Exception as error:
            self.failures.append(repr(error))
            raise
        finally:
            writer.close()


class Connection:
    """One client: packets wait in a queue while a call runs in a thread, except breaks."""

    def __init__(self, server: OracleTestServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self._session = ServerSession(server.database, server.options)
        self._splitter = PacketSplitter()
        self._queue: asyncio.Queue[Packet | None] = asyncio.Queue(64)
        self._busy, self._broken = False, False

    async def run(self) -> None:
        reading = asyncio.create_task(self._read())
        try:
            while not self._session.closed and (packet := await self._queue.get()) is not None:
                self._busy = True
                reply = await asyncio.to_thread(self._session.receive, packet)
                self._busy = False
                if self._broken:  # the client waits for this, whether or not its call had ended in time
                    await asyncio.sleep(BREAK_DELAY)
                    reply, self._broken = packets.marker(packets.BREAK), False
                if self._session.large_packets and not self._splitter.large:
                    self._splitter.large = True
                    self._server.descriptors.append(self._session.descriptor)
                if reply:
                    self._write(reply)
                    await self._writer.drain()
            if reading.done():
                reading.result()
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
            self._session.end()

    def _write(self, reply: bytes) -> None:
        reply = self._server.change(self._session.seal(reply))
        for tap in self._server.taps:
            tap(False, reply)
        self._writer.write(reply)

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(65536):
                for tap in self._server.taps:
                    tap(True, data)
                self._splitter.feed(data)
                while packet := self._splitter.next_packet():
                    is_break = packet.kind == packets.MARKER and packet.body[-1] != packets.RESET
                    if is_break and (self._busy or not self._queue.empty()):
                        self._broken = True
                        self._session.interrupt()
                    else:
                        await self._queue.put(packet)
                    if packet.kind == packets.DATA:
                        await asyncio.sleep(0)
        finally:
            self._session.interrupt()
            await self._queue.put(None)


@contextmanager
def running_oracle(
    options: ServerOptions | None = None,
    tls: ssl.SSLContext | None = None,
    folder: Path | None = None,
    port: int = 0,
) -> Iterator[OracleTestServer]:
    """Run a server until the block ends. Without a port it has a free one."""
    with tempfile.TemporaryDirectory(prefix="oracle-") as made:
        options = options or ServerOptions()
        server = OracleTestServer(Database(folder or Path(made), options.clock), options, tls=tls)
        loop = asyncio.new_event_loop()
        started = threading.Event()
        stopping = asyncio.Event()

        async def serve() -> None:
            listener = await asyncio.start_server(server.handle, "127.0.0.1", port, ssl=tls)
            server.port = listener.sockets[0].getsockname()[1]
            started.set()
            async with listener:
                await stopping.wait()
                listener.close()
                tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="oracle", daemon=True)
        thread.start()
        assert started.wait(30), "the Oracle test server did not start"
        try:
            yield server
        finally:
            loop.call_soon_threadsafe(stopping.set)
            thread.join(30)
            loop.close()
