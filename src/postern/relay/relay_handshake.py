"""A byte stream during login, on an asyncio transport; the implementation of `protocols.wire_base.Handshake`.

Reads are bounded: the peer is paused while more than `_HIGH` bytes wait to be read. After login, `hand_over` gives the
transport to another protocol, with the bytes that were received but not read.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, cast

from cryptography import x509

from postern.errors import Unavailable
from postern.protocols.stream_cipher import StreamCipher
from postern.protocols.tls_cipher import TlsCipher
from postern.relay.cipher_transport import CipherTransport
from postern.relay.memory_tls import MemoryTls

T = TypeVar("T")

_HIGH = 64 * 1024


def _nothing() -> None: ...


class StreamHandshake(asyncio.Protocol):
    """One side of a login. `context` enables TLS; `server_name` makes this side the TLS client.

    Call `on_known` once the peer has done its part: it then waits for others, which have their own deadlines. Call
    `on_held` when it begins to wait for a reviewer: it then no longer counts as a login. `on_heard` is called when
    bytes arrive and when the peer disconnects, for callers that wait without reading.

    `half_open`: a peer that sends no more can still receive, so it is not lost: `has_ended` is set, and the caller of
    `hand_over` passes that on.
    """

    def __init__(
        self,
        context: ssl.SSLContext | None = None,
        *,
        server_name: str | None = None,
        certificate: bytes | None = None,
        half_open: bool = False,
    ) -> None:
        self.half_open = half_open
        self.has_ended = False
        self._context = context
        self._server_name = server_name
        self._certificate = certificate  # our own certificate as TLS server, DER
        self._binding: bytes | None = None
        self._buffer = bytearray()
        self._unsent = b""  # of `write_later`
        self._loop: asyncio.AbstractEventLoop | None = None
        self._need = 0
        self._waiter: asyncio.Future[None] | None = None
        self._lost: Exception | None = None
        self._paused = False
        self._is_starting_tls = False
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
        if not self._is_starting_tls:  # otherwise the transport below TLS would be paused, which TLS itself does
            self._pause_if_full()
        self._wake()
        self.on_heard()

    def _pause_if_full(self) -> None:
        if len(self._buffer) > _HIGH and not self._paused and len(self._buffer) > self._need:
            self._paused = True
            self._stream().pause_reading()

    def eof_received(self) -> bool:
        if self.half_open:
            self.has_ended = True
            self.on_heard()
            return not self.is_encrypted  # TLS cannot be closed in one direction only
        self._fail(ConnectionResetError("the peer closed the connection during login"))
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if error is None:
            error = ConnectionResetError("the connection was lost during login")
        elif not isinstance(error, ConnectionError):  # such as an alert of TLS after the handshake
            error = ConnectionResetError(f"the connection failed: {error}")
        self._fail(error)

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

    @property
    def is_encrypted(self) -> bool:
        return self._stream().get_extra_info("ssl_object") is not None

    @property
    def peer_certificate(self) -> bytes | None:
        """Return the peer's certificate, DER; None without TLS, and for clients of which none was demanded. Raises
        ConnectionResetError when the peer has closed the connection already."""
        tls = self._stream().get_extra_info("ssl_object")
        try:
            return tls.getpeercert(binary_form=True) if tls is not None else None
        except ValueError as error:
            raise ConnectionResetError("the peer closed the connection during the TLS handshake") from error

    async def read(self, size: int) -> bytes:
        await self._wait(size)
        return self._take(size)

    async def peek(self, size: int) -> bytes:
        await self._wait(size)
        return bytes(self._buffer[:size])

    async def _wait(self, size: int) -> None:
        while len(self._buffer) < size:
            if self._lost is not None:
                raise self._lost
            if self._paused:
                self._paused = False
                self._stream().resume_reading()
            self._need = size
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
                self._need = 0

    def read_buffered(self, size: int) -> bytes | None:
        return self._take(size) if len(self._buffer) >= size else None

    def write(self, data: bytes) -> None:
        if self._lost is None:
            self._stream().write(self._unsent + data if self._unsent else data)
            self._unsent = b""

    def write_later(self, data: bytes) -> None:
        self._unsent += data

    async def start_tls(self, context: ssl.SSLContext | None = None) -> None:
        """Start TLS, with `context` instead of the own one if it is given. Bytes that were received but not read are
        the beginning of the peer's handshake."""
        context = context or self._context
        if context is None:
            raise Unavailable("TLS is not configured for this connection")
        loop = asyncio.get_running_loop()
        server = self._server_name is None
        name = None if server or not context.check_hostname else self._server_name
        below = self._stream()
        below.pause_reading()  # until TLS replaces this protocol and resumes reading
        begun = bytes(self._buffer)
        self._buffer.clear()
        starting = asyncio.ensure_future(loop.start_tls(below, self, context, server_side=server, server_hostname=name))
        self._is_starting_tls = True
        try:
            if begun:
                await asyncio.sleep(0)  # after this, TLS is the transport's protocol; connection_made is called next
                loop.call_soon(_feed, below.get_protocol(), begun)
            transport = await starting
        except ssl.SSLError as error:
            raise Unavailable(f"the TLS handshake failed: {error.reason or error}") from error
        finally:
            self._is_starting_tls = False
        if transport is None:
            raise ConnectionResetError("the peer closed the connection during the TLS handshake")
        self.transport = transport
        self._pause_if_full()
        certificate = self._certificate
        if not server:
            certificate = self.peer_certificate
        self._binding = channel_binding_of(certificate) if certificate else None

    async def framed_tls_handshake(
        self,
        wrap: Callable[[bytes], bytes],
        read: Callable[[], Awaitable[bytes]],
        context: ssl.SSLContext | None = None,
    ) -> TlsCipher:
        """Do the handshake of TLS in messages of another protocol: `wrap` makes one, and `read` returns what is in the
        peer's next one. Return the cipher; the stream itself stays as it is. See `encrypt_stream`."""
        context = context or self._context
        if context is None:
            raise Unavailable("TLS is not configured for this connection")
        server = self._server_name is None
        cipher = MemoryTls(
            context, server=server, server_name=None if server or not context.check_hostname else self._server_name
        )
        answer = cipher.handshake(await read() if server else b"")
        while True:
            if answer:
                self.write(wrap(answer))
            if cipher.is_ready:
                return cipher
            answer = cipher.handshake(await read())

    def encrypt_stream(self, cipher: StreamCipher) -> None:
        """Encrypt all that follows. Bytes that were received but not read are encrypted already."""
        below = self._stream()
        begun = bytes(self._buffer)
        self._buffer.clear()
        transport = CipherTransport(below, cipher, self)
        self.transport = transport
        if self._paused:
            self._paused = False
            below.resume_reading()
        if begun:
            transport.receive(begun)

    async def offload(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, work)

    # For the code that drives the login

    def unread(self, start: int = 0) -> bytes:
        """Return the received bytes from `start` on without consuming them. Raises ConnectionError when the peer has
        disconnected."""
        if self._lost is not None:
            raise self._lost
        return bytes(self._buffer[start:])

    @property
    def is_full(self) -> bool:
        """True while reading is paused because the buffer is full. Then even a disconnect goes unnoticed."""
        return self._paused

    def hand_over(self, successor: asyncio.Protocol) -> bytes:
        """Give the transport to `successor`. Return the bytes that were received but not read."""
        if self._lost is not None:
            raise self._lost
        transport = self._stream()
        self._write_unsent()
        rest = bytes(self._buffer)
        self._buffer.clear()
        transport.set_protocol(successor)
        if self._paused:
            self._paused = False
            transport.resume_reading()
        self.on_heard = _nothing
        return rest

    def take_unread(self) -> bytes:
        """Return the bytes that were received but not read, of a peer that has ended its direction and is lost."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    async def linger(self) -> None:
        """Send what was written, close this direction, and return once the peer has closed its own.

        Closing a connection while the peer still sends resets it, and the peer may lose the last message.
        """
        self._write_unsent()
        if self._lost is None and self._stream().can_write_eof():
            self._stream().write_eof()
        with suppress(ConnectionError):
            while True:
                await self.read(max(1, self.buffered))

    def close(self) -> None:
        """Close the connection after what was written has been sent."""
        if self.transport is not None and not self.transport.is_closing():
            self._write_unsent()
            self.transport.close()

    def _take(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _write_unsent(self) -> None:
        if self._unsent:
            self.write(b"")

    def _stream(self) -> asyncio.Transport:
        if self.transport is None:
            raise ConnectionResetError("the connection is not established")
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
    """Pass TLS the first bytes of a handshake, which arrived together with the request for TLS."""
    buffered = cast("asyncio.BufferedProtocol", tls)  # true for asyncio and uvloop
    while data:
        room = memoryview(buffered.get_buffer(len(data)))
        size = min(len(room), len(data))
        room[:size] = data[:size]
        buffered.buffer_updated(size)
        data = data[size:]


def channel_binding_of(certificate: bytes) -> bytes:
    """Return the `tls-server-end-point` binding of RFC 5929: the certificate's hash, with SHA-256 instead of MD5 and
    SHA-1."""
    algorithm = x509.load_der_x509_certificate(certificate).signature_hash_algorithm
    name = algorithm.name if algorithm is not None else "sha256"
    return hashlib.new("sha256" if name in ("md5", "sha1") else name, certificate).digest()
