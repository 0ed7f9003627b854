"""One side of TLS, in memory."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

from postern.errors import Unavailable

_CHUNK: Final = 256 * 1024


class MemoryTls:
    """One side of TLS, in memory. `server_name` makes it the client's side."""

    def __init__(self, context: ssl.SSLContext, *, server: bool, server_name: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.ssl_object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server, server_hostname=server_name
        )
        self.is_ready = False  # the handshake is complete
        self.has_ended = False  # the peer has sent its last record

    def handshake(self, data: bytes) -> bytes:
        """Take a part of the peer's handshake, and return the own one's. Raises Unavailable."""
        self._incoming.write(data)
        try:
            self.ssl_object.do_handshake()
            self.is_ready = True
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLError, ssl.CertificateError) as error:
            reason = getattr(error, "verify_message", "") or error.reason or error
            raise Unavailable(f"the TLS handshake failed: {reason}") from error
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        """Take records, or parts of them, and return their content. Raises Unavailable."""
        self._incoming.write(data)
        parts: list[bytes] = []
        while True:
            try:
                part = self.ssl_object.read(_CHUNK)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                part = b""
            except ssl.SSLError as error:
                raise _failure(error) from error
            if not part:
                self.has_ended = True
                break
            parts.append(part)
        return b"".join(parts)

    def encrypt(self, data: bytes) -> bytes:
        """Return records with this content. Raises Unavailable."""
        view = memoryview(data)
        try:
            while view:
                view = view[self.ssl_object.write(view) :]
        except ssl.SSLError as error:
            raise _failure(error) from error
        return self._outgoing.read()

    def take_pending(self) -> bytes:
        """Return records that TLS itself wants to send, such as alerts."""
        return self._outgoing.read()

    def close(self) -> bytes:
        """Return the last record."""
        with suppress(ssl.SSLError):  # the peer has not closed its direction, which nothing waits for
            self.ssl_object.unwrap()
        return self._outgoing.read()


def _failure(error: ssl.SSLError) -> Unavailable:
    return Unavailable(f"TLS failed: {error.reason or error}")
