"""A byte stream during login, on an asyncio transport: the driver behind `protocols.base.Handshake`.

Reads are bounded: the peer is paused while more than `_HIGH` bytes wait to be read. After login the
transport goes to another protocol by `hand_over`, with the bytes that were read too far.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from postern.errors import Unavailable

T = TypeVar("T")

_HIGH = 64 * 1024


def _nothing() -> None: ...


class StreamHandshake(asyncio.Protocol):
    """One side of a login. `context` makes TLS possible; `server_name` makes this the TLS client.

    `on_known` is to be called once this peer has done its part: from then on it waits for others, which have deadlines
    of their own. `on_held` is to be called when it begins to wait for people: from then on it is no login any more.
    `on_heard` is called when bytes have come, and when the peer has gone: for whoever waits without reading.
    """

    def __init__(
        self,
        context: ssl.SSLContext | None = None,
        *,
        server_name: str | None = None,
        certificate: bytes | None = None,
    ) -> None:
        self._context = context
        self._server_name = server_name
        self._certificate = certificate  # our own, DER, as TLS server
        self._binding: bytes | None = None
        self._buffer = bytearray()
        self._need = 0
        self._waiter: asyncio.Future[None] | None = None
        self._lost: Exception | None = None
        self._paused = False
        self.transport: asyncio.Transport | None = None
        self.peer = ""
        self.on_known: Callable[[], None] = _nothing
        self.on_held: Callable[[], None] = _nothing
        self.on_heard: Callable[[], None] = _nothing

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        self.peer = str(address[0]) if isinstance(address, tuple) else ""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > _HIGH and not self._paused and len(self._buffer) > self._need:
            self._paused = True
            self._stream().pause_reading()
        self._wake()
        self.on_heard()

    def eof_received(self) -> bool:
        self._fail(ConnectionResetError("the peer closed the connection during login"))
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionResetError("the connection was lost during login"))

    # Handshake

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    @property
    def tls_offered(self) -> bool:
        return self._context is not None

    @property
    def channel_binding(self) -> bytes | None:
        return self._binding

    async def read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if self._lost is not None:
                raise self._lost
            if self._paused:
                self._paused = False
                self._stream().resume_reading()
            self._need = size
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
                self._need = 0
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def write(self, data: bytes) -> None:
        if self._lost is None:
            self._stream().write(data)

    async def start_tls(self) -> None:
        """What was received and not read is the beginning of the peer's TLS handshake."""
        if self._context is None:
            raise Unavailable("TLS is not set up here")
        loop = asyncio.get_running_loop()
        server = self._server_name is None
        name = None if server or not self._context.check_hostname else self._server_name
        below = self._stream()
        below.pause_reading()  # until TLS stands in our place, and reads on
        begun = bytes(self._buffer)
        self._buffer.clear()
        starting = asyncio.ensure_future(
            loop.start_tls(below, self, self._context, server_side=server, server_hostname=name)
        )
        try:
            if begun:
                await asyncio.sleep(0)  # from here on TLS stands in our place, and is told of its stream next
                loop.call_soon(_feed, below.get_protocol(), begun)
            transport = await starting
        except ssl.SSLError as error:
            raise Unavailable(f"the TLS handshake failed: {error.reason or error}") from error
        if transport is None:
            raise ConnectionResetError("the peer closed the connection during the TLS handshake")
        self.transport = transport
        certificate = self._certificate
        if not server:
            tls = transport.get_extra_info("ssl_object")
            certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self._binding = end_point(certificate) if certificate else None

    async def offload(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, work)

    # For whoever drives the login

    def unread(self, start: int = 0) -> bytes:
        """What was received and not read, from there on; `read` gives it all the same. Raises ConnectionError when the
        peer has gone."""
        if self._lost is not None:
            raise self._lost
        return bytes(self._buffer[start:])

    @property
    def is_full(self) -> bool:
        """The peer has sent so much that nothing more is taken of it, so that not even its end would be heard."""
        return self._paused

    def hand_over(self, successor: asyncio.Protocol) -> bytes:
        """Gives the transport to `successor`; answers the bytes that were received and not read."""
        if self._lost is not None:
            raise self._lost
        transport = self._stream()
        rest = bytes(self._buffer)
        self._buffer.clear()
        transport.set_protocol(successor)
        if self._paused:
            self._paused = False
            transport.resume_reading()
        self.on_heard = _nothing
        return rest

    async def linger(self) -> None:
        """Send what was written, end this side, and return once the peer has closed its own.

        A connection that is closed while the peer still sends is reset, and the peer may lose what it was told.
        """
        if self._lost is None and self._stream().can_write_eof():
            self._stream().write_eof()
        with suppress(ConnectionError):
            while True:
                await self.read(max(1, self.buffered))

    def close(self) -> None:
        """After what was written has been sent."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()

    def _stream(self) -> asyncio.Transport:
        if self.transport is None:
            raise ConnectionResetError("the connection was never made")
        return self.transport

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done() and len(self._buffer) >= self._need:
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._lost = self._lost or error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.on_heard()


def _feed(tls: asyncio.BaseProtocol | None, data: bytes) -> None:
    """The first bytes of a TLS handshake, which came together with the request for it."""
    buffered = cast("asyncio.BufferedProtocol", tls)  # which it is in asyncio and in uvloop
    while data:
        room = memoryview(buffered.get_buffer(len(data)))
        size = min(len(room), len(data))
        room[:size] = data[:size]
        buffered.buffer_updated(size)
        data = data[size:]


def end_point(certificate: bytes) -> bytes:
    """`tls-server-end-point` of RFC 5929: the certificate's hash, with SHA-256 in place of MD5 and SHA-1."""
    algorithm = x509.load_der_x509_certificate(certificate).signature_hash_algorithm
    name = algorithm.name if algorithm is not None else "sha256"
    return hashlib.new("sha256" if name in ("md5", "sha1") else name, certificate).digest()


def der(pem: bytes) -> bytes:
    """The first certificate of a PEM file, as DER."""
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
