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

from postern.errors import Misconfigured
from postern.store.ports.common_ports import Topic

log = logging.getLogger(__name__)

Handler = Callable[[Mapping[str, str]], None]

MAX_MESSAGE = 16 * 1024  # bytes of one line
MAX_UNREAD = 1024 * 1024  # bytes that a subscriber may be behind before it is cut off
MAX_UNSENT = 1_000  # messages kept while the hub cannot be reached
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


class SignalHub:
    """Forwards messages. A client that does not read is disconnected, so that it does not delay the others."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start listening. Raises Misconfigured when the socket's path is too long."""
        if len(os.fsencode(self._path)) > _MAX_SOCKET_PATH:
            raise Misconfigured(f"{self._path} is too long for a socket; choose a shorter POSTERN_HOME")
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)  # left by a process that was killed
        self._server = await asyncio.start_unix_server(self._accept, path=self._path, limit=MAX_MESSAGE)
        self._path.chmod(0o600)

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._serving)
        await self._server.wait_closed()
        self._path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while line := await reader.readline():
                self._fan_out(line, writer)
        except (ValueError, ConnectionError) as error:  # ValueError: a line beyond MAX_MESSAGE
            log.warning("a signals client was disconnected: error=%s", error)
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    def _fan_out(self, line: bytes, origin: asyncio.StreamWriter) -> None:
        for writer in list(self._writers):
            if writer is origin or writer.transport.is_closing():
                continue
            if writer.transport.get_write_buffer_size() > MAX_UNREAD:
                log.warning("a signals client was disconnected because it does not read")
                self._writers.discard(writer)
                writer.transport.abort()
                continue
            writer.write(line)


class SocketSignals:
    """A process's connection to the hub, re-established with back-off.

    A process's own messages reach its own handlers at once, with or without a hub. After every gap the handlers of
    `Topic.RESUMED` are called, since messages of others may be lost.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = LocalSignals()
        self._unsent: deque[bytes] = deque()
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start connecting in the background, and return at once."""
        self._task = asyncio.create_task(self._run(), name="signals")

    async def stop(self) -> None:
        if self._task is None:
            return
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
        line = json.dumps({"topic": topic, "payload": payload}).encode() + b"\n"
        if len(line) > MAX_MESSAGE:
            raise ValueError(f"a signal on {topic!r} has {len(line)} bytes; at most {MAX_MESSAGE} are allowed")
        self._local.deliver(topic, payload)
        if self._writer is not None and not self._writer.transport.is_closing():
            self._writer.write(line)
            return
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
