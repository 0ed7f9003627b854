"""Guardrails: input or output that is denied, held, masked or warned about (spec 2.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from postern.domain.rules.guarded_objects import parse_guarded
from postern.domain.rules.statement import Effect
from postern.domain.targets.connection import OPAQUE, OPAQUE_REASON, TEXTUAL
from postern.errors import Invalid

MAX_RULES = 100
MAX_WORDS = 1_000
MAX_WORD_LENGTH = 1_000
MAX_PATTERN_LENGTH = 10_000
MAX_SIZE = 100_000  # characters of all words and patterns of one direction: what compiling them costs
MAX_OBJECTS = 1_000
MAX_MESSAGE = 500
MAX_NAME = 128
MAX_ROWS = 1_000_000_000


class RuleType(StrEnum):
    """The first two match text, the others what a statement does."""

    DENY_WORDS_LIST = "deny_words_list"
    PATTERN_MATCH = "pattern_match"
    DENY_STATEMENTS = "deny_statements"
    REQUIRE_WHERE = "require_where"
    READ_ONLY = "read_only"
    DENY_FULL_SCANS = "deny_full_scans"
    MAX_ROWS = "max_rows"


TEXT_TYPES = frozenset({RuleType.DENY_WORDS_LIST, RuleType.PATTERN_MATCH})
STATEMENT_TYPES = frozenset(
    {RuleType.DENY_STATEMENTS, RuleType.REQUIRE_WHERE, RuleType.READ_ONLY, RuleType.DENY_FULL_SCANS}
)


class Action(StrEnum):
    DENY = "deny"
    WARN = "warn"  # let through, and the client is told
    REVIEW = "review"  # held until it is approved
    MASK = "mask"  # what hits is replaced: output rules of text only


class Unknown(StrEnum):
    """What happens to a statement of which it is unknown whether a rule matches."""

    DENY = "deny"
    WARN = "warn"
    REVIEW = "review"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class Rule:
    """`words` is used by `deny_words_list`, `pattern_regex` by `pattern_match`; otherwise they are empty.

    `deny_statements` hits a statement that has one of `effects` (where given) and touches one of `objects` (where
    given, spelled as `guarded_objects` says); `deny_full_scans` one that reads any table whole, or one of `objects`.
    `unknown` is what becomes of a statement that cannot be judged, for all
    types that look at statements. `allow_functions` are functions of the target that the rule takes for harmless.
    `most` is the number of rows of `max_rows`. `message` is shown in the place of what the rule is called.
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
    unknown: Unknown | None = None  # None: as `action`
    allow_functions: tuple[str, ...] = ()
    most: int = 0

    @property
    def judges_statements(self) -> bool:
        return self.type in STATEMENT_TYPES


@dataclass(frozen=True, slots=True)
class Guardrail:
    """`enabled`: its rules apply to its connections; otherwise it is only stored, to be tried and simulated."""

    id: UUID
    org_id: UUID
    name: str
    description: str = ""
    enabled: bool = True
    input: tuple[Rule, ...] = ()
    output: tuple[Rule, ...] = ()
    connection_ids: tuple[UUID, ...] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    managed_by: str | None = None

    @property
    def judges_statements(self) -> bool:
        """Whether it needs a parser for the target's protocol."""
        return any(rule.judges_statements for rule in self.input)

    @property
    def counts_rows(self) -> bool:
        """Whether it needs output with rows."""
        return any(rule.type is RuleType.MAX_ROWS for rule in self.output)


def unenforceable(rail: Guardrail, protocol: str, parsed: frozenset[str]) -> str | None:
    """Return why this guardrail cannot be enforced on `protocol`; None where it can. `parsed` names the protocols
    with a parser."""
    if protocol in OPAQUE:
        return f"guardrail {rail.name!r} cannot be enforced on subtype {protocol!r}: {OPAQUE_REASON}"
    if rail.judges_statements and protocol not in parsed:
        return (
            f"guardrail {rail.name!r} evaluates the effects of statements, but there is no "
            f"parser for {protocol!r}; use text rules there"
        )
    if rail.counts_rows and protocol in TEXTUAL:
        return (
            f"guardrail {rail.name!r} counts rows, but the output of a command or a shell has "
            "none; use text rules there"
        )
    return None


Compiles = Callable[[str], str | None]


def check_rules(rules: tuple[Rule, ...], where: str, compiles: Compiles) -> None:
    """Reject rules that could not be enforced. `where` is `input` or `output`; `compiles(pattern)` returns None, or
    why it does not compile. Raises Invalid, which names the rule and the field."""
    if len(rules) > MAX_RULES:
        raise Invalid(f"{where}.rules: {len(rules)} rules given, at most {MAX_RULES}", field=f"{where}.rules")
    size = sum(sum(map(len, rule.words)) + len(rule.pattern_regex) for rule in rules)
    if size > MAX_SIZE:
        raise Invalid(
            f"{where}.rules: words and patterns of {size} characters given, at most {MAX_SIZE}", field=f"{where}.rules"
        )
    for index, rule in enumerate(rules):
        at = f"{where}.rules[{index}]"
        _check_texts(rule, at)
        _check_place(rule, at, where)
        _check_unused(rule, at)
        if rule.type is RuleType.PATTERN_MATCH:
            _check_pattern(rule, at, compiles)
        else:
            _CHECKS[rule.type](rule, at)


