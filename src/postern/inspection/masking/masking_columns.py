"""Rules about columns: which columns of an answer are masked whatever they contain, and which are in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from postern.domain.rules.masking import MaskingRule, Strictness
from postern.domain.sessions.results import Mask
from postern.domain.targets.target_schema import ColumnRef, Origin
from postern.inspection.lineage.unread import UnreadText
from postern.inspection.masking.origins import ColumnPatterns, DocumentOrigins, Origins, Sources
from postern.inspection.masking.strategies import Substitutes
from postern.interception.events import Column

# The strategy that shows least comes first: it wins if two rules match one value.
STRENGTH = {strategy: place for place, strategy in enumerate(("null", "replace", "hash", "partial"))}


def by_strength(rule: MaskingRule) -> int:
    return STRENGTH[rule.strategy]


class ColumnRule:
    """Part of a rule that concerns columns."""

    def __init__(self, rule: MaskingRule, substitutes: Substitutes) -> None:
        self.name = rule.name
        self.mask = Mask(rule.name, rule.strategy.value)
        self.substitutes = substitutes
        self.finds = rule.finds
        self.is_strict = rule.strictness is Strictness.STRICT
        self.patterns = ColumnPatterns(rule.columns)

    @property
    def may_doubt(self) -> bool:
        """Return whether an unknown origin matters to the rule: it denies the answer, or does not search values."""
        return self.is_strict or not self.finds


@dataclass(frozen=True, slots=True)
class Doubt:
    """Column for which it is unknown whether a rule matches."""

    rule: ColumnRule
    column: str


@dataclass(frozen=True, slots=True)
class ChosenRule:
    """Rule that masks a column.

    If the column is not `plain`, a statement computed it from a masked value. Its value, its shape and whether it is
    NULL can reveal anything about that value, so it becomes a constant.
    """

    rule: ColumnRule
    plain: bool


@dataclass(frozen=True, slots=True)
class Decided:
    """Masking decision for each column, and the doubts. Only the first strict doubt matters."""

    chosen: tuple[ChosenRule | None, ...]
    doubts: tuple[Doubt, ...] = ()

    @property
    def refused(self) -> Doubt | None:
        return next((doubt for doubt in self.doubts if doubt.rule.is_strict), None)


class ColumnRules:
    """All rules about columns of one session. Without `origins`, only the names in the answer are known, and rules
    about tables and tags are in doubt.
    """

    def __init__(self, rules: Sequence[ColumnRule], origins: Origins | None) -> None:
        self._rules = tuple(rules)
        self._origins = origins
        self._shaped = origins if isinstance(origins, DocumentOrigins) else None
        # Data of unknown origin can be anything.
        self.unsure = Decided((), tuple(Doubt(rule, "") for rule in self._rules if rule.may_doubt))

    def record_statement(self, statement: str) -> None:
        if self._origins is not None:
            self._origins.record_statement(statement)

    def unread(self, statement: str) -> UnreadText | None:
        return None if self._origins is None else self._origins.unread(statement)

    def sources(self, statements: Sequence[str], columns: tuple[Column, ...]) -> Sources | None:
        """Return the origins for an answer to one of these statements, whichever it was."""
        if self._origins is None or not statements:
            return None
        merged: Sources | None = None
        for statement in statements:
            origins = self._origins.of(statement, columns)
            if origins is None or (columns and len(origins) != len(columns)):
                return None
            if merged is not None and len(merged) != len(origins):
                return None
            merged = origins if merged is None else tuple(map(_either, merged, origins))
        return merged

    @property
    def judges_shape(self) -> bool:
        return self._shaped is not None

    def find_shape_doubts(self, statements: Sequence[str]) -> tuple[Doubt, ...]:
        """Return the doubts about answers in which masked values decide which columns a row has, or how many
        elements.
        """
        if self._shaped is None:
            return ()
        shapes = [self._shaped.shape(statement) for statement in statements]
        return tuple(
            Doubt(rule, "")
            for rule in self._rules
            if rule.may_doubt and any(refs is None or any(self._masks(rule, ref) for ref in refs) for refs in shapes)
        )

    def decide(self, columns: tuple[Column, ...], sources: Sources | None) -> Decided:
        """Decide for rows, which have column names."""
        chosen: list[ChosenRule | None] = []
        doubts: list[Doubt] = []
        for place, column in enumerate(columns):
            of = None if sources is None else sources[place]
            choice = self._choose(column.name, of)
            chosen.append(choice)
            if choice is None and of is None:
                doubts += [
                    Doubt(rule, column.name)
                    for rule in self._rules
                    if rule.may_doubt and (self._origins is not None or rule.patterns.needs_origins)
                ]
        return Decided(tuple(chosen), tuple(doubts))

    def decide_copy(self, sources: Sources | None) -> Decided:
        """Decide for copied data, which has no names."""
        if sources is None:
            return self.unsure
        doubts = [
            Doubt(rule, f"number {place}")
            for place, of in enumerate(sources, 1)
            if of is None
            for rule in self._rules
            if rule.may_doubt
        ]
        return Decided(tuple(self._choose("", of) for of in sources), tuple(doubts))

    def _choose(self, name: str, of: Origin | None) -> ChosenRule | None:
        for rule in self._rules:
            if of is None:
                if rule.patterns.match_name(name):
                    return ChosenRule(rule, plain=self._origins is None)
            elif rule.patterns.match_name(name) or any(self._masks(rule, ref) for ref in of.refs):
                return ChosenRule(rule, plain=self._is_plain(rule, of))
        return None

    def _is_plain(self, rule: ColumnRule, of: Origin) -> bool:
        """Return whether it only passes through columns that the rule masks, and depends on no other masked column.

        An unmasked column under the name of a masked one would let a client hash values of its choice.
        """
        if not all(any(self._masks(rule, ref) for ref in names) for names in of.plain):
            return False
        others = of.refs.difference(*of.plain)
        return bool(of.plain) and not any(self._masks(other_rule, ref) for other_rule in self._rules for ref in others)

    def _masks(self, rule: ColumnRule, ref: ColumnRef) -> bool:
        return rule.patterns.match(ref, self._origins.tags(ref) if self._origins else frozenset())


def _either(origin: Origin | None, other: Origin | None) -> Origin | None:
    if origin is None or other is None:
        return None
    return Origin(origin.refs | other.refs, origin.plain | other.plain if origin.plain and other.plain else frozenset())
