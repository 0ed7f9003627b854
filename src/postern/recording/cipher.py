"""Encryption of a segment in the blob store. Pure functions: keys and bytes come from elsewhere.

    blob      preamble ‖ chunk 0 ‖ chunk 1 ‖ … ‖ last chunk
    preamble  "PSTN" ‖ version (1 byte, 1) ‖ data key's id (16) ‖ salt (32)
    key       HKDF-SHA-256 of the data key (RFC 5869), with the salt; info: "postern: segment" ‖ org ‖ session ‖ number
    chunk i   AES-256-GCM of 64 KiB of the segment (the last one: of the rest): nonce i (11 bytes) ‖ 1 for the last
              chunk, else 0 (1 byte), associated data: the preamble

The chunks follow the STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizár: Online Authenticated-Encryption and its
Nonce-Reuse Misuse-Resistance, 2015). It has three properties. A chunk decrypts only at its own index, because its
number is in the nonce. Only the chunk that was written as the last decrypts as the last, so that a truncated or
extended blob is detected. Each chunk decrypts independently, so that reading can start anywhere.

The salt is new for each blob. No two blobs share a key, and nonces can simply count. The segment's identity is part of
the key, so that a blob in place of another segment, session or organisation does not decrypt. The data key itself is
used directly only with AES-GCM (store.encryption), and here only with HMAC, so the two uses do not interfere.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from postern.errors import Malformed

MAGIC, VERSION = b"PSTN", 1
SALT = 32  # bytes
CHUNK = 64 * 1024  # bytes of the segment in each chunk
TAG = 16  # bytes that encryption adds to a chunk
STEP = CHUNK + TAG
_PREAMBLE = struct.Struct(f"!4sB16s{SALT}s")
PREAMBLE = _PREAMBLE.size
_INFO = struct.Struct("!16s16sQ")


@dataclass(frozen=True, slots=True)
class Preamble:
    """First bytes of a blob: the data key that encrypts it, and its salt."""

    data_key: UUID
    salt: bytes

    def encode(self) -> bytes:
        return _PREAMBLE.pack(MAGIC, VERSION, self.data_key.bytes, self.salt)

    @classmethod
    def decode(cls, data: bytes) -> Preamble:
        """Parse the first bytes of a blob. Raises Malformed."""
        if not MAGIC.startswith(data[: len(MAGIC)]):
            raise Malformed("the stored file is not encrypted: the gateway did not write it")
        if len(data) < PREAMBLE:
            raise Malformed(f"it was cut: its first {PREAMBLE} bytes are not complete")
        _, version, data_key, salt = _PREAMBLE.unpack_from(data)
        if version != VERSION:
            raise Malformed(f"it is encrypted in format {version}; this version of the gateway reads {VERSION}")
        return cls(UUID(bytes=data_key), salt)


def key_info(org_id: UUID, session_id: UUID, number: int) -> bytes:
    """Return what a segment's key is bound to."""
    return b"postern: segment" + _INFO.pack(org_id.bytes, session_id.bytes, number)


class Cipher:
    """Cipher of one segment. `key` has 32 bytes, and is derived for this preamble and segment."""

    def __init__(self, key: bytes, preamble: Preamble) -> None:
        self._cipher = AESGCM(key)
        self._associated = preamble.encode()

    def encrypt(self, index: int, content: bytes, *, last: bool) -> bytes:
        return self._cipher.encrypt(_nonce(index, last), content, self._associated)

    def decrypt(self, index: int, chunk: bytes, *, last: bool) -> bytes:
        """Decrypt a chunk. Raises Malformed."""
        try:
            return self._cipher.decrypt(_nonce(index, last), chunk, self._associated)
        except (InvalidTag, ValueError):
            raise Malformed(
                f"it cannot be decrypted from byte {offset(index)} on: it was changed or cut, or is another segment"
            ) from None


def encrypt_blob(key: bytes, preamble: Preamble, content: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a whole blob, chunk by chunk. `content` comes in pieces of any size."""
    cipher = Cipher(key, preamble)
    yield preamble.encode()
    data, index = bytearray(), 0
    for piece in content:
        data += piece
        while len(data) > CHUNK:  # a full chunk can be the last
            yield cipher.encrypt(index, bytes(data[:CHUNK]), last=False)
            del data[:CHUNK]
            index += 1
    yield cipher.encrypt(index, bytes(data), last=True)


def encrypted_size(size: int) -> int:
    """Return the size of the blob for a segment of `size` bytes."""
    return PREAMBLE + size + TAG * max(1, -(-size // CHUNK))


def count_chunks(size: int) -> int:
    """Return the number of chunks in a blob of `size` bytes. Raises Malformed if no blob has that size."""
    full, rest = divmod(size - PREAMBLE, STEP)
    # Only an empty segment has an empty chunk.
    if size < PREAMBLE + TAG or 0 < rest < TAG or (full and rest == TAG):
        raise Malformed(f"it was cut or changed: no encrypted segment has {size} bytes")
    return full + (rest > 0)


def content_size(size: int) -> int:
    """Return the size of the segment in a blob of `size` bytes. Raises Malformed."""
    return size - PREAMBLE - TAG * count_chunks(size)


def offset(index: int) -> int:
    """Return the offset of a chunk in its blob."""
    return PREAMBLE + index * STEP


def _nonce(index: int, last: bool) -> bytes:
    return index.to_bytes(11, "big") + bytes([last])
