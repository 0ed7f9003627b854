"""Payment cards: an issuer's prefix with one of its lengths, and a valid check digit (ISO/IEC 7812, Luhn)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import (
    EDGE,
    EDGE_BEHIND,
    NOT_BEFORE_WORD,
    Detector,
    Whole,
    judged_form,
    starts_with,
)

MASK = b"************"

# Prefixes and their lengths.
_ISSUERS = (
    (r"4", (13, 16, 19)),  # Visa
    (r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720", (16,)),  # Mastercard
    (r"3[47]", (15,)),  # American Express
    (r"6011|64[4-9]|65", (16, 17, 18, 19)),  # Discover
    (r"30[0-5]|3095|36|3[89]", (14, 15, 16, 17, 18, 19)),  # Diners Club
    (r"352[89]|35[3-8]", (16, 17, 18, 19)),  # JCB
    (r"62|81", (16, 17, 18, 19)),  # UnionPay
    (r"220[0-4]", (16, 17, 18, 19)),  # Mir
    (r"60|65|82|508", (16,)),  # RuPay
    (r"5018|5020|5038|5893|6304|6759|676[1-3]", (12, 13, 14, 15, 16, 17, 18, 19)),  # Maestro
)
_ISSUED = re.compile(
    "|".join(
        rf"(?={prefix})(?:{'|'.join(f'[0-9]{{{length}}}' for length in lengths)})" for prefix, lengths in _ISSUERS
    ).encode()
)
_CLASS = re.compile(r"\[[^]]*]")  # represents one digit of a prefix
_WHOLE = "|".join(
    f"{prefix}[0-9]{{{length - len(_CLASS.sub('x', prefix))}}}"
    for prefixes, lengths in _ISSUERS
    for prefix in prefixes.split("|")
    for length in lengths
).encode()
_LONGEST = 19
_SEPARATORS = b" -"
_DOUBLED = bytes.maketrans(b"0123456789", bytes(48 + sum(divmod(2 * digit, 10)) for digit in range(10)))
_ZERO = ord("0")
_SINGLE_VALUES = bytes.maketrans(b"0123456789", bytes(range(10)))
_DOUBLED_VALUES = bytes.maketrans(b"0123456789", bytes(sum(divmod(2 * digit, 10)) for digit in range(10)))
_MULTIPLES_OF_TEN = bytes(range(0, 256, 10))

_CANDIDATE = re.compile(
    starts_with(rb"[2-68]")
    + rb"(?:\d{11,18}"
    + rb"|\d{3}([ -])\d{4}\1\d{4}\1\d{1,4}(?:\1\d{1,3})?"
    + rb"|\d{3}([ -])\d{6}\2\d{4,5})"
    + NOT_BEFORE_WORD
)


def is_card(digits: bytes) -> bool:
    """Return whether these digits are a card number."""
    return _ISSUED.fullmatch(digits) is not None and has_check_digit(digits)


def has_check_digit(digits: bytes) -> bool:
    """Return whether the Luhn check digit is valid."""
    total = sum(digits[::-2]) + sum(digits[-2::-2].translate(_DOUBLED)) - len(digits) * _ZERO
    return total % 10 == 0


def have_check_digits(numbers: Sequence[bytes]) -> bool:
    """Return whether all numbers pass the Luhn test. They contain digits only, 19 at most.

    The digits at one position of all numbers form one long integer, with one byte per number. Adding these integers
    adds the digits of every number at once. Leading zeros do not change a sum. No byte overflows: 19 digits of at most
    9 are less than 256.
    """
    digits = b"".join([number.rjust(_LONGEST, b"0") for number in numbers])
    total = 0
    for place in range(_LONGEST):
        values = _SINGLE_VALUES if (_LONGEST - place) % 2 else _DOUBLED_VALUES
        total += int.from_bytes(digits[place::_LONGEST].translate(values), "little")
    sums = total.to_bytes(len(numbers), "little")
    return not sums.translate(None, _MULTIPLES_OF_TEN)


def _judge(candidate: bytes) -> tuple[int, bytes] | None:
    digits = candidate.translate(None, _SEPARATORS)
    if is_card(digits):
        return len(candidate), MASK + digits[-4:]
    if len(candidate) - len(digits) == 4:  # five groups: the last can be something else, such as a security code
        shorter = candidate[: max(candidate.rfind(b" "), candidate.rfind(b"-"))]
        return _judge(shorter)
    return None


_LIKE = (
    EDGE
    + rb"[2-68](?:\d{11,18}|\d{3}[ -]\d{4}[ -]\d{4}[ -]\d{1,4}(?:[ -]\d{1,3})?|\d{3}[ -]\d{6}[ -]\d{4,5})"
    + EDGE_BEHIND
)


def _mask_whole(cards: Sequence[bytes]) -> list[bytes] | None:
    return [MASK + card[-4:] for card in cards] if have_check_digits(cards) else None


CREDIT_CARD = Detector(
    InfoType.CREDIT_CARD,
    (
        judged_form(
            EDGE + rb"(?:\d{12}|\d{4}[ -]\d{4}[ -]\d{4}[ -]\d|\d{4}[ -]\d{6}[ -]\d{4})",
            _CANDIDATE, _judge, 0.8, like=_LIKE,
        ),
    ),
    Whole(_WHOLE, _mask_whole),
    "card, credit card, debit card, card no, card number, cc, ccn, pan, visa, mastercard, amex",
)  # fmt: skip
