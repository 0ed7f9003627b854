"""Masking: the types of information that are hidden in output (spec 2.1 `redact_types`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sized
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
    # money
    CREDIT_CARD_TRACK = "CREDIT_CARD_TRACK"
    SWIFT_CODE = "SWIFT_CODE"
    CUSIP = "CUSIP"
    ISIN = "ISIN"
    CRYPTO = "CRYPTO"
    # networks and devices
    URL = "URL"
    STORAGE_SIGNED_URL = "STORAGE_SIGNED_URL"
    HTTP_COOKIE = "HTTP_COOKIE"
    MAC_ADDRESS = "MAC_ADDRESS"
    IMEI = "IMEI"
    VIN = "VIN"
    # secrets
    PRIVATE_KEY = "PRIVATE_KEY"
    JSON_WEB_TOKEN = "JSON_WEB_TOKEN"
    URL_PASSWORD = "URL_PASSWORD"
    AUTHORIZATION_HEADER = "AUTHORIZATION_HEADER"
    AWS_ACCESS_KEY = "AWS_ACCESS_KEY"
    GITHUB_TOKEN = "GITHUB_TOKEN"
    GITLAB_TOKEN = "GITLAB_TOKEN"
    SLACK_TOKEN = "SLACK_TOKEN"
    STRIPE_KEY = "STRIPE_KEY"
    GOOGLE_API_KEY = "GOOGLE_API_KEY"
    # medicine
    MEDICAL_LICENSE = "MEDICAL_LICENSE"
    FDA_CODE = "FDA_CODE"
    US_NPI = "US_NPI"
    # the Americas
    US_ITIN = "US_ITIN"
    US_PASSPORT = "US_PASSPORT"
    US_DRIVER_LICENSE = "US_DRIVER_LICENSE"
    US_BANK_NUMBER = "US_BANK_NUMBER"
    US_BANK_ROUTING = "US_BANK_ROUTING"
    CA_SIN = "CA_SIN"
    BR_CPF = "BR_CPF"
    BR_CNPJ = "BR_CNPJ"
    MX_CURP = "MX_CURP"
    CL_RUT = "CL_RUT"
    AR_CUIT = "AR_CUIT"
    # Europe
    UK_NHS = "UK_NHS"
    UK_NINO = "UK_NINO"
    ES_NIF = "ES_NIF"
    ES_NIE = "ES_NIE"
    IT_FISCAL_CODE = "IT_FISCAL_CODE"
    IT_DRIVER_LICENSE = "IT_DRIVER_LICENSE"
    IT_VAT_CODE = "IT_VAT_CODE"
    IT_PASSPORT = "IT_PASSPORT"
    IT_IDENTITY_CARD = "IT_IDENTITY_CARD"
    PL_PESEL = "PL_PESEL"
    FI_PERSONAL_IDENTITY_CODE = "FI_PERSONAL_IDENTITY_CODE"
    SE_PERSONNUMMER = "SE_PERSONNUMMER"
    NO_FODSELSNUMMER = "NO_FODSELSNUMMER"
    DE_TAX_ID = "DE_TAX_ID"
    FR_NIR = "FR_NIR"
    NL_BSN = "NL_BSN"
    BE_NATIONAL_NUMBER = "BE_NATIONAL_NUMBER"
    CH_AHV = "CH_AHV"
    TR_ID_NUMBER = "TR_ID_NUMBER"
    # Asia, Africa and the Pacific
    SG_NRIC_FIN = "SG_NRIC_FIN"
    SG_UEN = "SG_UEN"
    AU_ABN = "AU_ABN"
    AU_ACN = "AU_ACN"
    AU_TFN = "AU_TFN"
    AU_MEDICARE = "AU_MEDICARE"
    IN_PAN = "IN_PAN"
    IN_AADHAAR = "IN_AADHAAR"
    IN_VEHICLE_REGISTRATION = "IN_VEHICLE_REGISTRATION"
    IN_VOTER = "IN_VOTER"
    IN_PASSPORT = "IN_PASSPORT"
    CN_RESIDENT_ID = "CN_RESIDENT_ID"
    KR_RRN = "KR_RRN"
    ZA_ID_NUMBER = "ZA_ID_NUMBER"
    # people
    FIRST_NAME = "FIRST_NAME"
    LAST_NAME = "LAST_NAME"
    DATE_OF_BIRTH = "DATE_OF_BIRTH"
    AGE = "AGE"
    GENDER = "GENDER"
    STREET_ADDRESS = "STREET_ADDRESS"
    PASSPORT = "PASSPORT"
    MEDICAL_RECORD_NUMBER = "MEDICAL_RECORD_NUMBER"
    PASSWORD = "PASSWORD"
    # moments
    DATE_TIME = "DATE_TIME"
    # what only a model of language can tell
    PERSON = "PERSON"
    LOCATION = "LOCATION"
    NRP = "NRP"
    ORGANIZATION = "ORGANIZATION"


# Found by a provider of language models, where one is installed (docs/information-types.md).
MODEL_TYPES = frozenset({InfoType.PERSON, InfoType.LOCATION, InfoType.NRP, InfoType.ORGANIZATION})
# What describes a person. Few of these have a shape of their own: they are found by the names of columns and by labels.
PERSONAL_TYPES = frozenset(
    {
        InfoType.FIRST_NAME,
        InfoType.LAST_NAME,
        InfoType.DATE_OF_BIRTH,
        InfoType.AGE,
        InfoType.GENDER,
        InfoType.STREET_ADDRESS,
        InfoType.PASSPORT,
        InfoType.MEDICAL_RECORD_NUMBER,
        InfoType.PASSWORD,
    }
)
# Masked only where a rule or connection names the type: common and seldom secret, or found by the names of columns.
NAMED_ONLY = PERSONAL_TYPES | {InfoType.DATE_TIME, InfoType.URL, InfoType.MAC_ADDRESS}
# What is masked where no types are given.
DEFAULT_TYPES = frozenset(InfoType) - MODEL_TYPES - NAMED_ONLY

# Other names of the same kinds, as data-loss-prevention services spell them.
ALIASES = {
    "ABA_ROUTING_NUMBER": InfoType.US_BANK_ROUTING,
    "AMERICAN_BANKERS_CUSIP_ID": InfoType.CUSIP,
    "ARGENTINA_CUIT_NUMBER": InfoType.AR_CUIT,
    "AUSTRALIA_MEDICARE_NUMBER": InfoType.AU_MEDICARE,
    "AUSTRALIA_TAX_FILE_NUMBER": InfoType.AU_TFN,
    "AWS_CREDENTIALS": InfoType.AWS_ACCESS_KEY,
    "BASIC_AUTH_HEADER": InfoType.AUTHORIZATION_HEADER,
    "BELGIUM_NATIONAL_ID_CARD_NUMBER": InfoType.BE_NATIONAL_NUMBER,
    "BRAZIL_CPF_NUMBER": InfoType.BR_CPF,
    "CANADA_SOCIAL_INSURANCE_NUMBER": InfoType.CA_SIN,
    "CHILE_CDI_NUMBER": InfoType.CL_RUT,
    "CHINA_RESIDENT_ID_NUMBER": InfoType.CN_RESIDENT_ID,
    "CANADA_PASSPORT": InfoType.PASSPORT,
    "CHINA_PASSPORT": InfoType.PASSPORT,
    "CREDIT_CARD_NUMBER": InfoType.CREDIT_CARD,
    "CREDIT_CARD_TRACK_NUMBER": InfoType.CREDIT_CARD_TRACK,
    "DATE": InfoType.DATE_TIME,
    "ETHNIC_GROUP": InfoType.NRP,
    "FEMALE_NAME": InfoType.FIRST_NAME,
    "FINLAND_NATIONAL_ID_NUMBER": InfoType.FI_PERSONAL_IDENTITY_CODE,
    "FRANCE_NIR": InfoType.FR_NIR,
    "FRANCE_PASSPORT": InfoType.PASSPORT,
    "GCP_API_KEY": InfoType.GOOGLE_API_KEY,
    "GERMANY_PASSPORT": InfoType.PASSPORT,
    "GERMANY_TAXPAYER_IDENTIFICATION_NUMBER": InfoType.DE_TAX_ID,
    "IMEI_HARDWARE_ID": InfoType.IMEI,
    "INDIA_AADHAAR_INDIVIDUAL": InfoType.IN_AADHAAR,
    "INDIA_PAN_INDIVIDUAL": InfoType.IN_PAN,
    "ITALY_FISCAL_CODE": InfoType.IT_FISCAL_CODE,
    "JAPAN_PASSPORT": InfoType.PASSPORT,
    "KOREA_PASSPORT": InfoType.PASSPORT,
    "KOREA_RRN": InfoType.KR_RRN,
    "MAC_ADDRESS_LOCAL": InfoType.MAC_ADDRESS,
    "MALE_NAME": InfoType.FIRST_NAME,
    "MEXICO_CURP_NUMBER": InfoType.MX_CURP,
    "MEXICO_PASSPORT": InfoType.PASSPORT,
    "NETHERLANDS_BSN_NUMBER": InfoType.NL_BSN,
    "NORWAY_NI_NUMBER": InfoType.NO_FODSELSNUMMER,
    "ORGANIZATION_NAME": InfoType.ORGANIZATION,
    "PERSON_NAME": InfoType.PERSON,
    "POLAND_PASSPORT": InfoType.PASSPORT,
    "POLAND_PESEL_NUMBER": InfoType.PL_PESEL,
    "SINGAPORE_NATIONAL_REGISTRATION_ID_NUMBER": InfoType.SG_NRIC_FIN,
    "SOUTH_AFRICA_ID_NUMBER": InfoType.ZA_ID_NUMBER,
    "SPAIN_NIE_NUMBER": InfoType.ES_NIE,
    "SPAIN_NIF_NUMBER": InfoType.ES_NIF,
    "SPAIN_PASSPORT": InfoType.PASSPORT,
    "SWEDEN_NATIONAL_ID_NUMBER": InfoType.SE_PERSONNUMMER,
    "SWEDEN_PASSPORT": InfoType.PASSPORT,
    "TIME": InfoType.DATE_TIME,
    "TURKEY_ID_NUMBER": InfoType.TR_ID_NUMBER,
    "UK_NATIONAL_HEALTH_SERVICE_NUMBER": InfoType.UK_NHS,
    "UK_NATIONAL_INSURANCE_NUMBER": InfoType.UK_NINO,
    "UK_PASSPORT": InfoType.PASSPORT,
    "US_BANK_ROUTING_MICR": InfoType.US_BANK_ROUTING,
    "US_DEA_NUMBER": InfoType.MEDICAL_LICENSE,
    "US_DRIVERS_LICENSE_NUMBER": InfoType.US_DRIVER_LICENSE,
    "US_HEALTHCARE_NPI": InfoType.US_NPI,
    "US_INDIVIDUAL_TAXPAYER_IDENTIFICATION_NUMBER": InfoType.US_ITIN,
    "US_SOCIAL_SECURITY_NUMBER": InfoType.US_SSN,
    "VEHICLE_IDENTIFICATION_NUMBER": InfoType.VIN,
}


DEFAULT_THRESHOLD = 0.5

MAX_TYPES = 200
MAX_GROUPS = 50
MAX_CUSTOM_TYPES = 50
MAX_COLUMNS = 500
MAX_COLUMN_PARTS = 16
MAX_COLUMN_LENGTH = 256
MAX_WORDS = 1_000
MAX_WORD_LENGTH = 1_000
MAX_PATTERN_LENGTH = 10_000

TAG = "tag:"  # what a column pattern about a tag begins with
_UPPER_SNAKE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class Strategy(StrEnum):
    REPLACE = "replace"  # by what stands for its kind
    PARTIAL = "partial"  # all but what is needed to recognise it
    HASH = "hash"  # keyed and stable: the same value always becomes the same, so that joins still work
    NULL = "null"


class Strictness(StrEnum):
    """What happens to output that cannot be inspected, and to a column of unknown origin."""

    STRICT = "strict"  # refused
    BEST_EFFORT = "best_effort"  # passed, with a marker in the recording, and counted


@dataclass(frozen=True, slots=True)
class DetectedType:
    """An information type that can be detected. `scores` are the lowest and the highest of a match by its form alone;
    None if a language model finds it. One of `words` near a value raises them."""

    type: InfoType
    scores: tuple[float, float] | None
    words: tuple[str, ...] = ()

    @property
    def by_default(self) -> bool:
        return self.type in DEFAULT_TYPES


@dataclass(frozen=True, slots=True)
class TypeGroup:
    """Names of InfoType, or aliases, under a name that the administrator chose."""

    name: str
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CustomType:
    """A custom information type: a linear-time expression or a list of words, and its score."""

    name: str
    pattern_regex: str = ""
    words: tuple[str, ...] = ()
    score: float = 0.8


@dataclass(frozen=True, slots=True)
class MaskingRule:
    """The types of `groups` and all `custom_types` are found by value. `columns` are masked whatever their content.

    Columns are `name`, `table.name`, `schema.table.name`, with `*` for any run of characters, or `tag:<tag>`; letter
    case does not matter. In documents, a name can be a path: `schema.table.address.zip`. `threshold` is the minimum
    score of a match.
    """

    id: UUID
    org_id: UUID
    name: str
    description: str = ""
    groups: tuple[TypeGroup, ...] = ()
    custom_types: tuple[CustomType, ...] = ()
    columns: tuple[str, ...] = ()
    threshold: float = DEFAULT_THRESHOLD
    strategy: Strategy = Strategy.REPLACE
    strictness: Strictness = Strictness.STRICT
    connection_ids: tuple[UUID, ...] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    managed_by: str | None = None

    @property
    def types(self) -> frozenset[InfoType]:
        """The types of its groups. Raises KeyError for an unknown name."""
        return frozenset(_require_info_type(name) for group in self.groups for name in group.types)

    @property
    def finds(self) -> bool:
        """Whether it searches values."""
        return bool(self.custom_types) or any(group.types for group in self.groups)


def _require_info_type(name: str) -> InfoType:
    known_type = info_type(name)
    if known_type is None:
        raise KeyError(f"the information type {name!r} is not known")
    return known_type


def info_type(name: str) -> InfoType | None:
    """Return the type of that name or alias, or None when it is unknown."""
    if name in ALIASES:
        return ALIASES[name]
    return InfoType(name) if name in InfoType.__members__ else None


def check_types(names: Iterable[str], models: frozenset[str], field: str) -> None:
    """Check types. `models` are those of MODEL_TYPES that are available here. Raises Invalid."""
    for name in names:
        kind = info_type(name)
        if kind in MODEL_TYPES - models:
            raise Invalid(
                f"{field}: {name} needs a language model, and this gateway has none; ask its operator to install "
                "presidio-analyzer and to set POSTERN_MASKING_LANGUAGE_MODEL",
                field=field,
            )
        if kind is None:
            raise Invalid(f"{field}: {name!r} is not known; use one of {', '.join(sorted(InfoType))}", field=field)


def check_redact_types(names: Iterable[str], models: frozenset[str] = MODEL_TYPES) -> None:
    """Check `redact_types` as `check_types` does."""
    check_types(names, models, "redact_types")


def check_rule(rule: MaskingRule, compiles: Callable[[str], str | None], models: frozenset[str] = MODEL_TYPES) -> None:
    """Reject a rule that could not be enforced. `compiles(pattern)` returns None, or why it does not compile;
    `models` as in `check_types`. Raises Invalid."""
    if not rule.finds and not rule.columns:
        raise Invalid("a masking rule needs types, custom types or columns: it would mask nothing", field="columns")
    if not 0 <= rule.threshold <= 1:
        raise Invalid("score_threshold: must be from 0 to 1", field="score_threshold")
    _check_groups(rule.groups, models)
    _check_most("custom_entity_types", rule.custom_types, MAX_CUSTOM_TYPES)
    names = [custom.name for custom in rule.custom_types]
    for index, custom in enumerate(rule.custom_types):
        at = f"custom_entity_types[{index}]"
        _check_name(f"{at}.name", custom.name)
        if info_type(custom.name) is not None or names.count(custom.name) > 1:
            raise Invalid(f"{at}.name: {custom.name!r} is already in use by another type", field=at)
        _check_custom(at, custom, compiles)
    _check_columns(rule.columns)


def _check_groups(groups: tuple[TypeGroup, ...], models: frozenset[str]) -> None:
    _check_most("supported_entity_types", groups, MAX_GROUPS)
    for index, group in enumerate(groups):
        at = f"supported_entity_types[{index}]"
        _check_name(f"{at}.name", group.name)
        _check_most(f"{at}.entity_types", group.types, MAX_TYPES)
        check_types(group.types, models, f"{at}.entity_types")


def _check_custom(at: str, custom: CustomType, compiles: Callable[[str], str | None]) -> None:
    if not 0 <= custom.score <= 1:
        raise Invalid(f"{at}.score: must be from 0 to 1", field=at)
    if bool(custom.pattern_regex) == bool(custom.words):
        raise Invalid(f"{at}: needs either regex or deny_list", field=at)
    if len(custom.pattern_regex) > MAX_PATTERN_LENGTH:
        raise Invalid(f"{at}.regex: longer than {MAX_PATTERN_LENGTH} characters", field=at)
    if any(not word.strip() for word in custom.words):
        raise Invalid(f"{at}.deny_list: must not contain empty words", field=at)
    if len(custom.words) > MAX_WORDS or any(len(word) > MAX_WORD_LENGTH for word in custom.words):
        raise Invalid(f"{at}.deny_list: at most {MAX_WORDS} words of {MAX_WORD_LENGTH} characters", field=at)
    reason = compiles(custom.pattern_regex) if custom.pattern_regex else None
    if reason is not None:
        raise Invalid(f"{at}.regex: does not compile: {reason}", field=at)


def _check_columns(columns: tuple[str, ...]) -> None:
    _check_most("columns", columns, MAX_COLUMNS)
    for column in columns:
        parts = [column.removeprefix(TAG)] if column.startswith(TAG) else column.split(".")
        if (
            len(parts) > MAX_COLUMN_PARTS
            or not all(part.strip() == part != "" for part in parts)
            or len(column) > MAX_COLUMN_LENGTH
        ):
            raise Invalid(
                f"columns: {column!r} is not name, table.name, schema.table.name or tag:name, of at most "
                f"{MAX_COLUMN_LENGTH} characters",
                field="columns",
            )


def _check_most(field: str, items: Sized, most: int) -> None:
    if len(items) > most:
        raise Invalid(f"{field}: {len(items)} given, at most {most}", field=field)


def _check_name(field: str, name: str) -> None:
    if _UPPER_SNAKE.fullmatch(name) is None:
        raise Invalid(
            f"{field}: {name!r} must be 1 to 64 capital letters, digits and underscores, with a letter first",
            field=field,
        )
