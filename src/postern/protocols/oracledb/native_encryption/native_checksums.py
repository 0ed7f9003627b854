"""Checksums of native encryption: a hash of a packet's content and the next block of a keystream.

    generator ─▶ key and vector of a stream, anew for each reset of the session
    stream    ─▶ a block for each packet; both directions have streams of their own, by a mark in the key

Both are AES in CBC mode that encrypts its own output again and again. The block shows a packet that was changed, left
out, repeated or put in another order.
"""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from postern.protocols.oracledb.native_encryption.native_algorithms import HASHES
from postern.protocols.oracledb.native_encryption.native_keys import NativeKeys

FROM_CLIENT: Final = 90
FROM_TARGET: Final = 180
_KEY: Final = 16
_OLD_KEY, _RENEWED_KEY = 5, 15  # bytes of the secret in the key of the generator
_FIRST_MARK: Final = 0xFF


class ChecksumStream:
    """The checksums of one direction."""

    def __init__(self, algorithm: int, keys: NativeKeys, mark: int, *, renewed: bool) -> None:
        self._hash = HASHES[algorithm]
        self.size = self._hash(b"").digest_size
        self._mark_at = _RENEWED_KEY if renewed else _OLD_KEY
        self._mark = mark
        key = keys.secret[: self._mark_at].ljust(_KEY, b"\0")
        self._seed = bytes(2 * _KEY)
        self._generator = _encryptor(_set_mark(key, self._mark_at, _FIRST_MARK), keys.checksum_vector(renewed=renewed))
        self._block = bytes(self.size)
        self.restart()

    def restart(self) -> None:
        """Begin the next stream, as both sides do with a reset. It encrypts the last block of the one before."""
        self._seed = self._generator.update(self._seed)
        key, vector = self._seed[:_KEY], self._seed[_KEY:]
        self._generator = _encryptor(key, vector)
        self._stream = _encryptor(_set_mark(key, self._mark_at, self._mark), vector)

    def next_checksum(self, content: bytes) -> bytes:
        """Return the checksum of the next packet with this content."""
        self._block = self._stream.update(self._block)
        checksum = self._hash(content)
        checksum.update(self._block)
        return checksum.digest()


def _set_mark(key: bytes, place: int, mark: int) -> bytes:
    return key[:place] + bytes((mark,)) + key[place + 1 :]


def _encryptor(key: bytes, vector: bytes) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
