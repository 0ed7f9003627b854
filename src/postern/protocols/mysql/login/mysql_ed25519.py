"""Ed25519 signatures with a key of any length (RFC 8032, section 5.1), for MariaDB's plug-in `client_ed25519`.

There the secret key is the password itself: where RFC 8032 hashes 32 random bytes with SHA-512, MariaDB hashes the
password. Libraries accept keys of 32 bytes only, so this module implements the arithmetic of section 5.1, on the
curve's points in extended coordinates. It is slow (some milliseconds). Its running time depends on a secret only
through the sizes of numbers, and it signs one login at a time.
"""

from __future__ import annotations

import hashlib
from typing import Final

_P: Final = 2**255 - 19
_L: Final = 2**252 + 27742317777372353535851937790883648493  # the order of the base point
_D: Final = -121665 * pow(121666, -1, _P) % _P

SIGNATURE: Final = 64  # bytes
NONCE: Final = 32  # what a MariaDB server lets clients sign, in bytes

# X, Y, Z, T with x = X/Z, y = Y/Z, x*y = T/Z
_Point = tuple[int, int, int, int]

_ZERO: Final[_Point] = (0, 1, 1, 0)
_BASE_Y: Final = 4 * pow(5, -1, _P) % _P
_BASE_X: Final = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_BASE: Final[_Point] = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)


def _add(point: _Point, other: _Point) -> _Point:
    a = (point[1] - point[0]) * (other[1] - other[0]) % _P
    b = (point[1] + point[0]) * (other[1] + other[0]) % _P
    c = 2 * point[3] * other[3] * _D % _P
    d = 2 * point[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(scalar: int) -> _Point:
    """Return the base point times `scalar`. Every bit costs the same two additions."""
    total, doubled = _ZERO, _BASE
    for bit in range(256):
        added = _add(total, doubled)
        total = added if scalar >> bit & 1 else total
        doubled = _add(doubled, doubled)
    return total


def _encode_point(point: _Point) -> bytes:
    inverse = pow(point[2], -1, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _number(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def _scalar(digest: bytes) -> int:
    """Return the secret scalar: some bits of the first half are set, others cleared (section 5.1.5)."""
    return int.from_bytes(digest[:32], "little") & ~(1 << 255) & ~7 | 1 << 254


def public_key(password: bytes) -> bytes:
    return _encode_point(_times(_scalar(hashlib.sha512(password).digest())))


def sign(password: bytes, message: bytes) -> bytes:
    """Return the signature of 64 bytes, R and S (section 5.1.6)."""
    digest = hashlib.sha512(password).digest()
    scalar = _scalar(digest)
    public = _encode_point(_times(scalar))
    r = _number(digest[32:], message) % _L
    commitment = _encode_point(_times(r))
    k = _number(commitment, public, message) % _L
    return commitment + ((r + k * scalar) % _L).to_bytes(32, "little")
