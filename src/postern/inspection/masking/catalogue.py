"""Catalogue of all detectors, in the order in which they are applied.

If two kinds overlap, the earlier one wins when values are replaced. Kinds that contain other values come first (a URL,
a magnetic track), then the most certain ones (an address with its `@`, an account with its country's check digits).
Telephone numbers have no check digit, and come late. Kinds that mostly need context words come last. No kind before one
with a fast path for whole columns matches anything in what that path replaces.
"""

from __future__ import annotations

from types import ModuleType

from postern.domain.rules.masking import MODEL_TYPES, InfoType
from postern.inspection.masking.detector import Detector
from postern.inspection.masking.kinds import (
    americas,
    asia_pacific,
    dates,
    europe,
    finance,
    personal_data,
    secret_tokens,
    web,
)
from postern.inspection.masking.kinds.card import CREDIT_CARD
from postern.inspection.masking.kinds.email_address import EMAIL_ADDRESS
from postern.inspection.masking.kinds.iban import IBAN_CODE
from postern.inspection.masking.kinds.ip import IP_ADDRESS
from postern.inspection.masking.kinds.phone import PHONE_NUMBER
from postern.inspection.masking.kinds.ssn import US_SSN

_HOLDING = (
    secret_tokens.PRIVATE_KEY, secret_tokens.URL_PASSWORD, web.STORAGE_SIGNED_URL, web.URL, web.HTTP_COOKIE,
    secret_tokens.AUTHORIZATION_HEADER, finance.CREDIT_CARD_TRACK,
)  # fmt: skip
_TOKENS = (
    secret_tokens.JSON_WEB_TOKEN, secret_tokens.AWS_ACCESS_KEY, secret_tokens.GITHUB_TOKEN, secret_tokens.GITLAB_TOKEN,
    secret_tokens.SLACK_TOKEN, secret_tokens.STRIPE_KEY, secret_tokens.GOOGLE_API_KEY,
)  # fmt: skip
_QUICK = (IBAN_CODE, CREDIT_CARD, US_SSN, IP_ADDRESS, PHONE_NUMBER)


def _of(module: ModuleType) -> list[Detector]:
    return [detector for detector in vars(module).values() if isinstance(detector, Detector)]


_FIRST = (*_HOLDING, EMAIL_ADDRESS, *_TOKENS, *_QUICK)
ORDER: tuple[Detector, ...] = (
    *_FIRST,
    *(
        detector
        for module in (web, finance, europe, asia_pacific, americas, personal_data, dates)
        for detector in _of(module)
        if detector not in _FIRST
    ),
)

_MISSING = frozenset(InfoType) - MODEL_TYPES - {detector.type for detector in ORDER}
if _MISSING:
    raise RuntimeError(f"there is no detector for {', '.join(sorted(_MISSING))}")
