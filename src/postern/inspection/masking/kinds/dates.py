"""Dates and times of day."""

from __future__ import annotations

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import Detector
from postern.inspection.masking.kinds.making import number_form, token_form

_DAY, _MONTH, _YEAR = rb"(?:0?[1-9]|[12]\d|3[01])", rb"(?:0[1-9]|1[0-2])", rb"(?:19|20)\d\d"
_ZONE = rb"(?:Z|[+-]\d\d(?::?\d\d)?| UTC| GMT)?"
_TIME = rb"(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?" + _ZONE + rb")?"
_NAMES = (
    rb"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|"
    rb"Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_BEFORE = rb"(?<![0-9A-Za-z_./:-])"
_AFTER = rb"(?![0-9A-Za-z_])(?![./:-]\d)"

DATE_TIME = Detector(
    InfoType.DATE_TIME,
    (
        token_form(
            rb"(?:19|20)\d\d-[01]\d-[0-3]\d",
            _BEFORE + _YEAR + rb"-" + _MONTH + rb"-(?:0[1-9]|[12]\d|3[01])" + _TIME + _AFTER, 0.8,
            is_quoted=True,
        ),
        token_form(
            rb"[0-3]?\d[./-][0-3]?\d[./-](?:19|20)?\d\d",
            _BEFORE + _DAY + rb"([./-])" + _DAY + rb"\1(?:19|20)?\d\d" + _TIME + _AFTER, 0.6, group=0,
            is_quoted=True,
        ),
        token_form(
            rb"[A-Z][a-z]{2,8}\.? [0-3]?\d(?:st|nd|rd|th)?,? (?:19|20)\d\d"
            rb"|[0-3]?\d(?:st|nd|rd|th|\.)? [A-Z][a-z]{2,8}\.?,? (?:19|20)\d\d",
            rb"(?<![0-9A-Za-z_])(?:" + _NAMES + rb"\.? [0-3]?\d(?:st|nd|rd|th)?,? " + _YEAR
            + rb"|" + _DAY + rb"(?:st|nd|rd|th|\.)? " + _NAMES + rb"\.?,? " + _YEAR + rb")" + _TIME + _AFTER, 0.8,
            is_quoted=True,
        ),
        number_form(rb"[0-2]\d:[0-5]\d:[0-5]\d(?:\.\d{1,9})?", 0.6, is_quoted=True),
    ),
    words="date, time, datetime, timestamp, born, birth, dob, created, updated, at, on, since, until",
)  # fmt: skip
