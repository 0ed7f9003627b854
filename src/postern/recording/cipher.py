"""How a segment is encrypted in the blob store. Values in, values out: keys and bytes come from elsewhere.

    blob      preamble ‖ chunk 0 ‖ chunk 1 ‖ … ‖ last chunk
    preamble  "PSTN" ‖ version (1 byte, 1) ‖ data key's id (16) ‖ salt (32)
    key       HKDF-SHA-256 of the data key (RFC 5869), with the salt; info: "postern: segment" ‖ org ‖ session ‖ number
    chunk i   AES-256-GCM of 64 KiB of the segment, the last one of what is left: nonce i (11 bytes) ‖ is it the last
              one (1 byte), associated data: the preamble

The chunks are the STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizár: Online Authenticated-Encryption and its
Nonce-Reuse Misuse-Resistance, 2015). What it gives: a chunk opens only in its own place, since its number is in the
nonce; only the one that was made as the last opens as the last, so a blob that was cut between two chunks, or went on,
does not open; and each chunk opens without the others, so reading may begin anywhere.

The salt is new for each blob, so no two of them share a key, and the nonces may simply count. The segment's own name is
in the key: a blob that lies in the place of another segment, session or organisation opens nowhere. What the data key
seals directly (store.encryption) it seals by AES-GCM, never by HMAC, so the two uses do not meet.
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
TAG = 16  # bytes that a chunk is longer than what is in it
STEP = CHUNK + TAG
_PREAMBLE = struct.Struct(f"!4sB16s{SALT}s")
PREAMBLE = _PREAMBLE.size
_INFO = struct.Struct("!16s16sQ")


@dataclass(frozen=True, slots=True)
class Preamble:
    """By which data key a blob is encrypted, and its salt."""

    data_key: UUID
    salt: bytes

    def encode(self) -> bytes:
        return _PREAMBLE.pack(MAGIC, VERSION, self.data_key.bytes, self.salt)

    @classmethod
    def decode(cls, data: bytes) -> Preamble:
        """Of the first bytes of a blob. Raises Malformed."""
        if not MAGIC.startswith(data[: len(MAGIC)]):
            raise Malformed("what lies in its place is not encrypted: the gateway did not put it there")
        if len(data) < PREAMBLE:
            raise Malformed(f"it was cut: its first {PREAMBLE} bytes are not all there")
        _, version, data_key, salt = _PREAMBLE.unpack_from(data)
        if version != VERSION:
            raise Malformed(f"it is encrypted in format {version}; this version of the gateway reads {VERSION}")
        return cls(UUID(bytes=data_key), salt)


def info(org_id: UUID, session_id: UUID, number: int) -> bytes:
    """What a segment's key is bound to."""
    return b"postern: segment" + _INFO.pack(org_id.bytes, session_id.bytes, number)


class Cipher:
    """`key` has 32 bytes, and is of this preamble and one segment only."""

    def __init__(self, key: bytes, preamble: Preamble) -> None:
        self._cipher = AESGCM(key)
        self._associated = preamble.encode()

    def encrypt(self, index: int, content: bytes, *, last: bool) -> bytes:
        return self._cipher.encrypt(_nonce(index, last), content, self._associated)

    def decrypt(self, index: int, chunk: bytes, *, last: bool) -> bytes:
        """Raises Malformed."""
        try:
            return self._cipher.decrypt(_nonce(index, last), chunk, self._associated)
        except (InvalidTag, ValueError):
            raise Malformed(
                f"it cannot be decrypted from byte {offset(index)} on: it was changed, cut, or is another segment's"
            ) from None


def encrypted(key: bytes, preamble: Preamble, content: Iterable[bytes]) -> Iterator[bytes]:
    """A whole blob, in pieces of a chunk; `content` comes in pieces of any size."""
    cipher = Cipher(key, preamble)
    yield preamble.encode()
    held, index = bytearray(), 0
    for piece in content:
        held += piece
        while len(held) > CHUNK:  # what fills a chunk may yet be the last
            yield cipher.encrypt(index, bytes(held[:CHUNK]), last=False)
            del held[:CHUNK]
            index += 1
    yield cipher.encrypt(index, bytes(held), last=True)


def encrypted_size(size: int) -> int:
    """Bytes of the blob of a segment of `size` bytes."""
    return PREAMBLE + size + TAG * max(1, -(-size // CHUNK))


def count(size: int) -> int:
    """The chunks of a blob of `size` bytes. Raises Malformed when no blob has as many."""
    full, rest = divmod(size - PREAMBLE, STEP)
    # Only an empty segment has an empty chunk.
    if size < PREAMBLE + TAG or 0 < rest < TAG or (full and rest == TAG):
        raise Malformed(f"it was cut or changed: no encrypted segment has {size} bytes")
    return full + (rest > 0)


def content_size(size: int) -> int:
    """Bytes of the segment whose blob has `size` bytes. Raises Malformed."""
    return size - PREAMBLE - TAG * count(size)


def offset(index: int) -> int:
    """Where a chunk begins in its blob."""
    return PREAMBLE + index * STEP


def _nonce(index: int, last: bool) -> bytes:
    return index.to_bytes(11, "big") + bytes([last])
