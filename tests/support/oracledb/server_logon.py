"""The server's side of O5LOGON with a 12C verifier."""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

VERIFIER_12C = 0x4815
ITERATIONS, KEY_ITERATIONS = 4096, 3
SPEEDY = b"AUTH_PBKDF2_SPEEDY_KEY"


def _cipher(key: bytes) -> Cipher[modes.CBC]:
    return Cipher(algorithms.AES(key), modes.CBC(bytes(16)))


def encrypt(key: bytes, data: bytes) -> bytes:
    encryptor = _cipher(key).encryptor()
    return encryptor.update(data) + encryptor.finalize()


def decrypt(key: bytes, data: bytes) -> bytes:
    decryptor = _cipher(key).decryptor()
    return decryptor.update(data) + decryptor.finalize()


def pad(data: bytes) -> bytes:
    missing = 16 - len(data) % 16
    return data + bytes([missing]) * missing


@dataclass
class Challenge:
    """One login. `random` makes it repeatable for recorded sessions."""

    password: bytes
    random: bytes = field(default_factory=lambda: os.urandom(96))

    def __post_init__(self) -> None:
        self.salt, self.key_salt = self.random[:16], self.random[16:32]
        self.server_key, self._filler = self.random[32:64], self.random[64:80]
        self.speedy_key = hashlib.pbkdf2_hmac("sha512", self.password, self.salt + SPEEDY, ITERATIONS)
        self.verifier = hashlib.sha512(self.speedy_key + self.salt).digest()[:32]
        self._combined = b""

    def first_reply(self) -> list[tuple[str, str, int]]:
        """Return the pairs of the first reply, each with its flags."""
        return [
            ("AUTH_SESSKEY", encrypt(self.verifier, self.server_key).hex().upper(), 0),
            ("AUTH_VFR_DATA", self.salt.hex().upper(), VERIFIER_12C),
            ("AUTH_PBKDF2_CSK_SALT", self.key_salt.hex().upper(), 0),
            ("AUTH_PBKDF2_VGEN_COUNT", str(ITERATIONS), 0),
            ("AUTH_PBKDF2_SDER_COUNT", str(KEY_ITERATIONS), 0),
            ("AUTH_GLOBALLY_UNIQUE_DBID\0", self.salt.hex().upper(), 0),
        ]

    def is_proved_by(self, pairs: dict[str, str]) -> bool:
        """Check both the password and the key of the 12C verifier that the client returns."""
        try:
            client_key = decrypt(self.verifier, bytes.fromhex(pairs["AUTH_SESSKEY"]))[:32]
            shared = (client_key + self.server_key).hex().upper().encode()
            self._combined = hashlib.pbkdf2_hmac("sha512", shared, self.key_salt, KEY_ITERATIONS)[:32]
            password = decrypt(self._combined, bytes.fromhex(pairs["AUTH_PASSWORD"]))
            speedy_key = decrypt(self._combined, bytes.fromhex(pairs["AUTH_PBKDF2_SPEEDY_KEY"]))[16:80]
        except (KeyError, ValueError):
            return False
        plain = password[16 : len(password) - password[-1]] if password else b""
        return hmac.compare_digest(plain, self.password) and hmac.compare_digest(speedy_key, self.speedy_key)

    @property
    def key(self) -> bytes:
        """The key that both sides have after the login."""
        return self._combined

    def server_proof(self) -> str:
        return encrypt(self._combined, pad(self._filler + b"SERVER_TO_CLIENT")).hex().upper()
