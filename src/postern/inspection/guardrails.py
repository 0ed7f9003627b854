"""Guard rails: refuses an operation or an answer that a rule hits (spec 2.5).

Input rules judge the statement and each bind value; output rules judge each text of an answer. They are rules about
text: how a statement is spelled, not what it does. Comments cannot hide from them (see `sql_comments`), but quoting,
dynamic SQL and other spellings of the same thing can.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from postern.domain.guardrail import GuardRail, Rule, RuleType
from postern.inspection.patterns import Lookup, readable, word_pattern
from postern.inspection.sql_comments import readings
from postern.interception.events import Event, Operation, Output, Rows
from postern.interception.pipeline import SessionView
from postern.interception.verdicts import FORWARD, Refuse, Verdict

CACHED_STATEMENTS = 1024
CACHED_STATEMENT_BYTES = 16 * 1024
CACHED_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Culprit:
    """The rule that hit: its guard rail's name, and its own name or place."""

    rail: str
    rule: str


class RuleSet:
    """All rules of one direction: one combined look-up, and one for each rule to name the culprit."""

    def __init__(self, rules: Iterable[tuple[Culprit, Rule]]) -> None:
        named = [(culprit, _patterns(rule)) for culprit, rule in rules]
        self._each = [(culprit, Lookup(patterns)) for culprit, patterns in named]
        self._all = Lookup([pattern for _, patterns in named for pattern in patterns])

    @property
    def first(self) -> Culprit:
        return self._each[0][0]

    def judge(self, texts: Sequence[bytes]) -> Culprit | None:
        """The first rule that hits the first text that is hit, or None."""
        index = self._all.first_hit(texts)
        if index is None:
            return None
        text = readable(texts[index])
        return next(culprit for culprit, lookup in self._each if lookup.hits(text))


class StatementCache:
    """What was found for the statements judged last. Bounded in number and in bytes."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, Culprit | None] = OrderedDict()
        self._size = 0

    def __contains__(self, text: str) -> bool:
        return text in self._found

    def __len__(self) -> int:
        return len(self._found)

    def get(self, text: str) -> Culprit | None:
        self._found.move_to_end(text)
        return self._found[text]

    def put(self, text: str, culprit: Culprit | None) -> None:
        if len(text) > CACHED_STATEMENT_BYTES:
            return
        self._found[text] = culprit
        self._size += len(text)
        while len(self._found) > CACHED_STATEMENTS or self._size > CACHED_BYTES:
            oldest, _ = self._found.popitem(last=False)
            self._size -= len(oldest)


class GuardRails:
    """The interceptor. Sessions under the same rules share what is compiled and what was judged.

    Raises Invalid when a rule cannot be loaded: such a session must not begin.
    """

    name = "guard rails"

    def __init__(self, rules: tuple[GuardRail, ...]) -> None:
        self._input, self._output, self._statements = _load(rules)
        wants: set[type[Event]] = set()
        if self._input:
            wants.add(Operation)
        if self._output:
            wants |= {Rows, Output}
        self.wants: frozenset[type[Event]] = frozenset(wants)

    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Operation):
            return self._see_operation(event, session) if self._input else FORWARD
        if isinstance(event, Rows):
            texts = [text for column in range(len(event.columns)) for text in event.texts(column)]
        elif isinstance(event, Output):
            texts = event.texts()
        else:
            return FORWARD
        culprit = self._output.judge(texts) if self._output and texts else None
        return _refuse(culprit, session) if culprit else FORWARD

    def _see_operation(self, event: Operation, session: SessionView) -> Verdict:
        assert self._input
        if event.truncated:
            return _refuse(self._input.first, session, "this is too large to be judged by")
        culprit = self._judge_statement(event.text)
        if culprit is None and event.values:
            culprit = self._input.judge([value for value in event.values if value is not None])
        return _refuse(culprit, session) if culprit else FORWARD

    def _judge_statement(self, text: str) -> Culprit | None:
        assert self._input
        if text in self._statements:
            return self._statements.get(text)
        culprit = self._input.judge(readings(text.encode("utf-8", "replace")))
        self._statements.put(text, culprit)
        return culprit


@lru_cache(maxsize=64)
def _load(rails: tuple[GuardRail, ...]) -> tuple[RuleSet | None, RuleSet | None, StatementCache]:
    inputs = [named for rail in rails for named in _named(rail, rail.input)]
    outputs = [named for rail in rails for named in _named(rail, rail.output)]
    return (RuleSet(inputs) if inputs else None, RuleSet(outputs) if outputs else None, StatementCache())


def _named(rail: GuardRail, rules: tuple[Rule, ...]) -> list[tuple[Culprit, Rule]]:
    return [(Culprit(rail.name, rule.name or str(number)), rule) for number, rule in enumerate(rules, 1)]


def _patterns(rule: Rule) -> list[str]:
    if rule.type is RuleType.DENY_WORDS_LIST:
        return [word_pattern(word) for word in rule.words]
    return [rule.pattern_regex]


def _refuse(culprit: Culprit, session: SessionView, what: str = "blocked by") -> Refuse:
    return Refuse(
        rule=f"{culprit.rail} / {culprit.rule}",
        message=f'{what} guard rail "{culprit.rail}" (rule "{culprit.rule}")',
        hint=f'If you need this on connection "{session.connection}", ask an administrator to change the guard rail.',
    )
