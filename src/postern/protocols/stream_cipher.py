"""The interface of what encrypts a stream whose handshake is in messages of another protocol.

What is above it reads and writes clear text; `relay/cipher_transport.py` puts it there.
"""

from __future__ import annotations

from typing import Any, Protocol


class StreamCipher(Protocol):
    """One side of an encrypted stream after its handshake."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes from the peer."""

    @property
    def ssl_object(self) -> Any:
        """The object of TLS, None for other ciphers."""

    def decrypt(self, data: bytes) -> bytes:
        """Take what the peer sent, or parts of it, and return its content. Raises Unavailable."""

    def encrypt(self, data: bytes) -> bytes:
        """Return what has this content, for the peer. Raises Unavailable."""

    def take_pending(self) -> bytes:
        """Return what the cipher itself wants to send."""

    def close(self) -> bytes:
        """Return the last bytes for the peer."""
