"""The tables that the views of a target read, by the snapshot of its catalogue.

A rule about a table must also apply to the views that read it, and to views of those views. The catalogue has the text
of each view, so a view is analysed as if its query replaced its name. Each dialect says how names are compared and
which relations belong to the server (`DialectViews`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName, Statement
from postern.domain.targets.target_schema import Key, Relation, TargetSchema
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.judging import Draft
from postern.inspection.sql.sql_parser import NO_CATALOGUE

_DEEPEST: Final = 32  # nested views
_WORD: Final = re.compile(r"[\w$#@]+")

JudgeDefinition = Callable[[str, TargetSchema, tuple[Key, ...]], tuple[Statement, ...]]
"""Judges the text of a view; `within` are the views whose definitions led to it, itself the last."""


@dataclass(frozen=True, slots=True)
class ViewReach:
    """The effect of reading a relation. `untraced` is the reason why `objects` may be incomplete. `is_calling`: it, or
    a view in it, calls a function whose effect is unknown."""

    effects: frozenset[Effect] = frozenset()
    objects: frozenset[ObjectName] = frozenset()
    reason: str = ""
    untraced: str = ""
    is_calling: bool = False


_NOTHING: Final = ViewReach()


@dataclass
class ViewResolver:
    """The relations of one snapshot. Each view is analysed once, when a statement first names it. `hint` says what to
    do if the definition of a view is hidden."""

    schema: TargetSchema
    hint: str
    _by_name: dict[str, list[Relation]] = field(default_factory=dict)
    _reached: dict[Key, ViewReach] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for relation in self.schema.relations.values():
            self._by_name.setdefault(fold_identifier(relation.name), []).append(relation)
        allowed = {
            function.name for function in self.schema.functions.values() if not function.schema and function.harmless
        }
        harmful_names = {function.name for function in self.schema.functions.values() if not function.harmless}
        functions = {fold_identifier(name) for name in harmful_names - allowed}
        self._functions = frozenset(name for name in functions if _WORD.fullmatch(name))
        self._odd_functions = functions - self._functions

    def find_relations(self, name: ObjectName) -> list[Relation]:
        """Return every relation that some server may use for this name. Without a schema it may be in any, because
        sessions change their default."""
        schema = fold_identifier(name.schema)
        relations = self._by_name.get(fold_identifier(name.name), [])
        return [relation for relation in relations if not schema or fold_identifier(relation.schema) == schema]

    def reach(self, relation: Relation, within: tuple[Key, ...], judge: JudgeDefinition) -> ViewReach:
        """Return the effect of reading the relation. `within` are the views whose definitions led here, the outermost
        first."""
        key = (relation.schema, relation.name)
        view_reach = self._reached.get(key)
        if view_reach is not None:
            return view_reach
        if not relation.definition:
            return _NOTHING
        if key in within or len(within) >= _DEEPEST:
            return ViewReach(untraced=f"views are nested too deeply at {'.'.join(key)}")
        view_reach = self._judge_view(relation, judge(relation.definition, self.schema, (*within, key)))
        # Results below may have been cut off there, so they are not cached.
        if not within or not view_reach.untraced:
            self._reached[key] = view_reach
        return view_reach

    def _judge_view(self, relation: Relation, statements: Sequence[Statement]) -> ViewReach:
        effects = frozenset(effect for statement in statements for effect in statement.effects)
        objects = frozenset(touched for statement in statements for touched in statement.objects)
        untraced = next((statement.untraced for statement in statements if statement.untraced), "")
        name = f"{relation.schema}.{relation.name}"
        text = fold_identifier(relation.definition)
        is_calling = not self._functions.isdisjoint(_WORD.findall(text))
        is_calling |= any(statement.is_view_calling for statement in statements)
        if is_calling or any(function in text for function in self._odd_functions):
            reason = f"the view {name} calls a function whose effect is unknown"
            return ViewReach(effects | {Effect.UNKNOWN}, objects, reason, untraced, is_calling=True)
        if Effect.UNKNOWN in effects or not statements:
            untraced = untraced or f"the tables that the view {name} reads are unknown; {self.hint}"
        return ViewReach(effects - {Effect.UNKNOWN}, objects, untraced=untraced)


class DialectViews:
    """The views of a dialect's targets."""

    def __init__(self, system: frozenset[str], is_of_system: Callable[[ObjectName], bool], hint: str) -> None:
        """`system` are the server's own schemas. `is_of_system` returns whether a name means a relation of the server,
        which is never a user's view. `hint` says what to do if the definition of a view is hidden."""
        self._system = system
        self._is_of_system = is_of_system
        self._hint = hint
        self.resolver = lru_cache(maxsize=16)(self._make_resolver)

    def _make_resolver(self, schema: TargetSchema) -> ViewResolver:
        """Return the resolver of a snapshot, which is identified by its object identity."""
        return ViewResolver(schema, self._hint)

    def follow(
        self,
        draft: Draft,
        read: Iterable[ObjectName],
        schema: TargetSchema | None,
        within: tuple[Key, ...],
        judge: JudgeDefinition,
    ) -> None:
        """Add to `draft` the effects of reading or writing these relations, beyond their names. A relation that is not
        in the snapshot may be a view that was created since."""
        views = self.resolver(schema) if schema is not None and schema.relations else None
        for name in read:
            if name.kind is not ObjectKind.TABLE or self._is_of_system(name):
                continue
            if views is None:
                draft.untraced = draft.untraced or NO_CATALOGUE
                continue
            relations = views.find_relations(name)
            if not relations:
                spelled = f"{name.schema}.{name.name}" if name.schema else name.name
                draft.untraced = draft.untraced or f"{spelled} is unknown, and could be a view"
            for relation in relations:
                if fold_identifier(relation.schema) in self._system:
                    continue
                reach = views.reach(relation, within, judge)
                draft.effects |= reach.effects
                draft.objects |= reach.objects
                draft.reason = draft.reason or reach.reason
                draft.untraced = draft.untraced or reach.untraced
                draft.is_view_calling |= reach.is_calling
