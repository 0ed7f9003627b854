"""Check digits of official identifiers and bank numbers. All functions take digits (or letters) only, as bytes."""

from __future__ import annotations

from collections.abc import Sequence

_ZERO = ord("0")
_VERHOEFF_PRODUCT = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_VERHOEFF_PLACE = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
)  # fmt: skip


def weighted_sum(digits: bytes, weights: Sequence[int]) -> int:
    """Return the sum of each digit times the weight at its position."""
    return sum((digit - _ZERO) * weight for digit, weight in zip(digits, weights, strict=False))


def verhoeff(digits: bytes) -> bool:
    """Return whether the last digit is a valid dihedral check digit."""
    check = 0
    for place, digit in enumerate(reversed(digits)):
        moved = int(_VERHOEFF_PLACE[place % 8][digit - _ZERO])
        check = int(_VERHOEFF_PRODUCT[check][moved])
    return check == 0


def mod_11_10(digits: bytes) -> bool:
    """Return whether the last digit is a valid check digit by ISO 7064, mod 11,10."""
    product = 10
    for digit in digits[:-1]:
        total = (digit - _ZERO + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == digits[-1] - _ZERO


def two_digits_mod_11(digits: bytes, count: int) -> bool:
    """Return whether the last two of `count` digits are valid, as Brazil computes them: weights rise from the right,
    from 2 up to 9 or more.
    """
    highest = 9 if count == 14 else count
    for length in (count - 2, count - 1):
        weights = [2 + (length - 1 - place) % (highest - 1) for place in range(length)]
        rest = weighted_sum(digits[:length], weights) % 11
        if digits[length] - _ZERO != (0 if rest < 2 else 11 - rest):
            return False
    return True


def is_day(year: int, month: int, day: int) -> bool:
    """Return whether the date exists in some century; February has 29 days in years divisible by 4."""
    if not 1 <= month <= 12 or day < 1:
        return False
    if month == 2:
        return day <= (29 if year % 4 == 0 else 28)
    return day <= (30 if month in (4, 6, 9, 11) else 31)


def all_same(digits: bytes) -> bool:
    return digits.count(digits[:1]) == len(digits)
