"""Masking: which kinds of information are hidden in answers (spec 2.1 `redact_types`)."""

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


# Other names of the same kinds, as data-loss-prevention services spell them.
ALIASES = {
    "CREDIT_CARD_NUMBER": InfoType.CREDIT_CARD,
    "US_SOCIAL_SECURITY_NUMBER": InfoType.US_SSN,
}


DEFAULT_THRESHOLD = 0.5

MAX_TYPES = 200
MAX_GROUPS = 50
MAX_CUSTOM_TYPES = 50
MAX_COLUMNS = 500
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
    """What becomes of an answer that cannot be inspected, and of a column whose origin cannot be known."""

    STRICT = "strict"  # refused
    BEST_EFFORT = "best_effort"  # passed, with a marker in the recording, and counted


@dataclass(frozen=True, slots=True)
class TypeGroup:
    """Names of InfoType, or aliases, under a name of the administrator's own."""

    name: str
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CustomType:
    """An information type of the customer's own: a linear-time expression or a list of words, and how sure it is."""

    name: str
    pattern_regex: str = ""
    words: tuple[str, ...] = ()
    score: float = 0.8


@dataclass(frozen=True, slots=True)
class MaskingRule:
    """The types of `groups` and all `custom_types` are found by value. `columns` are masked whatever they hold:
    `name`, `table.name`, `schema.table.name`, with `*` for any run of characters, or `tag:<tag>`; letter case does not
    matter. `threshold` is the least score of a find."""

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

    @property
    def types(self) -> frozenset[InfoType]:
        """Raises KeyError for a name that is not known here."""
        return frozenset(_known(name) for group in self.groups for name in group.types)

    @property
    def finds(self) -> bool:
        """Whether it looks for values."""
        return bool(self.custom_types) or any(group.types for group in self.groups)


def _known(name: str) -> InfoType:
    found = info_type(name)
    if found is None:
        raise KeyError(f"the information type {name!r} is not known")
    return found


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


def check_rule(rule: MaskingRule, compiles: Callable[[str], str | None]) -> None:
    """Refuses what could not be enforced. `compiles(pattern)` answers None, or why it does not compile. Raises
    Invalid."""
    if not rule.finds and not rule.columns:
        raise Invalid("a masking rule needs types, custom types or columns: it would mask nothing", field="columns")
    if not 0 <= rule.threshold <= 1:
        raise Invalid("score_threshold: must be from 0 to 1", field="score_threshold")
    _check_groups(rule.groups)
    _check_most("custom_entity_types", rule.custom_types, MAX_CUSTOM_TYPES)
    names = [custom.name for custom in rule.custom_types]
    for index, custom in enumerate(rule.custom_types):
        at = f"custom_entity_types[{index}]"
        _check_name(f"{at}.name", custom.name)
        if info_type(custom.name) is not None or names.count(custom.name) > 1:
            raise Invalid(f"{at}.name: {custom.name!r} is taken by another type", field=at)
        _check_custom(at, custom, compiles)
    _check_columns(rule.columns)


def _check_groups(groups: tuple[TypeGroup, ...]) -> None:
    _check_most("supported_entity_types", groups, MAX_GROUPS)
    for index, group in enumerate(groups):
        at = f"supported_entity_types[{index}]"
        _check_name(f"{at}.name", group.name)
        _check_most(f"{at}.entity_types", group.types, MAX_TYPES)
        for name in group.types:
            if info_type(name) is None:
                known = ", ".join(sorted(InfoType))
                raise Invalid(f"{at}.entity_types: {name!r} is not known; there are {known}", field=at)


def _check_custom(at: str, custom: CustomType, compiles: Callable[[str], str | None]) -> None:
    if not 0 <= custom.score <= 1:
        raise Invalid(f"{at}.score: must be from 0 to 1", field=at)
    if bool(custom.pattern_regex) == bool(custom.words):
        raise Invalid(f"{at}: needs either regex or deny_list", field=at)
    if len(custom.pattern_regex) > MAX_PATTERN_LENGTH:
        raise Invalid(f"{at}.regex: longer than {MAX_PATTERN_LENGTH} characters", field=at)
    if any(not word.strip() for word in custom.words):
        raise Invalid(f"{at}.deny_list: must hold no empty words", field=at)
    if len(custom.words) > MAX_WORDS or any(len(word) > MAX_WORD_LENGTH for word in custom.words):
        raise Invalid(f"{at}.deny_list: at most {MAX_WORDS} words of {MAX_WORD_LENGTH} characters", field=at)
    reason = compiles(custom.pattern_regex) if custom.pattern_regex else None
    if reason is not None:
        raise Invalid(f"{at}.regex: does not compile: {reason}", field=at)


def _check_columns(columns: tuple[str, ...]) -> None:
    _check_most("columns", columns, MAX_COLUMNS)
    for column in columns:
        parts = [column.removeprefix(TAG)] if column.startswith(TAG) else column.split(".")
        if len(parts) > 3 or not all(part.strip() == part != "" for part in parts) or len(column) > MAX_COLUMN_LENGTH:
            raise Invalid(
                f"columns: {column!r} is not name, table.name, schema.table.name or tag:name, of at most "
                f"{MAX_COLUMN_LENGTH} characters",
                field="columns",
            )


def _check_most(field: str, given: Sized, most: int) -> None:
    if len(given) > most:
        raise Invalid(f"{field}: {len(given)} given, at most {most}", field=field)


def _check_name(field: str, name: str) -> None:
    if _UPPER_SNAKE.fullmatch(name) is None:
        raise Invalid(
            f"{field}: {name!r} must have capital letters, digits and underscores, at most 64, a letter first",
            field=field,
        )
