"""One side of TLS in memory, for protocols that carry its handshake in messages of their own, as TDS 7 does (MS-TDS
2.2.6.5). `relay/cipher_transport.py` makes a transport of it."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

from postern.errors import Unavailable

_CHUNK: Final = 256 * 1024
RECORD_HEAD: Final = 5  # type, version, Int16 length
MAX_RECORD: Final = 16 * 1024 + 2048
_CONTENT_TYPES: Final = range(0x14, 0x18)


def record_size(head: bytes) -> int:
    """Return the size of the record with this head, without it. Raises Unavailable if it is not one of TLS."""
    size = int.from_bytes(head[3:5], "big")
    if head[0] not in _CONTENT_TYPES or head[1] != 3 or size > MAX_RECORD:
        raise Unavailable("the peer sent something else than a record of TLS")
    return size


class TlsCipher:
    """One side of TLS, in memory. `server_name` makes it the client's side."""

    def __init__(self, context: ssl.SSLContext, *, server: bool, server_name: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.object = context.wrap_bio(self._incoming, self._outgoing, server_side=server, server_hostname=server_name)
        self.is_ready = False  # the handshake is complete
        self.has_ended = False  # the peer has sent its last record

    def handshake(self, data: bytes) -> bytes:
        """Take a part of the peer's handshake, and return the own one's. Raises Unavailable."""
        self._incoming.write(data)
        try:
            self.object.do_handshake()
            self.is_ready = True
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLError, ssl.CertificateError) as error:
            reason = getattr(error, "verify_message", "") or error.reason or error
            raise Unavailable(f"the TLS handshake failed: {reason}") from error
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        """Take records, or parts of them, and return what they say. Raises ssl.SSLError."""
        self._incoming.write(data)
        parts: list[bytes] = []
        while True:
            try:
                part = self.object.read(_CHUNK)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                part = b""
            if not part:
                self.has_ended = True
                break
            parts.append(part)
        return b"".join(parts)

    def encrypt(self, data: bytes) -> bytes:
        """Return records that say this. Raises ssl.SSLError."""
        view = memoryview(data)
        while view:
            view = view[self.object.write(view) :]
        return self._outgoing.read()

    def take_pending(self) -> bytes:
        """Return records that TLS itself wants to send, such as alerts."""
        return self._outgoing.read()

    def close(self) -> bytes:
        """Return the last record."""
        with suppress(ssl.SSLError):  # the peer has not closed its direction, which nothing waits for
            self.object.unwrap()
        return self._outgoing.read()
