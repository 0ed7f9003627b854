"""Masking: which kinds of information are hidden in answers (spec 2.1 `redact_types`)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from postern.errors import Invalid


class InfoType(StrEnum):
    EMAIL_ADDRESS = "EMAIL_ADDRESS"
    CREDIT_CARD = "CREDIT_CARD"
    US_SSN = "US_SSN"
    PHONE_NUMBER = "PHONE_NUMBER"
    IBAN_CODE = "IBAN_CODE"
    IP_ADDRESS = "IP_ADDRESS"


# Other names of the same kinds, as data-loss-prevention services spell them.
ALIASES = {
    "CREDIT_CARD_NUMBER": InfoType.CREDIT_CARD,
    "US_SOCIAL_SECURITY_NUMBER": InfoType.US_SSN,
}


def info_type(name: str) -> InfoType | None:
    """The kind of that name or alias, or None when it is not known here."""
    if name in ALIASES:
        return ALIASES[name]
    return InfoType(name) if name in InfoType.__members__ else None


def check_redact_types(names: Iterable[str]) -> None:
    """Raises Invalid."""
    for name in names:
        if info_type(name) is None:
            raise Invalid(
                f"redact_types: {name!r} is not known; there are {', '.join(sorted(InfoType))}", field="redact_types"
            )
