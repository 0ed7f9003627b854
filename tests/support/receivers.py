"""Receivers of events on loopback: an HTTP server and a syslog server, over TLS or without."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from tests.support.certificates import Issued, issue

from postern.integrations.sinks.senders import Senders

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


@cache
def issued() -> Issued:
    return issue("localhost")


def server_context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("cert", issued().certificate), ("key", issued().key)):
            (Path(folder) / name).write_bytes(content)
        context.load_cert_chain(Path(folder) / "cert", Path(folder) / "key")
    return context


def senders() -> Senders:
    return Senders("gateway.example.com", LOOPBACK)


@dataclass
class HttpReceiver:
    """Answers `statuses` in turn, and then `status`."""

    port: int = 0
    status: int = 204
    statuses: list[int] = field(default_factory=list)
    headers: str = ""
    body: bytes = b""
    delay: float = 0.0
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/events"

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {
                    name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
                }
                body = await reader.readexactly(int(headers["content-length"]))
                self.got.append(({**headers, ":path": head[0].split(" ")[1]}, body))
                await asyncio.sleep(self.delay)
                status = self.statuses.pop(0) if self.statuses else self.status
                length = "" if status == 204 else f"Content-Length: {len(self.body)}\r\n"
                writer.write(f"HTTP/1.1 {status} X\r\n{length}{self.headers}\r\n".encode() + self.body)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def http_receiver(**given: Any) -> AsyncIterator[HttpReceiver]:
    receiver = HttpReceiver(**given)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=server_context())
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


@dataclass
class SyslogReceiver:
    port: int = 0
    got: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                length = await reader.readuntil(b" ")
                self.got.append(await reader.readexactly(int(length)))
        writer.close()


@asynccontextmanager
async def syslog_receiver(*, tls: bool) -> AsyncIterator[SyslogReceiver]:
    receiver = SyslogReceiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=server_context() if tls else None)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
