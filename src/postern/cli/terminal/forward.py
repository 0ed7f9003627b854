"""A local port whose connections are carried to a gateway. Each connection is a stream of one tunnel, which is dialled
for the first of them, and again after it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from postern.domain.secret import Secret
from postern.domain.targets.connection import OPAQUE
from postern.errors import PosternError
from postern.protocols.registry import DEFAULT_PROTOCOL
from postern.transport.mux import Mux
from postern.transport.pipe import Pipe, PipeEnd
from postern.transport.stream import Stream
from postern.transport.tunnel_dialling import TunnelAddress, dial_tunnel

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A request for streams to one target, with the login. `authority` is PEM text; empty for the system's CAs.
    `reason` and `duration`, in seconds, are for a review, if one is needed; `tracker_fields` are for the issue that a
    session opens, if it opens one. `protocol` is that of its native clients."""

    url: str
    token: Secret
    connection: str
    authority: str
    reason: str = ""
    duration: int | None = None
    tracker_fields: Mapping[str, str] = field(default_factory=dict)
    protocol: str = DEFAULT_PROTOCOL

    @property
    def is_opaque(self) -> bool:
        """True if the gateway cannot send the client a message, and resets it instead of an error."""
        return self.protocol in OPAQUE

    def fields(self) -> dict[str, Any]:
        """Return the request as the gateway reads it."""
        request: dict[str, Any] = {"connect": self.connection, "token": self.token.reveal()}
        if self.protocol != DEFAULT_PROTOCOL:  # which older gateways support
            request["protocol"] = self.protocol
        if self.reason:
            request["reason"] = self.reason
        if self.duration is not None:
            request["duration"] = self.duration
        if self.tracker_fields:
            request["tracker_fields"] = dict(self.tracker_fields)
        return request


class PortForward:
    """A listener on loopback only: each client of the port connects as the user who is logged in.

    `failed` is called with the reason if a connection could not be carried. `request` can be replaced: the next
    connection uses the new one.
    """

    def __init__(self, request: StreamRequest, failed: Callable[[str], None]) -> None:
        self.request = request
        self.failed = failed
        self.joined: Callable[[], None] = lambda: None  # called when a connection is carried
        self._tunnel: Mux | None = None
        self._dialling = asyncio.Lock()
        self._joining: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, port: int) -> int:
        """Listen, and return the port; a free one for 0. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Local(self), LOOPBACK, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def start_socket(self, path: Path) -> None:
        """Listen on a Unix socket, whose folder controls access. Raises OSError."""
        self._server = await asyncio.get_running_loop().create_unix_server(lambda: _Local(self), path)

    async def stop(self) -> None:
        """Stop listening, cancel what is being opened, and close the tunnel with its streams."""
        if self._server is not None:
            self._server.close()
        for task in self._joining:
            task.cancel()
        await asyncio.gather(*self._joining, return_exceptions=True)
        if self._tunnel is not None:
            self._tunnel.close("the command line has ended")

    def keep(self, joining: Awaitable[None]) -> None:
        task = asyncio.ensure_future(joining)
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def open(self, far: asyncio.Protocol, more: Mapping[str, Any] | None = None) -> Stream:
        """Open a stream to the connection; `more` has options of a command. Raises PosternError."""
        tunnel = await self._ensure_tunnel()
        stream, _ = await tunnel.open({**self.request.fields(), **(more or {})}, far)
        return stream

    async def _ensure_tunnel(self) -> Mux:
        async with self._dialling:
            if self._tunnel is None or self._tunnel.lost.done() or self._tunnel.drained:
                address = TunnelAddress(self.request.url, self.request.authority)
                self._tunnel = await dial_tunnel(address, self.request.token)
            return self._tunnel


class _Local(PipeEnd):
    """The native client's end. Its input is read only once the tunnel can take it."""

    def __init__(self, forward: PortForward) -> None:
        super().__init__(passes_resets=forward.request.is_opaque)
        self._forward = forward

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast("asyncio.Transport", transport).pause_reading()
        self._forward.keep(self._join())

    async def _join(self) -> None:
        far = _Far(self._forward.failed) if self._forward.request.is_opaque else PipeEnd()
        assert self.transport is not None
        try:
            stream = await self._forward.open(far)
        except PosternError as error:
            self._forward.failed(error.message)
            self.transport.abort()
            return
        except asyncio.CancelledError:
            self.transport.abort()
            raise
        Pipe(self, far)
        self._forward.joined()
        if self.transport.is_closing():  # the client disconnected meanwhile
            stream.close()


class _Far(PipeEnd):
    """The gateway's end, where the client gets no messages: `failed` is called with the reason of a reset."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        super().__init__(passes_resets=True)
        self._failed = failed

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._failed(str(error))
        super().connection_lost(error)
