"""A bare forwarder on uvloop. It passes bytes on between 127.0.0.1:PORT and 127.0.0.1:TARGET_PORT, unread.

    python bench/forwarder.py PORT TARGET_PORT

A side that cannot take more pauses the reading of the other side, and the end of one direction leaves the other open.
uvloop sets TCP_NODELAY by itself.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop


class Side(asyncio.Protocol):
    """One of the two connections of a pair; `peer` is the other one."""

    transport: asyncio.Transport
    peer: Side

    def __init__(self) -> None:
        self.has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's has its methods, but another base class

    def data_received(self, data: bytes) -> None:
        self.peer.transport.write(data)

    def eof_received(self) -> bool:
        """Return True while the other direction is still in use, which keeps this connection open."""
        self.has_ended = True
        if self.peer.has_ended:
            self.peer.transport.close()  # after what is still to be written
            return False
        self.peer.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self.peer.transport.is_closing():
            self.peer.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.peer.transport.is_closing():
            self.peer.transport.close()


class WaitingClient(asyncio.Protocol):
    """A client until the connection to its target is open. uvloop may already read meanwhile, also where
    `connection_made` has paused it."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._early = b""
        self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connecting = asyncio.ensure_future(self._connect())

    def data_received(self, data: bytes) -> None:
        self._early += data
        self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._has_ended = True
        return True

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: TargetSide(self), "127.0.0.1", self._target_port)
        except OSError:
            self._transport.abort()

    def hand_over(self, target: Side) -> None:
        """Forward from now on. Nothing has been read from the target yet."""
        client = Side()
        client.transport = self._transport
        client.peer, target.peer = target, client
        if self._transport.is_closing():
            target.transport.abort()
            return
        self._transport.set_protocol(client)
        target.transport.write(self._early)
        if self._has_ended:
            client.eof_received()
        else:
            self._transport.resume_reading()


class TargetSide(Side):
    def __init__(self, client: WaitingClient) -> None:
        super().__init__()
        self._client = client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._client.hand_over(self)


async def serve(port: int, target_port: int) -> None:
    server = await asyncio.get_running_loop().create_server(
        lambda: WaitingClient(target_port), "127.0.0.1", port, backlog=1024
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
