"""What the authentication plug-ins compute (MySQL source documentation, "Authentication Methods").

plug-in                 what goes over the wire
mysql_native_password   SHA1(password) XOR SHA1(salt + SHA1(SHA1(password)))
caching_sha2_password   SHA256(password) XOR SHA256(SHA256(SHA256(password)) + salt); where the server has no digest
                        in its cache, the password itself: under TLS, or encrypted for the server's RSA key
client_ed25519          a signature of the salt, see `ed25519`
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

# What the server says in an AuthMoreData of caching_sha2_password, and what a client asks for
FAST_OK: Final = b"\x03"
FULL: Final = b"\x04"
WANTS_KEY: Final = b"\x02"

# The longest password that is taken, in bytes: more than any server stores.
MAX_PASSWORD: Final = 512
_KEY_BITS: Final = 2048
# A target's key: large ones cost time, small ones nothing but secrecy.
_MIN_BITS, _MAX_BITS = 2048, 8192
_MOST: Final = 4096  # credentials in a cache
# Bytes that clients of old cut a salt at, or that stand between fields.
_NOT_IN_SALTS: Final = b"\0$"


def new_salt() -> bytes:
    """Of characters, as servers send it: clients have read it as a zero-terminated string."""
    found = bytearray()
    while len(found) < SALT:
        found += bytes([byte & 0x7F for byte in secrets.token_bytes(SALT) if byte & 0x7F not in _NOT_IN_SALTS])
    return bytes(found[:SALT])


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes([a ^ b for a, b in zip(one, other, strict=True)])


def native(password: bytes, salt: bytes) -> bytes:
    """Empty for an empty password."""
    if not password:
        return b""
    first = hashlib.sha1(password, usedforsecurity=False).digest()
    second = hashlib.sha1(first, usedforsecurity=False).digest()
    return _xor(first, hashlib.sha1(salt[:SALT] + second, usedforsecurity=False).digest())


def caching(password: bytes, salt: bytes) -> bytes:
    """Empty for an empty password."""
    if not password:
        return b""
    first = hashlib.sha256(password).digest()
    return _xor(first, hashlib.sha256(hashlib.sha256(first).digest() + salt[:SALT]).digest())


def double(password: bytes) -> bytes:
    """What is kept to check `caching` by: nobody can log in with it."""
    return hashlib.sha256(hashlib.sha256(password).digest()).digest()


def proves(proof: bytes, salt: bytes, kept: bytes) -> bool:
    """Whether `proof` was made by `caching` of the password whose `double` is kept."""
    if len(proof) != len(kept):
        return False
    first = _xor(proof, hashlib.sha256(kept + salt[:SALT]).digest())
    return hmac.compare_digest(hashlib.sha256(first).digest(), kept)


def _masked(text: bytes, salt: bytes) -> bytes:
    """XOR with the salt, over and over."""
    return bytes([byte ^ salt[at % len(salt)] for at, byte in enumerate(text)])


_OAEP: Final = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)  # noqa: S303


def sealed(password: bytes, salt: bytes, pem: bytes) -> bytes:
    """The password for the owner of that RSA key. Raises ProtocolViolation, and Unavailable for a key that is weak."""
    try:
        key = serialization.load_pem_public_key(pem)
    except ValueError as error:
        raise ProtocolViolation("the target sent a public key that cannot be read") from error
    if not isinstance(key, rsa.RSAPublicKey):
        raise ProtocolViolation("the target sent a public key that is none of RSA")
    if not _MIN_BITS <= key.key_size <= _MAX_BITS:
        raise Unavailable(
            f"the target's RSA key has {key.key_size} bits, and only {_MIN_BITS} to {_MAX_BITS} are taken; "
            "give it another one, or enable TLS there"
        )
    plain = _masked(password + b"\0", salt[:SALT])
    if len(plain) > key.key_size // 8 - 42:  # what OAEP with SHA-1 takes of it
        raise Unavailable("the password is too long for the target's RSA key; enable TLS at the target")
    return key.encrypt(plain, _OAEP)


class ExchangeKey:
    """The RSA key by which clients without TLS send their password. Making one takes a fraction of a second."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        self.size = _KEY_BITS // 8
        self.pem = self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def open(self, data: bytes, salt: bytes) -> bytes | None:
        """The password with its NUL; None for what was not encrypted for this key."""
        try:
            return _masked(self._key.decrypt(data, _OAEP), salt[:SALT])
        except ValueError:
            return None


class Digests:
    """What `proves` needs of the passwords that have been seen, in memory only, the least used ones forgotten first.

    An entry belongs to what is stored of a password: with another password, or once its credential is gone, nobody asks
    for it any more.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[bytes, bytes], bytes] = OrderedDict()

    def find(self, verifier: Verifier) -> bytes | None:
        name = (verifier.salt, verifier.stored_key)
        found = self._kept.get(name)
        if found is not None:
            self._kept.move_to_end(name)
        return found

    def keep(self, verifier: Verifier, password: Secret) -> None:
        self._kept[verifier.salt, verifier.stored_key] = double(password.reveal().encode("utf-8", "surrogateescape"))
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)
