"""United States social security numbers in three groups. Numbers that are never issued are not matched."""

from __future__ import annotations

import re

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import (
    EDGE,
    EDGE_BEHIND,
    NOT_BEFORE_WORD,
    Detector,
    Whole,
    pattern_form,
    replaced_by,
    starts_with,
)

MASK = b"***-**-****"

_NUMBER = re.compile(starts_with(rb"[0-8]") + rb"\d\d(?<!000)(?<!666)([ -])(?!00)\d\d\1(?!0000)\d{4}" + NOT_BEFORE_WORD)

_BARE = re.compile(
    starts_with(rb"[0-8]")
    + rb"\d\d(?<!000)(?<!666)(?!00)\d\d(?!0000)\d{4}"
    + NOT_BEFORE_WORD
    + rb"(?![./-][0-9A-Za-z])"
)

_WRITTEN = rb"\d{3}[ -]\d\d[ -]\d{4}"
_AREA = rb"(?:00[1-9]|0[1-9]\d|[1-578]\d\d|6[0-57-9]\d|66[0-57-9])"
_GROUP = rb"(?:0[1-9]|[1-9]\d)"
_SERIAL = rb"(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})"
_WHOLE = _AREA + rb"(?: " + _GROUP + rb" |-" + _GROUP + rb"-)" + _SERIAL

US_SSN = Detector(
    InfoType.US_SSN,
    (
        pattern_form(EDGE + _WRITTEN, _NUMBER, MASK, 0.8, like=EDGE + _WRITTEN + EDGE_BEHIND, is_quoted=True),
        # Nine digits can be anything without a context word.
        pattern_form(EDGE + rb"\d{9}" + EDGE_BEHIND, _BARE, MASK, 0.2),
    ),
    Whole(_WHOLE, replaced_by(MASK)),
    "ssn, social security, social security number, soc sec, ss no, taxpayer",
)
