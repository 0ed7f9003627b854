"""Master keys of 32 random bytes: in a file, or in an environment variable."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import MutableMapping
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from postern.errors import Misconfigured

KEY = 32  # bytes
_NONCE = 12


class LocalMaster:
    """AES-256-GCM with a key derived from `key` (HKDF, RFC 5869), so that other uses of `key` do not conflict.

    Its id is a digest of the key, so the key can move from a file to the environment and stays the same.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY:
            raise Misconfigured(f"the master key has {len(key)} bytes instead of {KEY}")
        self._cipher = AESGCM(HKDF(SHA256(), KEY, salt=None, info=b"postern: wraps data keys").derive(key))
        # 256 random bits cannot be guessed from a digest of them.
        self._id = f"local:{hashlib.sha256(b'postern: names the master key' + key).hexdigest()[:16]}"

    @property
    def id(self) -> str:
        return self._id

    def wrap(self, key: bytes, context: str) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, key, context.encode())

    def unwrap(self, wrapped: bytes, context: str) -> bytes:
        try:
            return self._cipher.decrypt(wrapped[:_NONCE], wrapped[_NONCE:], context.encode())
        except (InvalidTag, ValueError):
            raise Misconfigured(
                f"{context} cannot be decrypted with this master key; restore the master key of this database"
            ) from None


def file_key(path: Path) -> bytes:
    """Return the key in that file. Raises Misconfigured when there is none, others can read it, or it has a wrong
    size."""
    try:
        status = path.stat()
        mode = status.st_mode
        if mode & _closed_to_others(status):
            raise Misconfigured(f"other users can read {path} (mode {mode & 0o777:o}); run: chmod 600 {path}")
        key = path.read_bytes()
    except FileNotFoundError:
        raise Misconfigured(f"there is no key at {path}; restore it, or see docs/how-to/encryption-keys.md") from None
    except OSError as error:
        raise Misconfigured(f"the key at {path} cannot be read: {error.strerror}") from None
    if len(key) != KEY:
        raise Misconfigured(f"{path} is not an encryption key: it has {len(key)} bytes instead of {KEY}")
    return key


def _closed_to_others(status: os.stat_result) -> int:
    """Return the bits of the mode that must not be set. systemd and Kubernetes provide secrets as files of root that
    the service's group reads, so that the service cannot change them."""
    return 0o037 if status.st_uid == 0 != os.geteuid() else 0o077


def make_file_key(path: Path) -> None:
    """Create a key where there is none. Written beside and linked, so that concurrent processes end up with one
    whole key; on disk before its first use."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(handle, os.urandom(KEY))
        os.fsync(handle)
    finally:
        os.close(handle)
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def environment_key(environ: MutableMapping[str, str], name: str) -> bytes:
    """Return the key in that variable, as base64. The variable is removed, so that child processes do not inherit it.

    Raises Misconfigured, without the value.
    """
    text = environ.pop(name, "")
    if not text:
        raise Misconfigured(f"the environment variable {name} is empty; set it to a master key: {KEY} bytes in base64")
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise Misconfigured(f"the environment variable {name} is not base64; set it to {KEY} bytes in base64") from None
    if len(key) != KEY:
        raise Misconfigured(f"the environment variable {name} has {len(key)} bytes instead of {KEY}")
    return key
