"""Guard rails: what is refused on its way in or out (spec 2.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from postern.domain.statement import Effect
from postern.errors import Invalid

MAX_RULES = 100
MAX_WORDS = 1_000
MAX_WORD_LENGTH = 1_000
MAX_PATTERN_LENGTH = 10_000


class RuleType(StrEnum):
    """The first two judge text, the others what a statement does."""

    DENY_WORDS_LIST = "deny_words_list"
    PATTERN_MATCH = "pattern_match"
    DENY_STATEMENTS = "deny_statements"
    REQUIRE_WHERE = "require_where"
    READ_ONLY = "read_only"
    MAX_ROWS = "max_rows"


class Action(StrEnum):
    DENY = "deny"
    WARN = "warn"  # let through, and the client is told
    REVIEW = "review"  # held until somebody approves it
    MASK = "mask"  # what hits is replaced: output rules of text only


@dataclass(frozen=True, slots=True)
class Rule:
    """`words` is used by `deny_words_list`, `pattern_regex` by `pattern_match`; otherwise they are empty.

    `deny_statements` hits a statement that has one of `effects` (where given) and touches one of `objects` (where
    given: `schema`, `schema.table`, `schema.*`, `function()`). `unknown` is
    what becomes of a statement that cannot be judged, for all types that look at statements. `allow_functions` are
    functions of the target that the rule takes for harmless. `most` is the number of rows of `max_rows`. `message` is
    shown in the place of the rule's name.
    """

    type: RuleType
    words: tuple[str, ...] = ()
    pattern_regex: str = ""
    name: str | None = None
    action: Action = Action.DENY
    message: str = ""
    whole_words: bool = True
    case_sensitive: bool = False
    effects: frozenset[Effect] = frozenset()
    objects: tuple[str, ...] = ()
    unknown: Action | None = None  # None: as `action`
    allow_functions: tuple[str, ...] = ()
    most: int = 0


@dataclass(frozen=True, slots=True)
class GuardRail:
    id: UUID
    org_id: UUID
    name: str
    description: str = ""
    input: tuple[Rule, ...] = ()
    output: tuple[Rule, ...] = ()
    connection_ids: tuple[UUID, ...] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None


def check_rules(rules: tuple[Rule, ...], where: str, compiles: Callable[[str], str | None]) -> None:
    """Refuses what could not be enforced. `compiles(pattern)` answers None, or why it does not compile."""
    if len(rules) > MAX_RULES:
        raise Invalid(f"{where}.rules: {len(rules)} rules given, at most {MAX_RULES}", field=f"{where}.rules")
    for index, rule in enumerate(rules):
        at = f"{where}.rules[{index}]"
        if rule.type is RuleType.DENY_WORDS_LIST:
            if rule.pattern_regex:
                raise Invalid(f"{at}.pattern_regex: must be empty for type deny_words_list", field=at)
            if not rule.words or any(not word.strip() for word in rule.words):
                raise Invalid(f"{at}.words: needs at least one word, and no empty ones", field=at)
            if len(rule.words) > MAX_WORDS or any(len(word) > MAX_WORD_LENGTH for word in rule.words):
                raise Invalid(f"{at}.words: at most {MAX_WORDS} words of {MAX_WORD_LENGTH} characters", field=at)
        else:
            if rule.words:
                raise Invalid(f"{at}.words: must be empty for type pattern_match", field=at)
            if not rule.pattern_regex:
                raise Invalid(f"{at}.pattern_regex: must not be empty for type pattern_match", field=at)
            if len(rule.pattern_regex) > MAX_PATTERN_LENGTH:
                raise Invalid(f"{at}.pattern_regex: longer than {MAX_PATTERN_LENGTH} characters", field=at)
            reason = compiles(rule.pattern_regex)
            if reason is not None:
                raise Invalid(f"{at}.pattern_regex: does not compile: {reason}", field=at)
