"""Masking: which kinds of information are hidden in answers (spec 2.1 `redact_types`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

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


class Strategy(StrEnum):
    REPLACE = "replace"  # by what stands for its kind
    PARTIAL = "partial"  # all but what is needed to recognise it
    HASH = "hash"  # keyed and stable: the same value always becomes the same, so that joins still work
    NULL = "null"


class Strictness(StrEnum):
    """What becomes of an answer that cannot be inspected, and of a column whose origin cannot be known."""

    STRICT = "strict"  # refused
    BEST_EFFORT = "best_effort"  # passed, with a marker in the recording, and counted


@dataclass(frozen=True, slots=True)
class CustomType:
    """An information type of the customer's own: a linear-time expression or a list of words, and how sure it is."""

    name: str
    pattern_regex: str = ""
    words: tuple[str, ...] = ()
    score: float = 0.8


@dataclass(frozen=True, slots=True)
class MaskingRule:
    """`types` are names of InfoType or of `custom_types`: found by value. `columns` are masked whatever they hold:
    `name`, `table.name`, `schema.table.name`, with `*` for any run of characters, or `tag:<tag>`. `threshold` is the
    least score of a find."""

    id: UUID
    org_id: UUID
    name: str
    description: str = ""
    types: tuple[str, ...] = ()
    custom_types: tuple[CustomType, ...] = ()
    columns: tuple[str, ...] = ()
    threshold: float = 0.5
    strategy: Strategy = Strategy.REPLACE
    strictness: Strictness = Strictness.STRICT
    connection_ids: tuple[UUID, ...] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None


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
