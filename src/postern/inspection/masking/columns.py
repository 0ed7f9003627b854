"""Which columns of an answer are masked whatever they hold, and where that cannot be known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from postern.domain.masking import MaskingRule, Strategy, Strictness
from postern.domain.target_schema import ColumnRef
from postern.inspection.masking.origins import ColumnPatterns, Origins, Sources
from postern.inspection.masking.strategies import Substitutes
from postern.interception.events import Column

# What shows least comes first: where two rules speak of one value the first one has it.
STRENGTH = {strategy: place for place, strategy in enumerate(("null", "replace", "hash", "partial"))}


def by_strength(rule: MaskingRule) -> int:
    return STRENGTH[rule.strategy]


class ColumnRule:
    """A rule as far as it speaks of columns."""

    def __init__(self, rule: MaskingRule, substitutes: Substitutes) -> None:
        self.name = rule.name
        self.substitutes = substitutes
        self.finds = rule.finds
        self.is_strict = rule.strictness is Strictness.STRICT
        self.patterns = ColumnPatterns(rule.columns)

    @property
    def is_null(self) -> bool:
        return self.substitutes.strategy is Strategy.NULL


@dataclass(frozen=True, slots=True)
class Doubt:
    """A column of which a rule cannot tell whether it speaks of it."""

    rule: ColumnRule
    column: str


@dataclass(frozen=True, slots=True)
class Decided:
    """The rule of each column, and what could not be told; only the first of the strict doubts matters."""

    rules: tuple[ColumnRule | None, ...]
    doubts: tuple[Doubt, ...] = ()

    @property
    def refused(self) -> Doubt | None:
        return next((doubt for doubt in self.doubts if doubt.rule.is_strict), None)


class Columns:
    """All rules about columns of one session. Without `origins` the names in the answer are all that is known: rules
    about tables and tags are in doubt then."""

    def __init__(self, rules: Sequence[ColumnRule], origins: Origins | None) -> None:
        self._rules = tuple(rules)
        self._origins = origins
        # What comes from nobody knows where may be anything.
        self.unsure = Decided((), tuple(Doubt(one, "") for one in self._rules if not one.finds))

    def asked(self, statement: str) -> None:
        if self._origins is not None:
            self._origins.asked(statement)

    def sources(self, statements: Sequence[str], columns: tuple[Column, ...]) -> Sources | None:
        """Of the answer to one of these statements, whichever it was."""
        if self._origins is None or not statements:
            return None
        merged: Sources | None = None
        for statement in statements:
            found = self._origins.of(statement, columns)
            if found is None or (columns and len(found) != len(columns)):
                return None
            if merged is not None and len(merged) != len(found):
                return None
            merged = found if merged is None else tuple(map(_either, merged, found))
        return merged

    def decide(self, columns: tuple[Column, ...], sources: Sources | None) -> Decided:
        """For rows, which tell the names of their columns."""
        chosen: list[ColumnRule | None] = []
        doubts: list[Doubt] = []
        for place, column in enumerate(columns):
            of = None if sources is None else sources[place]
            rule = self._rule_of(column.name, of)
            chosen.append(rule)
            if rule is None and of is None:
                doubts += [
                    Doubt(one, column.name)
                    for one in self._rules
                    if not one.finds and (self._origins is not None or one.patterns.needs_origins)
                ]
        return Decided(tuple(chosen), tuple(doubts))

    def decide_copy(self, sources: Sources | None) -> Decided:
        """For copied data, which has no names."""
        if sources is None:
            return self.unsure
        doubts = [
            Doubt(one, f"number {place}")
            for place, of in enumerate(sources, 1)
            if of is None
            for one in self._rules
            if not one.finds
        ]
        return Decided(tuple(self._rule_of("", of) for of in sources), tuple(doubts))

    def _rule_of(self, name: str, of: frozenset[ColumnRef] | None) -> ColumnRule | None:
        for rule in self._rules:
            if rule.patterns.match_name(name):
                return rule
            for ref in of or ():
                if rule.patterns.match(ref, self._origins.tags(ref) if self._origins else frozenset()):
                    return rule
        return None


def _either(one: frozenset[ColumnRef] | None, other: frozenset[ColumnRef] | None) -> frozenset[ColumnRef] | None:
    return None if one is None or other is None else one | other
