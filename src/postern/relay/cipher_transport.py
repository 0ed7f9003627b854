"""A transport that encrypts over another one, for protocols whose TLS handshake is in messages of their own.

asyncio can only start TLS on a transport whose bytes are TLS from then on. Here the handshake is in messages, and what
follows is either TLS without messages, or TLS for one message only and clear text behind it:

    handshake in messages ─┬─▶ CipherTransport: records in both directions
                           └─▶ MemoryTls.decrypt for as long as the login needs it, then clear text

Ciphers of a protocol's own, which are not TLS, use the transport as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from postern.errors import Unavailable
from postern.protocols.stream_cipher import StreamCipher


class CipherTransport(asyncio.Transport):
    """A transport that encrypts over another one. Its protocol can be replaced like that of any transport."""

    def __init__(self, below: asyncio.Transport, cipher: StreamCipher, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._below = below
        self._cipher = cipher
        self._protocol: asyncio.Protocol = protocol
        self._closing = False
        below.set_protocol(_Records(self))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._cipher.ssl_object
        return self._below.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.Protocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing or self._below.is_closing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._below.write(self._cipher.close())
            self._below.close()

    def abort(self) -> None:
        self._closing = True
        self._below.abort()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not data:
            return
        try:
            self._below.write(self._cipher.encrypt(bytes(data)))
        except Unavailable:
            self._fail()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False  # a cipher cannot be closed in one direction only

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def is_reading(self) -> bool:
        return self._below.is_reading()

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._below.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def receive(self, data: bytes) -> None:
        """Take bytes from below."""
        try:
            plain = self._cipher.decrypt(data)
        except Unavailable:
            self._fail()
            return
        pending = self._cipher.take_pending()
        if pending and not self.is_closing():
            self._below.write(pending)
        if plain:
            self._protocol.data_received(plain)
        if self._cipher.has_ended and not self.is_closing():
            self._protocol.eof_received()
            self.close()

    def lose(self, error: Exception | None) -> None:
        """The transport below is lost."""
        self._closing = True
        self._protocol.connection_lost(error)

    def end(self) -> None:
        """The transport below ends, without a last record."""
        self._protocol.eof_received()

    def throttle(self, is_full: bool) -> None:
        """The transport below has a full buffer, or no longer."""
        if is_full:
            self._protocol.pause_writing()
        else:
            self._protocol.resume_writing()

    def _fail(self) -> None:
        """The cipher itself failed: nothing more can be read or written. The transport below tells that it is lost."""
        alert = self._cipher.take_pending()
        if alert and not self._below.is_closing():
            self._below.write(alert)
        self._closing = True
        self._below.close()


class _Records(asyncio.Protocol):
    """Takes what the transport below receives."""

    def __init__(self, above: CipherTransport) -> None:
        self._above = above
        self.data_received = above.receive  # type: ignore[method-assign]

    def eof_received(self) -> bool:
        self._above.end()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._above.lose(error)

    def pause_writing(self) -> None:
        self._above.throttle(True)

    def resume_writing(self) -> None:
        self._above.throttle(False)
