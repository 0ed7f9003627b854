"""A login's byte stream in memory: two ends, each a `Handshake` for the side that sits at it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from postern.protocols.stream_cipher import StreamCipher

T = TypeVar("T")


class MemoryHandshake:
    """One end. What is written here can be read at the `peer`, and nowhere else.

    TLS is a word given by both: `start_tls` marks this end as encrypted, and from then on `binding` is what channel
    binding binds to. `offloaded` counts the work given to `offload`.
    """

    def __init__(self, *, tls: bool = True, binding: bytes | None = None) -> None:
        self.peer: MemoryHandshake = self
        self.encrypted = False
        self.closed = False
        self.offloaded = 0
        self._tls = tls
        self._binding = binding
        self._received = bytearray()
        self._arrived = asyncio.Event()
        self._cipher: StreamCipher | None = None

    @property
    def buffered(self) -> int:
        return len(self._received)

    @property
    def tls_offered(self) -> bool:
        return self._tls

    @property
    def channel_binding(self) -> bytes | None:
        return self._binding if self.encrypted else None

    async def read(self, size: int) -> bytes:
        await self.peek(size)
        data = bytes(self._received[:size])
        del self._received[:size]
        return data

    async def peek(self, size: int) -> bytes:
        while len(self._received) < size:
            if self.closed or self.peer.closed:
                raise ConnectionResetError("the peer closed the connection during login")
            self._arrived.clear()
            await self._arrived.wait()
        return bytes(self._received[:size])

    def read_buffered(self, size: int) -> bytes | None:
        if len(self._received) < size:
            return None
        data = bytes(self._received[:size])
        del self._received[:size]
        return data

    async def message(self) -> tuple[bytes, bytes]:
        """The next message that has a tag: (tag, body)."""
        head = await self.read(5)
        return head[:1], await self.read(int.from_bytes(head[1:], "big") - 4)

    def write(self, data: bytes) -> None:
        self.peer._receive(data if self._cipher is None else self._cipher.encrypt(data))

    def _receive(self, data: bytes) -> None:
        self._received += data if self._cipher is None else self._cipher.decrypt(data)
        self._arrived.set()

    def encrypt_stream(self, cipher: StreamCipher) -> None:
        self._cipher = cipher
        self._received[:] = cipher.decrypt(bytes(self._received))

    def write_later(self, data: bytes) -> None:
        self.write(data)

    def take(self) -> bytes:
        """Everything that has arrived and was not read."""
        data = bytes(self._received)
        self._received.clear()
        return data

    async def start_tls(self) -> None:
        self.encrypted = True

    async def offload(self, work: Callable[[], T]) -> T:
        self.offloaded += 1
        return work()

    def close(self) -> None:
        """This end goes away; the peer may still read what was written."""
        self.closed = True
        self.peer._arrived.set()


def pair(*, tls: bool = True, binding: bytes | None = None) -> tuple[MemoryHandshake, MemoryHandshake]:
    """Two ends of one stream: ours, with TLS and channel binding as given, and the other side's."""
    ours, theirs = MemoryHandshake(tls=tls, binding=binding), MemoryHandshake(binding=binding)
    ours.peer, theirs.peer = theirs, ours
    return ours, theirs
