"""The key agreement of native encryption, and what is derived from its secret.

    secret    the shared number of Diffie-Hellman, in as many bytes as the group's prime has
    AES       key: the first bytes of the secret   vector: zeros; renewed: bytes 32 to 47 of the secret
    checksums key: 5 bytes of the secret, renewed: 15   vector: sent by the target; renewed: that of AES

*Renewed* is the derivation since July 2021 (CVE-2021-2351). Both mix the key of the login into the secret, and into the
vector if it is from there, once the login is done. As that key depends on the password, someone between both sides who
has agreed on a secret with each of them cannot read what follows. The agreement itself proves neither side.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import Final

from postern.errors import ProtocolViolation, Unavailable

# In bits. The targets that Postern supports have 2048; what is below MIN can be broken.
STRONG_GROUP: Final = 2048
MIN_GROUP: Final = 1024
MAX_GROUP: Final = 8192
VECTOR: Final = 16
_DERIVED: Final = slice(32, 64)
_PRIVATE: Final = 64  # bytes of the own exponent: twice the strength of a group of 8192 bits, and more


@dataclass(frozen=True, slots=True)
class NativeGroup:
    """A group of Diffie-Hellman with the target's public value, and the vector for checksums. `announced` is the size
    of the prime, in bits."""

    announced: int
    generator: bytes = field(repr=False)
    prime: bytes = field(repr=False)
    public: bytes = field(repr=False)
    vector: bytes = field(repr=False)

    @property
    def bits(self) -> int:
        return int.from_bytes(self.prime, "big").bit_length()

    def check(self) -> None:
        """Raise ProtocolViolation or Unavailable if it cannot be used."""
        size = (self.announced + 7) // 8
        prime = int.from_bytes(self.prime, "big")
        if len(self.prime) != size or len(self.public) != size or not prime & 1:
            raise ProtocolViolation("the target's group for native encryption contradicts its sizes")
        if self.bits < MIN_GROUP:
            raise Unavailable(
                f"the target agrees on keys of native encryption in a group of {self.bits} bits, which is too weak; "
                "upgrade the target, or use TLS (TCPS)"
            )
        if self.bits > MAX_GROUP:
            raise ProtocolViolation(f"the target's group for native encryption has {self.bits} bits")
        for name, content in (("generator", self.generator), ("public value", self.public)):
            if not 1 < int.from_bytes(content, "big") < prime - 1:
                raise ProtocolViolation(f"the target's {name} for native encryption is outside of its group")


@dataclass(frozen=True, slots=True)
class NativeKeys:
    """The secret of a connection. `vector` is used by the derivation that is not renewed."""

    secret: bytes = field(repr=False)
    vector: bytes = field(repr=False)
    derived: bytes = field(repr=False)  # the vector of the renewed derivation

    @classmethod
    def of(cls, secret: bytes, vector: bytes) -> NativeKeys:
        return cls(secret, vector, secret[_DERIVED])

    def fold(self, login_key: bytes) -> NativeKeys:
        """Return the keys with that of the login mixed in."""
        return replace(self, secret=_mix(self.secret, login_key), derived=_mix(self.derived, login_key))

    def cipher_key(self, size: int) -> bytes:
        return self.secret[:size]

    def cipher_vector(self, *, renewed: bool) -> bytes:
        return self.derived[:VECTOR] if renewed else bytes(VECTOR)

    def checksum_vector(self, *, renewed: bool) -> bytes:
        return (self.derived if renewed else self.vector)[:VECTOR]


def _mix(one: bytes, other: bytes) -> bytes:
    size = min(len(one), len(other))
    mixed = int.from_bytes(one[:size], "big") ^ int.from_bytes(other[:size], "big")
    return mixed.to_bytes(size, "big") + one[size:]


def agree(group: NativeGroup) -> tuple[bytes, NativeKeys]:
    """Return the own public value and the keys. Takes milliseconds. Raises ProtocolViolation and Unavailable.

    The exponent is used once, so that its time shows nothing that is worth to know.
    """
    group.check()
    prime, size = int.from_bytes(group.prime, "big"), len(group.prime)
    private = int.from_bytes(secrets.token_bytes(_PRIVATE), "big") | 1
    public = pow(int.from_bytes(group.generator, "big"), private, prime)
    secret = pow(int.from_bytes(group.public, "big"), private, prime)
    return public.to_bytes(size, "big"), NativeKeys.of(secret.to_bytes(size, "big"), group.vector)
