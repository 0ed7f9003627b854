"""The computations of the authentication plug-ins (MySQL source documentation, "Authentication Methods").

plug-in                 sent over the wire
mysql_native_password   SHA1(password) XOR SHA1(salt + SHA1(SHA1(password)))
caching_sha2_password   SHA256(password) XOR SHA256(SHA256(SHA256(password)) + salt); if the server has no digest
                        in its cache, the password itself: under TLS, or encrypted for the server's RSA key
client_ed25519          a signature of the salt, see `mysql_ed25519`
mysql_clear_password    the password, under TLS only
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from typing import Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret
from postern.errors import ProtocolViolation, Unavailable
from postern.protocols.mysql.login.mysql_greetings import SALT

NATIVE: Final = "mysql_native_password"
CACHING: Final = "caching_sha2_password"
ED25519: Final = "client_ed25519"
CLEAR: Final = "mysql_clear_password"

# Messages of the server in an AuthMoreData of caching_sha2_password, and a client's request.
FAST_OK: Final = b"\x03"
FULL: Final = b"\x04"
WANTS_KEY: Final = b"\x02"

# The longest accepted password, in bytes: more than any server stores.
MAX_PASSWORD: Final = 512
_KEY_BITS: Final = 2048
# A target's key: large ones cost time, small ones are insecure.
_MIN_BITS, _MAX_BITS = 2048, 8192
_MOST: Final = 4096  # credentials in a cache
# Bytes at which old clients truncate a salt, or that separate fields.
_NOT_IN_SALTS: Final = b"\0$"


def new_salt() -> bytes:
    """Return a salt of printable characters, as servers send it: old clients read it as a zero-terminated string."""
    data = bytearray()
    while len(data) < SALT:
        data += bytes([byte & 0x7F for byte in secrets.token_bytes(SALT) if byte & 0x7F not in _NOT_IN_SALTS])
    return bytes(data[:SALT])


def _xor(data: bytes, other: bytes) -> bytes:
    return bytes([a ^ b for a, b in zip(data, other, strict=True)])


def native(password: bytes, salt: bytes) -> bytes:
    """Return the response; empty for an empty password."""
    if not password:
        return b""
    first = hashlib.sha1(password, usedforsecurity=False).digest()
    second = hashlib.sha1(first, usedforsecurity=False).digest()
    return _xor(first, hashlib.sha1(salt[:SALT] + second, usedforsecurity=False).digest())


def caching(password: bytes, salt: bytes) -> bytes:
    """Return the response; empty for an empty password."""
    if not password:
        return b""
    first = hashlib.sha256(password).digest()
    return _xor(first, hashlib.sha256(hashlib.sha256(first).digest() + salt[:SALT]).digest())


def double(password: bytes) -> bytes:
    """Return the value that is stored to verify `caching`. It does not allow a login."""
    return hashlib.sha256(hashlib.sha256(password).digest()).digest()


def proves(proof: bytes, salt: bytes, digest: bytes) -> bool:
    """Return True if `proof` was made by `caching` from the password whose `double` is `digest`."""
    if len(proof) != len(digest):
        return False
    first = _xor(proof, hashlib.sha256(digest + salt[:SALT]).digest())
    return hmac.compare_digest(hashlib.sha256(first).digest(), digest)


def _xor_with_salt(text: bytes, salt: bytes) -> bytes:
    """XOR the text with the repeated salt."""
    return bytes([byte ^ salt[at % len(salt)] for at, byte in enumerate(text)])


_OAEP: Final = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)  # noqa: S303


def encrypt_password(password: bytes, salt: bytes, pem: bytes) -> bytes:
    """Encrypt the password with the RSA key. Raises ProtocolViolation, and Unavailable for a weak key."""
    try:
        key = serialization.load_pem_public_key(pem)
    except ValueError as error:
        raise ProtocolViolation("the target sent a public key that cannot be read") from error
    if not isinstance(key, rsa.RSAPublicKey):
        raise ProtocolViolation("the target sent a public key that is not an RSA key")
    if not _MIN_BITS <= key.key_size <= _MAX_BITS:
        raise Unavailable(
            f"the target's RSA key has {key.key_size} bits, but only {_MIN_BITS} to {_MAX_BITS} are accepted; "
            "replace the key, or enable TLS at the target"
        )
    plain = _xor_with_salt(password + b"\0", salt[:SALT])
    if len(plain) > key.key_size // 8 - 42:  # the maximum of OAEP with SHA-1
        raise Unavailable("the password is too long for the target's RSA key; enable TLS at the target")
    return key.encrypt(plain, _OAEP)


class ExchangeKey:
    """The RSA key with which clients without TLS encrypt their password. Creating it takes a fraction of a second."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        self.size = _KEY_BITS // 8
        self.pem = self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def open(self, data: bytes, salt: bytes) -> bytes | None:
        """Decrypt the password with its NUL; None if it was not encrypted for this key."""
        try:
            return _xor_with_salt(self._key.decrypt(data, _OAEP), salt[:SALT])
        except ValueError:
            return None


class PasswordDigests:
    """Digests of the passwords that were seen, for `proves`. In memory only; the least recently used are dropped first.

    An entry belongs to a stored verifier: with another password, or without its credential, it is never used again.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[bytes, bytes], bytes] = OrderedDict()

    def find(self, verifier: Verifier) -> bytes | None:
        name = (verifier.salt, verifier.stored_key)
        data = self._kept.get(name)
        if data is not None:
            self._kept.move_to_end(name)
        return data

    def keep(self, verifier: Verifier, password: Secret) -> None:
        self._kept[verifier.salt, verifier.stored_key] = double(password.reveal().encode("utf-8", "surrogateescape"))
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)
