"""Payment cards: an issuer's prefix with a length it uses, and a right check digit (ISO/IEC 7812, Luhn)."""

from __future__ import annotations

import re

from postern.domain.masking import InfoType
from postern.inspection.masking.detector import NOT_BEFORE_WORD, Detector, Form, starts_with, substitute_valid

MASK = b"************"

# Prefixes and the lengths that go with them.
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
_SEPARATORS = b" -"
_DOUBLED = bytes.maketrans(b"0123456789", bytes(48 + sum(divmod(2 * digit, 10)) for digit in range(10)))
_ZERO = ord("0")

_CANDIDATE = re.compile(
    starts_with(rb"[2-68]")
    + rb"(?:\d{11,18}"
    + rb"|\d{3}([ -])\d{4}\1\d{4}\1\d{1,4}(?:\1\d{1,3})?"
    + rb"|\d{3}([ -])\d{6}\2\d{4,5})"
    + NOT_BEFORE_WORD
)


def is_card(digits: bytes) -> bool:
    """`digits` holds nothing else."""
    return _ISSUED.fullmatch(digits) is not None and has_check_digit(digits)


def has_check_digit(digits: bytes) -> bool:
    """The Luhn test."""
    total = sum(digits[::-2]) + sum(digits[-2::-2].translate(_DOUBLED)) - len(digits) * _ZERO
    return total % 10 == 0


def _judge(candidate: bytes) -> tuple[int, bytes] | None:
    digits = candidate.translate(None, _SEPARATORS)
    if is_card(digits):
        return len(candidate), MASK + digits[-4:]
    if len(candidate) - len(digits) == 4:  # five groups: the last may be something else, such as a security code
        shorter = candidate[: max(candidate.rfind(b" "), candidate.rfind(b"-"))]
        return _judge(shorter)
    return None


CREDIT_CARD = Detector(
    InfoType.CREDIT_CARD,
    (
        Form(
            rb"\d{12}|\d{4}[ -]\d{4}[ -]\d{4}[ -]\d|\d{4}[ -]\d{6}[ -]\d{4}",
            substitute_valid(_CANDIDATE, _judge),
        ),
    ),
)
