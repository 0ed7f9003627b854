"""Preset masking rules, which can be saved as they are or changed."""

from __future__ import annotations

from dataclasses import dataclass

from postern.domain.rules.masking import InfoType, Strategy, Strictness, TypeGroup


@dataclass(frozen=True, slots=True)
class MaskingPreset:
    name: str
    description: str
    groups: tuple[TypeGroup, ...]
    columns: tuple[str, ...]
    strategy: Strategy
    strictness: Strictness


_CONTACT = TypeGroup("CONTACT", (InfoType.EMAIL_ADDRESS, InfoType.PHONE_NUMBER))
_MONEY = TypeGroup("MONEY", (InfoType.CREDIT_CARD, InfoType.CREDIT_CARD_TRACK, InfoType.IBAN_CODE))
_SECRETS = TypeGroup(
    "SECRETS",
    (
        *(InfoType.PRIVATE_KEY, InfoType.JSON_WEB_TOKEN, InfoType.URL_PASSWORD, InfoType.AUTHORIZATION_HEADER),
        *(InfoType.AWS_ACCESS_KEY, InfoType.GITHUB_TOKEN, InfoType.GITLAB_TOKEN, InfoType.SLACK_TOKEN),
        *(InfoType.STRIPE_KEY, InfoType.GOOGLE_API_KEY),
    ),
)
_IDENTITY = TypeGroup("IDENTITY", (InfoType.US_SSN, InfoType.UK_NINO, InfoType.CA_SIN, InfoType.DE_TAX_ID))
# Names that applications give to columns whose values no pattern finds.
_SECRET_COLUMNS = ("*password*", "*passwd*", "*secret*", "*api_key*", "*private_key*", "*access_token*")
_PERSONAL_COLUMNS = ("email", "*_email", "phone", "*_phone", "ssn", "iban", "*card_number")

PRESETS: tuple[MaskingPreset, ...] = (
    MaskingPreset(
        "recommended",
        "Masks e-mail addresses, phone numbers, cards, accounts, identity numbers and secrets, wherever they are "
        "found, and columns with such names. Denies answers of unknown origin.",
        (_CONTACT, _MONEY, _IDENTITY, _SECRETS),
        (*_PERSONAL_COLUMNS, *_SECRET_COLUMNS),
        Strategy.REPLACE,
        Strictness.STRICT,
    ),
    MaskingPreset(
        "secrets",
        "Masks only keys, tokens and passwords: in columns with such names, and wherever they are found.",
        (_SECRETS,),
        _SECRET_COLUMNS,
        Strategy.REPLACE,
        Strictness.STRICT,
    ),
    MaskingPreset(
        "pseudonyms",
        "Replaces personal data with keyed hashes: equal values get equal hashes, so that users can count and join "
        "without seeing the data.",
        (_CONTACT, _MONEY, _IDENTITY),
        _PERSONAL_COLUMNS,
        Strategy.HASH,
        Strictness.STRICT,
    ),
)
