"""Signals between the processes of one machine: small messages on named topics.

The supervisor runs a `SignalHub` on a Unix socket; every other process has a `SocketSignals`. A message is one line of
JSON, `{"topic": …, "payload": {…}}`. The hub forwards each to all clients except its sender, which has called its own
handlers already.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from postern.errors import Misconfigured
from postern.store.ports.common_ports import Topic

log = logging.getLogger(__name__)

Handler = Callable[[Mapping[str, str]], None]

MAX_MESSAGE = 16 * 1024  # bytes of one line
MAX_UNREAD = 1024 * 1024  # bytes that a subscriber may be behind before it is cut off
MAX_UNSENT = 1_000  # messages kept while the hub cannot be reached
UNHURRIED = frozenset({Topic.SESSION_STARTED})  # only lists of sessions follow it
DELAY = 0.05  # seconds for which an unhurried message waits for others, to be sent together
_FIRST_RETRY, _LAST_RETRY = 0.05, 2.0  # seconds
_MAX_SOCKET_PATH = 107  # bytes; the kernel's limit for a Unix socket's address


class LocalSignals:
    """Signals inside one process; `SocketSignals` uses it to call its own handlers."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[Handler]] = {}

    @property
    def connected(self) -> bool:
        return True

    async def publish(self, topic: str, **payload: str) -> None:
        self.deliver(topic, payload)

    def subscribe(self, topic: str, handler: Handler) -> None:
        self._handlers.setdefault(topic, []).append(handler)

    def deliver(self, topic: str, payload: Mapping[str, str]) -> None:
        for handler in self._handlers.get(topic, ()):
            try:
                handler(payload)
            except Exception:
                log.exception("a handler of a signal failed: topic=%s", topic)


def check_socket_path(path: Path) -> None:
    """Raises Misconfigured when the path is too long."""
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
        raise Misconfigured(f"{path} is too long for a socket; choose a shorter POSTERN_HOME", field="home")


def _line(topic: str, payload: Mapping[str, str]) -> bytes:
    return json.dumps({"topic": topic, "payload": payload}).encode() + b"\n"


class SignalHub:
    """Forwards messages. A client that does not read is disconnected, so that it does not delay the others."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._server: asyncio.Server | None = None
        self.clients: set[_HubClient] = set()

    async def start(self) -> None:
        """Start listening. Raises Misconfigured when the socket's path is too long."""
        check_socket_path(self._path)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)  # left by a process that was killed
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _HubClient(self), path=str(self._path))
        self._path.chmod(0o600)

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for client in list(self.clients):
            client.abort()
        await self._server.wait_closed()
        self._path.unlink(missing_ok=True)

    def publish(self, topic: str, **payload: str) -> None:
        """Send a message of the supervisor's own to all."""
        self.forward(_line(topic, payload), None)

    def forward(self, lines: bytes, origin: _HubClient | None) -> None:
        for client in list(self.clients):
            if client is not origin:
                client.send(lines)


class _HubClient(asyncio.Protocol):
    """One process at the hub. What arrives together is forwarded together."""

    def __init__(self, hub: SignalHub) -> None:
        self._hub = hub
        self._transport: asyncio.Transport | None = None
        self._rest = b""  # the beginning of a line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._hub.clients.add(self)

    def data_received(self, data: bytes) -> None:
        received = self._rest + data
        end = received.rfind(b"\n") + 1
        lines, self._rest = received[:end], received[end:]
        if len(received) > MAX_MESSAGE and any(len(line) > MAX_MESSAGE for line in received.split(b"\n")):
            log.warning("a signals client was disconnected: its message has more than %d bytes", MAX_MESSAGE)
            self.abort()
        elif lines:
            self._hub.forward(lines, self)

    def connection_lost(self, error: Exception | None) -> None:
        self._hub.clients.discard(self)

    def send(self, lines: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_UNREAD:
            log.warning("a signals client was disconnected because it does not read")
            self.abort()
        else:
            transport.write(lines)

    def abort(self) -> None:
        self._hub.clients.discard(self)
        if self._transport is not None:
            self._transport.abort()


class SocketSignals:
    """A process's connection to the hub, re-established with back-off.

    A process's own messages reach its own handlers at once, with or without a hub. After every gap the handlers of
    `Topic.RESUMED` are called, since messages of others may be lost.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = LocalSignals()
        self._unsent: deque[bytes] = deque()
        self._unhurried: list[bytes] = []  # sent with the next message, or after DELAY
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start connecting in the background, and return at once."""
        self._task = asyncio.create_task(self._run(), name="signals")

    async def stop(self) -> None:
        if self._task is None:
            return
        self._send_unhurried()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    @property
    def connected(self) -> bool:
        return self._writer is not None and not self._writer.transport.is_closing()

    def subscribe(self, topic: str, handler: Handler) -> None:
        self._local.subscribe(topic, handler)

    async def publish(self, topic: str, **payload: str) -> None:
        """Publish a message. Raises ValueError for one beyond MAX_MESSAGE."""
        line = _line(topic, payload)
        if len(line) > MAX_MESSAGE:
            raise ValueError(f"a signal on {topic!r} has {len(line)} bytes; at most {MAX_MESSAGE} are allowed")
        self._local.deliver(topic, payload)
        if topic in UNHURRIED:
            if not self._unhurried:
                asyncio.get_running_loop().call_later(DELAY, self._send_unhurried)
            self._unhurried.append(line)
        else:
            self._unhurried.append(line)
            self._send_unhurried()

    def _send_unhurried(self) -> None:
        lines, self._unhurried = self._unhurried, []
        if not lines:
            return
        if self._writer is not None and not self._writer.transport.is_closing():
            self._writer.write(b"".join(lines))
            return
        for line in lines:
            self._keep(line)

    def _keep(self, line: bytes) -> None:
        if len(self._unsent) == MAX_UNSENT:
            log.error("the signals hub is unreachable and the queue is full; the oldest unsent signal was dropped")
            self._unsent.popleft()
        self._unsent.append(line)

    async def _run(self) -> None:
        delay = _FIRST_RETRY
        gap = False
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_MESSAGE)
            except OSError:
                delay = min(delay * 2, _LAST_RETRY)
            else:
                delay = _FIRST_RETRY
                await self._stay(reader, writer, gap=gap)
            gap = True
            await asyncio.sleep(delay * random.uniform(0.5, 1.5))  # noqa: S311 - jitter

    async def _stay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, gap: bool) -> None:
        try:
            self._connect(writer, gap=gap)
            await self._read(reader)
        finally:
            self._writer = None
            writer.transport.abort()

    def _connect(self, writer: asyncio.StreamWriter, *, gap: bool) -> None:
        self._writer = writer
        while self._unsent:
            writer.write(self._unsent.popleft())
        if gap:
            self._local.deliver(Topic.RESUMED, {})

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._deliver(line)
        except (ValueError, ConnectionError) as error:
            log.warning("the connection to the signals hub was lost: error=%s", error)

    def _deliver(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            topic, payload = message["topic"], message["payload"]
            fits = isinstance(topic, str) and all(isinstance(value, str) for value in payload.values())
        except (ValueError, KeyError, TypeError, AttributeError):
            fits = False
        if not fits:
            log.warning("an unreadable signal was ignored")
            return
        self._local.deliver(topic, payload)