def _check_texts(rule: Rule, at: str) -> None:
    for field, text, most in (("name", rule.name or "", MAX_NAME), ("message", rule.message, MAX_MESSAGE)):
        if len(text) > most or any(ord(character) < 32 for character in text):
            raise Invalid(f"{at}.{field}: at most {most} characters, and no control characters", field=at)


def _check_place(rule: Rule, at: str, where: str) -> None:
    """Check that the direction supports the type and action."""
    if where == "input" and rule.type is RuleType.MAX_ROWS:
        raise Invalid(f"{at}.type: max_rows applies to output; move the rule to output.rules", field=at)
    if where == "output" and rule.judges_statements:
        raise Invalid(f"{at}.type: {rule.type} applies to input; move the rule to input.rules", field=at)
    if rule.action is Action.MASK and not (where == "output" and rule.type in TEXT_TYPES):
        raise Invalid(f"{at}.action: mask is for output rules of type deny_words_list or pattern_match", field=at)
    if rule.action is Action.REVIEW and where == "output":
        raise Invalid(f"{at}.action: output cannot wait for a review; move the rule to input.rules", field=at)
    if rule.action is not Action.DENY and rule.type is RuleType.MAX_ROWS:
        raise Invalid(f"{at}.action: max_rows can only deny", field=at)


# What each type has of the fields that not all have.
_USES: dict[RuleType, frozenset[str]] = {
    RuleType.DENY_WORDS_LIST: frozenset({"words", "whole_words", "case_sensitive"}),
    RuleType.PATTERN_MATCH: frozenset({"pattern_regex"}),
    RuleType.DENY_STATEMENTS: frozenset({"effects", "objects", "unknown", "allow_functions"}),
    RuleType.REQUIRE_WHERE: frozenset({"unknown", "allow_functions"}),
    RuleType.READ_ONLY: frozenset({"unknown", "allow_functions"}),
    RuleType.DENY_FULL_SCANS: frozenset({"objects", "unknown", "allow_functions"}),
    RuleType.MAX_ROWS: frozenset({"most"}),
}


def _check_unused(rule: Rule, at: str) -> None:
    """Reject a field without effect: its author expects it to protect."""
    plain = Rule(rule.type)
    for field in sorted(set().union(*_USES.values()) - _USES[rule.type]):
        if getattr(rule, field) != getattr(plain, field):
            raise Invalid(f"{at}.{field}: must be left out for type {rule.type}", field=at)


def _check_words(rule: Rule, at: str) -> None:
    if not rule.words or any(not word.strip() for word in rule.words):
        raise Invalid(f"{at}.words: needs at least one word, and no empty ones", field=at)
    if len(rule.words) > MAX_WORDS or any(len(word) > MAX_WORD_LENGTH for word in rule.words):
        raise Invalid(f"{at}.words: at most {MAX_WORDS} words of {MAX_WORD_LENGTH} characters", field=at)


def _check_pattern(rule: Rule, at: str, compiles: Compiles) -> None:
    if not rule.pattern_regex:
        raise Invalid(f"{at}.pattern_regex: must not be empty for type pattern_match", field=at)
    if len(rule.pattern_regex) > MAX_PATTERN_LENGTH:
        raise Invalid(f"{at}.pattern_regex: longer than {MAX_PATTERN_LENGTH} characters", field=at)
    reason = compiles(rule.pattern_regex)
    if reason is not None:
        raise Invalid(f"{at}.pattern_regex: does not compile: {reason}", field=at)


def _check_statements(rule: Rule, at: str) -> None:
    if not rule.effects and not rule.objects:
        raise Invalid(f"{at}: deny_statements needs effects, objects, or both", field=at)
    _check_objects(rule.objects, f"{at}.objects")
    _check_functions(rule, at)


def _check_scans(rule: Rule, at: str) -> None:
    _check_objects(rule.objects, f"{at}.objects")
    if any(spelled.endswith("()") for spelled in rule.objects):
        raise Invalid(f"{at}.objects: deny_full_scans accepts only tables and schemas", field=at)
    _check_functions(rule, at)


def _check_functions(rule: Rule, at: str) -> None:
    _check_objects(rule.allow_functions, f"{at}.allow_functions")
    for spelled in rule.allow_functions:
        if not spelled.endswith("()"):
            raise Invalid(f"{at}.allow_functions: {spelled!r} must be f() or schema.f()", field=at)


def _check_objects(objects: tuple[str, ...], at: str) -> None:
    if len(objects) > MAX_OBJECTS:
        raise Invalid(f"{at}: at most {MAX_OBJECTS} objects", field=at)
    for spelled in objects:
        parse_guarded(spelled, at)


def _check_rows(rule: Rule, at: str) -> None:
    if not 1 <= rule.most <= MAX_ROWS:
        raise Invalid(f"{at}.most: max_rows needs a number of rows from 1 to {MAX_ROWS}", field=at)


_CHECKS: dict[RuleType, Callable[[Rule, str], None]] = {
    RuleType.DENY_WORDS_LIST: _check_words,
    RuleType.DENY_STATEMENTS: _check_statements,
    RuleType.REQUIRE_WHERE: _check_functions,
    RuleType.READ_ONLY: _check_functions,
    RuleType.DENY_FULL_SCANS: _check_scans,
    RuleType.MAX_ROWS: _check_rows,
}
