"""The interface to one side of TLS in memory, for protocols that carry its handshake in messages of their own, as TDS 7
does (MS-TDS 2.2.6.5). `relay/memory_tls.py` implements it."""

from __future__ import annotations

from typing import Final, Protocol

from postern.errors import Unavailable
from postern.protocols.stream_cipher import StreamCipher

RECORD_HEAD: Final = 5  # type, version, Int16 length
MAX_RECORD: Final = 16 * 1024 + 2048
_CONTENT_TYPES: Final = range(0x14, 0x18)


class TlsCipher(StreamCipher, Protocol):
    """One side of TLS after its handshake."""


def record_size(head: bytes) -> int:
    """Return the size of the record with this head, without it. Raises Unavailable if it is not one of TLS."""
    size = int.from_bytes(head[3:5], "big")
    if head[0] not in _CONTENT_TYPES or head[1] != 3 or size > MAX_RECORD:
        raise Unavailable("the peer sent something else than a record of TLS")
    return size
