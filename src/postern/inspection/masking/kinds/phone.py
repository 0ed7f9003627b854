"""Telephone numbers in written form: international with `+`, North American, and national with a leading zero.

A run of digits alone is not matched: it is mostly an identifier.
"""

from __future__ import annotations

import re

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import (
    EDGE,
    EDGE_BEHIND,
    NOT_BEFORE_WORD,
    Detector,
    Whole,
    judged_form,
    pattern_form,
    replaced_by,
    starts_with,
)

MASK = b"***-***-****"

# Not inside of a longer chain of numbers, such as a date, a version or an address.
_NOT_IN_CHAIN = rb"(?<!\d[./-]%s)"
_CHAIN_ENDS = NOT_BEFORE_WORD + rb"(?![./-]\d)"

_INTERNATIONAL = re.compile(starts_with(rb"\+") + rb"[1-9](?:[ ()./-]{0,2}\d){7,14}" + NOT_BEFORE_WORD)
_NORTH_AMERICAN = re.compile(
    rb"(?:"
    + starts_with(rb"[1-9]") + _NOT_IN_CHAIN % b"."
    + rb"(?:(?<=1)[ .-]\(?[2-9]\d\d[ .)-]{1,2}|(?<=[2-9])\d\d[ .-])\d{3}[ .-]"
    + rb"|\([2-9]\d\d\)[ .-]?\d{3}[ .-]?"
    + rb")\d{4}" + _CHAIN_ENDS
)  # fmt: skip
_NORTH_AMERICAN_LIKE = (
    rb"(?:" + EDGE + rb"(?:1[ .-]\(?[2-9]\d\d[ .)-]{1,2}|[2-9]\d\d[ .-])\d{3}[ .-]"
    rb"|\([2-9]\d\d\)[ .-]?\d{3}[ .-]?)\d{4}" + EDGE_BEHIND
)
_NATIONAL = re.compile(
    rb"(?:"
    + starts_with(rb"0") + _NOT_IN_CHAIN % b"0" + rb"[1-9]\d{0,3}[ /-]"
    + rb"|\(0[1-9]\d{0,3}\) ?"
    + rb")\d{2,8}(?:([ -])\d{2,5}(?:\1\d{2,5}){0,3})?" + _CHAIN_ENDS
)  # fmt: skip
# At least nine digits, of which two to five are the area. Dates with times have fewer.
_NATIONAL_DIGITS = rb"0[1-9](?:%b)" % b"|".join(
    rb"\d{%d}[ )/-]{1,2}\d(?:[ -]?\d){%d}" % (more, 6 - more) for more in range(4)
)
_DATE_AND_HOUR = re.compile(rb"\d\d[ /-]\d\d[ /-]\d{4}[ -]\d\d")
_FEWEST_DIGITS, _MOST_DIGITS = 9, 11
_PUNCTUATION = b" ()/-"


def _judge_national(candidate: bytes) -> tuple[int, bytes] | None:
    """Judge a national number. Short ones are dates; in long ones, the last groups can be something else, unless
    hyphenated.
    """
    if _DATE_AND_HOUR.fullmatch(candidate):
        return None
    count = len(candidate.translate(None, _PUNCTUATION))
    if count > _MOST_DIGITS and b" " in candidate:
        return _judge_national(candidate[: candidate.rfind(b" ")])
    return (len(candidate), MASK) if _FEWEST_DIGITS <= count <= _MOST_DIGITS else None


# International numbers in groups that differ from those of cards and addresses.
_WHOLE = (
    rb"\+[1-9]\d{0,2} (?:\(\d{3}\) |\d{3}[ -])\d{3}[ -]\d{4}"
    rb"|(?:1-)?[2-9]\d\d[ .-]\d{3}[ .-]\d{4}"
    rb"|\([2-9]\d\d\) ?\d{3}-\d{4}"
)

PHONE_NUMBER = Detector(
    InfoType.PHONE_NUMBER,
    (
        pattern_form(rb"\+[1-9](?:[ ()./-]{0,2}\d){7}", _INTERNATIONAL, MASK, 0.8, is_quoted=True),
        pattern_form(
            EDGE + rb"[2-9]\d\d[ .)-]{1,2}\d{3}[ .-]?\d{4}", _NORTH_AMERICAN, MASK, 0.6,
            like=_NORTH_AMERICAN_LIKE, is_quoted=True,
        ),
        judged_form(
            EDGE + _NATIONAL_DIGITS, _NATIONAL, _judge_national, 0.6,
            like=rb"(?:\(|" + EDGE + rb")" + _NATIONAL_DIGITS, is_quoted=True,
        ),
    ),
    Whole(_WHOLE, replaced_by(MASK)),
    "phone, phone number, telephone, tel, mobile, cell, fax, msisdn, call, whatsapp, handy, telefon, telefono",
)  # fmt: skip
