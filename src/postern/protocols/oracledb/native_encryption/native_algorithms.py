"""The algorithms of native network encryption, by the numbers that the protocol gives them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NONE: Final = 0
AES128, AES192, AES256 = 15, 16, 17
SHA512, SHA256, SHA384 = 4, 5, 6

ENCRYPTION_NAMES: Final[Mapping[int, str]] = {
    NONE: "none",
    1: "RC4_40",
    2: "DES",
    3: "DES40",
    6: "RC4_256",
    8: "RC4_56",
    10: "RC4_128",
    11: "3DES112",
    12: "3DES168",
    AES128: "AES128",
    AES192: "AES192",
    AES256: "AES256",
}
CHECKSUM_NAMES: Final[Mapping[int, str]] = {
    NONE: "none",
    1: "MD5",
    3: "SHA1",
    SHA512: "SHA512",
    SHA256: "SHA256",
    SHA384: "SHA384",
}

# The algorithms that Postern uses. All others are broken or weak, and no version of a target needs them.
KEY_SIZES: Final[Mapping[int, int]] = {AES256: 32, AES192: 24, AES128: 16}
HASHES: Final[Mapping[int, Callable[[bytes], hashlib._Hash]]] = {
    SHA256: hashlib.sha256,
    SHA384: hashlib.sha384,
    SHA512: hashlib.sha512,
}


class NativeMode(StrEnum):
    """How native encryption is used at a target, as the connection's NATIVE_ENCRYPTION says.

    PREFER asks for it and does without it where the target has none. REQUIRE needs encryption, checksums, and the key
    derivation of July 2021. DISABLE does not negotiate.
    """

    PREFER = "prefer"
    REQUIRE = "require"
    DISABLE = "disable"


def offer(numbers: Sequence[int], mode: NativeMode) -> bytes:
    """Return what the client offers for a service. The place of NONE is the client's level: at the end it stands for
    REQUESTED, and without it for REQUIRED."""
    return bytes(numbers) if mode is NativeMode.REQUIRE else bytes((*numbers, NONE))


@dataclass(frozen=True, slots=True)
class NativeChoice:
    """What both sides use. *Renewed* is the key derivation since July 2021, see native_keys.py."""

    encryption: int
    checksum: int
    renewed_encryption: bool
    renewed_checksum: bool

    @property
    def is_clear(self) -> bool:
        return self.encryption == NONE and self.checksum == NONE
