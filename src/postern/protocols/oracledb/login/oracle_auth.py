"""O5LOGON, the password authentication of Oracle Database, with verifiers of kind 12C, and 11G at targets.

    server ── salt, iterations, its half of the session key, encrypted by a key of the password ──▶ client
    client ── its half, encrypted alike; the password, encrypted by the session key ──▶ server
    server ── a known text, encrypted by the session key ──▶ client

    12C:  password key = PBKDF2-HMAC-SHA-512(password, salt + "AUTH_PBKDF2_SPEEDY_KEY", iterations), 64 bytes
          key          = SHA-512(password key + salt), the first 32 bytes
    11G:  key          = SHA-1(password + salt), and 4 zero bytes

The server needs the key before it has seen the password. So a credential for Oracle Database has one (`OracleVerifier`)
besides its SCRAM verifier. The key alone does not log in: the password itself is sent, and must fit the SCRAM verifier.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from postern.errors import ProtocolViolation

KIND_12C: Final = 0x4815
KINDS_11G: Final = frozenset({0xB152, 0x1B25})
ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 10_000_000
_SPEEDY: Final = b"AUTH_PBKDF2_SPEEDY_KEY"
_BLOCK: Final = 16
_HALF: Final = 32
_SERVER_TO_CLIENT: Final = b"SERVER_TO_CLIENT"
_COMBINING_ITERATIONS: Final = 3
MAX_PASSWORD: Final = 1_024


def _encrypt(key: bytes, data: bytes) -> bytes:
    # The protocol has no initialization vector.
    encryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(_BLOCK))).encryptor()
    return encryptor.update(data) + encryptor.finalize()


def _decrypt(key: bytes, data: bytes) -> bytes:
    decryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(_BLOCK))).decryptor()
    return decryptor.update(data) + decryptor.finalize()


def _pad(data: bytes) -> bytes:
    count = _BLOCK - len(data) % _BLOCK
    return data + bytes((count,)) * count


def _unpad(data: bytes) -> bytes:
    count = data[-1] if data else 0
    if not 1 <= count <= _BLOCK or data[-count:] != bytes((count,)) * count:
        raise ProtocolViolation("the client encrypted its password in an unknown form")
    return data[:-count]


def _hex(text: str, what: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ProtocolViolation(f"{what} is not hexadecimal") from None


def password_key(password: bytes, salt: bytes, iterations: int) -> bytes:
    """Return the password key of kind 12C. Takes milliseconds."""
    return hashlib.pbkdf2_hmac("sha512", password, salt + _SPEEDY, iterations, 64)


@dataclass(frozen=True, slots=True, repr=False)
class OracleVerifier:
    """The key of a password of kind 12C, and how it was made. It can be stored as 48 bytes."""

    salt: bytes
    key: bytes
    iterations: int = ITERATIONS

    @classmethod
    def make(cls, password: str) -> OracleVerifier:
        """Make the verifier of a new password. Takes milliseconds."""
        salt = secrets.token_bytes(16)
        strong = password_key(password.encode("utf-8", "surrogateescape"), salt, ITERATIONS)
        return cls(salt, hashlib.sha512(strong + salt).digest()[:32])

    @classmethod
    def decoy(cls, user: str, secret: bytes) -> OracleVerifier:
        """Return one that no password fits, the same for each call: an unknown user looks like a wrong password."""
        digest = hmac.new(secret, b"oracle:" + user.encode("utf-8", "surrogateescape"), hashlib.sha512).digest()
        return cls(digest[:16], digest[16:48])

    @classmethod
    def load(cls, data: bytes) -> OracleVerifier:
        if len(data) != 48:
            raise ValueError("a verifier for Oracle Database has 48 bytes")
        return cls(data[:16], data[16:])

    def dump(self) -> bytes:
        return self.salt + self.key

    def __repr__(self) -> str:
        return f"OracleVerifier(iterations={self.iterations})"


def _session_key(client: bytes, server: bytes, salt: bytes, iterations: int, size: int) -> bytes:
    combined = (client[:size] + server[:size]).hex().upper().encode()
    return hashlib.pbkdf2_hmac("sha512", combined, salt, iterations, size)


@dataclass(slots=True, repr=False)
class OracleServerExchange:
    """The server's side of one authentication."""

    verifier: OracleVerifier
    _half: bytes = field(default_factory=lambda: secrets.token_bytes(_HALF))
    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    _key: bytes = b""

    def challenge(self) -> list[tuple[str, str, int]]:
        """Return the pairs of the first answer, with their flags."""
        verifier = self.verifier
        return [
            ("AUTH_SESSKEY", _encrypt(verifier.key, self._half).hex().upper(), 0),
            ("AUTH_VFR_DATA", verifier.salt.hex().upper(), KIND_12C),
            ("AUTH_PBKDF2_CSK_SALT", self._salt.hex().upper(), 0),
            ("AUTH_PBKDF2_VGEN_COUNT", str(verifier.iterations), 0),
            ("AUTH_PBKDF2_SDER_COUNT", str(_COMBINING_ITERATIONS), 0),
        ]

    def open_password(self, session_key: str, password: str) -> bytes | None:
        """Return the password that the client sent, or None if it does not know the key of the verifier.

        Raises ProtocolViolation for values in an unknown form.
        """
        half = _hex(session_key, "the client's session key")
        sealed = _hex(password, "the client's password")
        if len(half) != _HALF or len(sealed) % _BLOCK or not _BLOCK < len(sealed) <= MAX_PASSWORD + 3 * _BLOCK:
            raise ProtocolViolation("the client sent a session key or a password of an unknown form")
        client = _decrypt(self.verifier.key, half)
        self._key = _session_key(client, self._half, self._salt, _COMBINING_ITERATIONS, 32)
        try:
            return _unpad(_decrypt(self._key, sealed))[_BLOCK:]
        except ProtocolViolation:
            return None

    def proof(self) -> str:
        """Return what proves to the client that the server knows its password. Call `open_password` first."""
        return _encrypt(self._key, _pad(secrets.token_bytes(_BLOCK) + _SERVER_TO_CLIENT)).hex().upper()


