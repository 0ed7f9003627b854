"""A local port whose connections are carried to a gateway, each in a WebSocket of its own.

The two ends of each are joined by plain callbacks, with back-pressure both ways: a client that does not read slows
its own stream and no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from postern.domain.secret import Secret
from postern.errors import PosternError
from postern.transport import websocket

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Where a connection is reached. `authority` is PEM text; empty for the system's CAs."""

    url: str
    token: Secret
    connection: str
    authority: str

    async def open(self, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        """Raises Unavailable."""
        stream, _ = await websocket.connect(
            self.url,
            token=self.token.reveal(),
            connection=self.connection,
            ca=self.authority or None,
            protocol=protocol,
        )
        return stream


class _End(asyncio.Protocol):
    """One end of a carried connection; `other` is the transport of the other end, once that is there."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: asyncio.Transport | None = None
        self._early: list[bytes] = []  # what came before the other end was there

    def join(self, other: asyncio.Transport) -> None:
        """The other end is there: it gets what came early, and everything from now on."""
        self.other = other
        for data in self._early:
            other.write(data)
        self._early.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.write(data)
        else:
            self._early.append(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None:
            self.other.close()


class _Far(_End):
    """The end at the gateway, which may turn the connection away and say why."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        super().__init__()
        self._failed = failed

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, ConnectionAbortedError):
            self._failed(str(error))
        super().connection_lost(error)


class _Local(_End):
    """The end of the native client. It is read from only when the tunnel is there to take it."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self._forward = forward

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast(asyncio.Transport, transport).pause_reading()
        self._forward.keep(self._join())

    async def _join(self) -> None:
        far = _Far(self._forward.failed)
        local = self.transport
        assert local is not None
        far.join(local)
        try:
            tunnel = await self._forward.tunnel.open(lambda: far)
        except PosternError as error:
            self._forward.failed(error.message)
            local.abort()
            return
        self.join(tunnel)
        if local.is_closing():  # the client went away meanwhile
            tunnel.close()
        else:
            local.resume_reading()


class Forward:
    """Listens on loopback only: whoever reaches the port is let through as the one who is logged in.

    `failed` is called with the reason when a connection could not be carried.
    """

    def __init__(self, tunnel: Tunnel, failed: Callable[[str], None]) -> None:
        self.tunnel = tunnel
        self.failed = failed
        self._joining: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, port: int) -> int:
        """The port it listens on; a free one for 0. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Local(self), LOOPBACK, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Ends the listening and what is being opened; the loop's end closes the rest."""
        if self._server is not None:
            self._server.close()
        for task in self._joining:
            task.cancel()
        await asyncio.gather(*self._joining, return_exceptions=True)

    def keep(self, joining: Awaitable[None]) -> None:
        task = asyncio.ensure_future(joining)
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)
