"""International bank account numbers: country, its length, and check digits (ISO 13616, mod 97)."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import (
    EDGE,
    Detector,
    Whole,
    judged_form,
    starts_with,
)

MASK = b"****"

_COUNTRIES = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 "
    "ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 "
    "LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 "
    "PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 "
    "YE30"
)
LENGTHS = {country[:2].encode(): int(country[2:]) for country in _COUNTRIES.split()}

_CANDIDATE = re.compile(
    starts_with(rb"[A-Za-z]") + rb"[A-Za-z]\d\d(?:[0-9A-Za-z]{11,30}(?! ?[0-9A-Za-z])|(?: ?[0-9A-Za-z]){11,30})"
)
# Length per country, as an RE2 expression.
_ACCOUNT = (
    EDGE
    + rb"(?i:"
    + b"|".join(country + rb"\d\d(?: ?[0-9A-Z]){%d}" % (length - 4) for country, length in LENGTHS.items())
    + rb")"
    + rb"(?:\b|_)"  # the close search also accepts a following `_`
)
_WHOLE = b"|".join(country + rb"\d\d[0-9A-Z]{%d}" % (length - 4) for country, length in LENGTHS.items())
_VALUES = {ord(character): b"%d" % int(character, 36) for character in string.digits + string.ascii_uppercase}
_COUNTRY_VALUES = {country: _VALUES[country[0]] + _VALUES[country[1]] for country in LENGTHS}
_WORD = re.compile(rb"[0-9A-Za-z_]")


def _judge(candidate: bytes) -> tuple[int, bytes] | None:
    letters = LENGTHS.get(candidate[:2].upper())
    if letters is None:
        return None
    length = _length_of(candidate, letters)
    if length is None:
        return None
    account = candidate[:length].replace(b" ", b"").upper()
    if not has_check_digits(account):
        return None
    return length, account[:2] + MASK + account[-4:]


def _length_of(candidate: bytes, letters: int) -> int | None:
    """Return how many bytes of the candidate contain `letters` characters, if a word ends there."""
    length = letters
    while (spaces := candidate.count(b" ", 0, length)) != length - letters:
        length = letters + spaces
    if length > len(candidate) or _WORD.match(candidate, length):
        return None
    return length


def has_check_digits(account: bytes) -> bool:
    """Return whether the check digits are valid. `account` has upper-case letters and digits only, country first."""
    return int(_spell(account[4:]) + _COUNTRY_VALUES[account[:2]] + account[2:4]) % 97 == 1


def _spell(text: bytes) -> bytes:
    """Return the text with letters as 10 to 35."""
    return text if text.isdigit() else b"".join([_VALUES[character] for character in text])


def _mask_whole(accounts: Sequence[bytes]) -> list[bytes] | None:
    for account in accounts:
        if not has_check_digits(account):
            return None
    return [account[:2] + MASK + account[-4:] for account in accounts]


IBAN_CODE = Detector(
    InfoType.IBAN_CODE,
    (
        judged_form(
            EDGE + rb"[A-Za-z]{2}\d\d(?: ?[0-9A-Za-z]){11}", _CANDIDATE, _judge, 0.95, like=_ACCOUNT, is_quoted=True
        ),
    ),
    Whole(_WHOLE, _mask_whole),
    "iban, bank account, account",
)