@dataclass(slots=True, repr=False)
class OracleClientExchange:
    """The client's side of one authentication, against a target. `values` are those of the target's first answer."""

    values: dict[str, str]
    kind: int
    password: bytes
    _key: bytes = b""

    def answer(self) -> list[tuple[str, str, int]]:
        """Return the pairs that prove the password. Takes milliseconds. Raises ProtocolViolation."""
        salt = _hex(self.values.get("AUTH_VFR_DATA", ""), "the target's salt")
        strong = b""
        if self.kind == KIND_12C:
            size = 32
            strong = password_key(self.password, salt, self._count("AUTH_PBKDF2_VGEN_COUNT", ITERATIONS))
            key = hashlib.sha512(strong + salt).digest()[:32]
        elif self.kind in KINDS_11G:
            size = 24
            key = hashlib.sha1(self.password + salt, usedforsecurity=False).digest() + bytes(4)
        else:
            raise ProtocolViolation(f"the target's account has a password verifier of the unknown kind {self.kind:#x}")
        sealed = _hex(self.values.get("AUTH_SESSKEY", ""), "the target's session key")
        if len(sealed) not in (32, 48):
            raise ProtocolViolation(f"the target sent a session key of {len(sealed)} bytes")
        server = _decrypt(key, sealed)
        client = secrets.token_bytes(len(server))
        if len(server) == 48:
            mixed = bytes([one ^ other for one, other in zip(server[16:40], client[16:40], strict=True)])
            halves = (mixed[:16], mixed[16:])
            digests = [hashlib.md5(half, usedforsecurity=False).digest() for half in halves]
            self._key = b"".join(digests)[:size]
        else:
            combining = _hex(self.values.get("AUTH_PBKDF2_CSK_SALT", ""), "the target's salt")
            count = self._count("AUTH_PBKDF2_SDER_COUNT", _COMBINING_ITERATIONS)
            self._key = _session_key(client, server, combining, count, size)
        pairs = [("AUTH_SESSKEY", _encrypt(key, client).hex().upper(), 1)]
        if strong:
            speedy = _encrypt(self._key, secrets.token_bytes(_BLOCK) + strong)
            pairs.append(("AUTH_PBKDF2_SPEEDY_KEY", speedy.hex().upper(), 0))
        password = _encrypt(self._key, _pad(secrets.token_bytes(_BLOCK) + self.password))
        pairs.append(("AUTH_PASSWORD", password.hex().upper(), 0))
        return pairs

    @property
    def session_key(self) -> bytes:
        """Return the key that both sides have after `answer`."""
        return self._key

    def is_proved(self, response: str) -> bool:
        """Return whether the target has proved that it knows the password."""
        data = _hex(response, "the target's proof")
        if len(data) < 32 or len(data) % _BLOCK:
            return False
        return hmac.compare_digest(_decrypt(self._key, data)[_BLOCK : 2 * _BLOCK], _SERVER_TO_CLIENT)

    def _count(self, name: str, default: int) -> int:
        text = self.values.get(name, "")
        count = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
        if not 0 < count <= MAX_ITERATIONS:
            raise ProtocolViolation(f"the target asks for {count} iterations of its password verifier")
        return count
