"""United States social security numbers, written in three groups; numbers that are never given out are left alone."""

from __future__ import annotations

import re

from postern.domain.masking import InfoType
from postern.inspection.masking.detector import NOT_BEFORE_WORD, Detector, Form, starts_with, substitute_all

MASK = b"***-**-****"

_NUMBER = re.compile(starts_with(rb"[0-8]") + rb"\d\d(?<!000)(?<!666)([ -])(?!00)\d\d\1(?!0000)\d{4}" + NOT_BEFORE_WORD)

US_SSN = Detector(InfoType.US_SSN, (Form(rb"\d{3}[ -]\d\d[ -]\d{4}", substitute_all(_NUMBER, MASK)),))
