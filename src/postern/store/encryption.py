"""Encryption at rest: AES-256-GCM, each value bound to the row it belongs to.

A sealed value is `version (1 byte) · nonce (12 bytes) · ciphertext and tag`. The associated data
names table and row, so that a value copied into another row does not open there.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from postern.errors import Misconfigured

_VERSION = b"\x01"
_NONCE = 12
_KEY = 32


class Encryption:
    """Seals and opens with one key. 96-bit random nonces: good for far more than a billion values."""

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        if len(key) != _KEY:
            raise Misconfigured(f"the encryption key has {len(key)} bytes instead of {_KEY}")
        self._cipher = AESGCM(key)

    @classmethod
    def from_file(cls, path: Path) -> Encryption:
        """The key in that file; made with mode 0600 when there is none. Raises Misconfigured when it is unusable."""
        return cls(_load_or_make(path))

    def seal(self, value: bytes, *, row: str) -> bytes:
        nonce = os.urandom(_NONCE)
        return _VERSION + nonce + self._cipher.encrypt(nonce, value, _VERSION + row.encode())

    def open(self, sealed: bytes, *, row: str) -> bytes:
        """Raises Misconfigured when the key is another one, or the value was changed or moved."""
        if sealed[:1] != _VERSION:
            raise Misconfigured(f"the secret of {row} has an unknown format; it was written by a newer version")
        nonce, body = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        try:
            return self._cipher.decrypt(nonce, body, _VERSION + row.encode())
        except InvalidTag:
            raise Misconfigured(
                f"the secret of {row} does not open with this encryption key; "
                "restore the keys/encryption.key that belongs to this database"
            ) from None


def _load_or_make(path: Path) -> bytes:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        _make(path)
    mode = path.stat().st_mode
    if mode & 0o077:
        raise Misconfigured(f"{path} can be read by others (mode {mode & 0o777:o}); run: chmod 600 {path}")
    key = path.read_bytes()
    if len(key) != _KEY:
        raise Misconfigured(f"{path} is not an encryption key: it has {len(key)} bytes instead of {_KEY}")
    return key


def _make(path: Path) -> None:
    """Written beside and linked into place, so that two processes at once end up with one whole key."""
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(handle, os.urandom(_KEY))
        os.fsync(handle)
    finally:
        os.close(handle)
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
