"""Statement rules: they judge what a statement does, as the parser of the connection's dialect reads it.

A statement has effects (read, write, ddl, …) and objects that it touches. A rule either matches for certain, does not
match, or cannot tell: the text does not say which schema a name belongs to, or a function's effect is not known. The
rule's `unknown` says what happens in that last case. Its default is the rule's own action, so that doubt fails closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from postern.domain.rules.guarded_objects import Guarded, parse_guarded
from postern.domain.rules.guardrail import Action, Rule, RuleType, Unknown
from postern.domain.rules.statement import EVERYTHING, Effect, ObjectKind, ObjectName, Statement
from postern.domain.targets.target_schema import Function, TargetSchema
from postern.errors import Invalid
from postern.inspection.guardrails.guardrail_findings import Culprit, GuardrailFinding, StatementCache
from postern.inspection.sql.sql_parser import Parser, SessionParser, unknown

MAX_PARSED: Final = 1 << 20  # characters; longer texts are unknown

_HARMLESS: Final = frozenset({Effect.READ, Effect.SESSION})
_NOT_TOLD: Final = "its effect cannot be determined from its text"


class StatementRule:
    """Rule that is ready to judge statements."""

    def __init__(self, culprit: Culprit, rule: Rule) -> None:
        self.culprit = culprit
        self._rule = rule
        self._guarded = [parse_guarded(spelled, "objects") for spelled in rule.objects]
        self.harmless = tuple(sorted({_function(spelled) for spelled in rule.allow_functions}))

    def judge(self, statement: Statement, target: TargetSchema | None) -> GuardrailFinding | None:
        reason = self._hit(statement, target)
        if reason:
            return GuardrailFinding(self.culprit, self._rule.action, reason)
        why = self._unknown(statement, target)
        if not why or self._rule.unknown is Unknown.ALLOW:
            return None
        action = self._rule.action if self._rule.unknown is None else Action(str(self._rule.unknown))
        return GuardrailFinding(self.culprit, action, why, unknown=True)

    def _hit(self, statement: Statement, target: TargetSchema | None) -> str:
        """Return how the statement matches the rule; empty if it does not, or not for certain."""
        tag = statement.tag or "this statement"
        rule = self._rule
        if rule.type is RuleType.REQUIRE_WHERE:
            # TRUNCATE deletes all rows too, and its grammar has no condition.
            is_whole = statement.without_where or statement.tag.startswith("TRUNCATE")
            return f"{tag} has no condition" if is_whole else ""
        if rule.type is RuleType.READ_ONLY:
            return _describe_effects(tag, statement.effects - _HARMLESS - {Effect.UNKNOWN})
        if rule.type is RuleType.DENY_FULL_SCANS:
            scanned = self._first(statement.scans, target, sure=True)
            return f"{tag} reads all of {_spell(scanned)}; add a condition or a LIMIT" if scanned is not None else ""
        matching_effects = statement.effects & rule.effects if rule.effects else statement.effects
        if not matching_effects:
            return ""
        if not self._guarded:
            if matching_effects == {Effect.UNKNOWN}:
                return statement.reason or _NOT_TOLD
            return _describe_effects(tag, matching_effects - {Effect.UNKNOWN})
        touched = self._first(statement.objects, target, sure=True)
        if touched is None:
            return ""
        return f"{tag} touches {_spell(touched)}" + (_AMBIGUOUS if _is_bare(touched, self._guarded) else "")

    def _unknown(self, statement: Statement, target: TargetSchema | None) -> str:
        """Return why a match cannot be excluded; empty if it can."""
        if Effect.UNKNOWN in statement.effects:
            return statement.reason or _NOT_TOLD
        if not self._guarded or (self._rule.effects and not statement.effects & self._rule.effects):
            return ""
        if statement.untraced and self._rule.type is RuleType.DENY_STATEMENTS and target is not UNASKED:
            return statement.untraced
        of_scan = self._rule.type is RuleType.DENY_FULL_SCANS
        touched = self._first(statement.scans if of_scan else statement.objects, target, sure=False)
        if touched is None:
            return ""
        return f"the schema of {touched.name} cannot be determined; write it as schema.{touched.name}"

    def _first(self, objects: frozenset[ObjectName], target: TargetSchema | None, *, sure: bool) -> ObjectName | None:
        """Return the first object that the rule covers; any object, if the rule names none."""
        verdict = True if sure else None
        for touched in sorted(objects, key=_order):
            if sure and not self._guarded:
                return touched
            for guard in self._guarded:
                if guard.hit_by(touched, target) is verdict:
                    return touched
        return None


class StatementRules:
    """Statement rules of one connection, with its parser. Raises Invalid without a parser."""

    def __init__(
        self, rules: Sequence[tuple[Culprit, Rule]], parser: Parser | None, target: TargetSchema | None = None
    ) -> None:
        if parser is None:
            culprit = rules[0][0]
            raise Invalid(
                f"{culprit.label} evaluates what statements do, but there is no parser for this connection; "
                "use text rules there"
            )
        self._parser = parser
        self._target = target
        self._shapes = parser.shapes
        self._harmless = StatementCache()  # shapes that no rule matches
        # `allow_functions` of one rule must not affect another. Each distinct set of functions is parsed separately,
        # with a schema of its own, because parsers cache by the schema's identity.
        self._schemas: dict[tuple[tuple[str, str], ...], TargetSchema | None] = {}
        self._by_harmless: dict[tuple[tuple[str, str], ...], list[StatementRule]] = {}
        for culprit, rule in rules:
            statement_rule = StatementRule(culprit, rule)
            self._by_harmless.setdefault(statement_rule.harmless, []).append(statement_rule)
            if statement_rule.harmless not in self._schemas:
                self._schemas[statement_rule.harmless] = _with_harmless(target, statement_rule.harmless)

    def judge(self, text: str, parser: SessionParser | None = None) -> GuardrailFinding | None:
        """Return the most severe finding, and among those the first by the order of rules and statements.

        `parser` is that of the session, for texts that only mean something in it.
        """
        shape = self._shapes.of(text) if self._shapes is not None and parser is None else None
        if shape is not None and self._harmless.get(shape) is not None:
            return None
        worst = self._judge(text, parser)
        if shape is not None and worst is None:
            self._harmless.put(shape, None)
        return worst

    def _judge(self, text: str, parser: SessionParser | None) -> GuardrailFinding | None:
        worst: GuardrailFinding | None = None
        for harmless, rules in self._by_harmless.items():
            statements = self.parse(text, harmless, parser)
            for rule in rules:
                for statement in statements:
                    worst = worse(worst, rule.judge(statement, self._target))
        return worst

    def parse(
        self, text: str, harmless: tuple[tuple[str, str], ...] = (), parser: SessionParser | None = None
    ) -> tuple[Statement, ...]:
        if len(text) > MAX_PARSED:
            return (unknown(f"it exceeds the {MAX_PARSED} characters that are parsed"),)
        schema = self._schemas.get(harmless, self._target)
        return self._parser.parse(text, schema) if parser is None else parser.parse(text, schema)


def worse(finding: GuardrailFinding | None, other: GuardrailFinding | None) -> GuardrailFinding | None:
    """Return the more severe of both, or the first if they are equal."""
    if finding is None or other is None:
        return other if finding is None else finding
    return other if _RANK[other.action] < _RANK[finding.action] else finding


_RANK: Final = {Action.DENY: 0, Action.REVIEW: 1, Action.MASK: 2, Action.WARN: 3}


# Schema where no target was queried, as in trials. Rules about objects then judge the names in a statement, and not
# what views read.
UNASKED: Final = TargetSchema()


def _with_harmless(target: TargetSchema | None, harmless: tuple[tuple[str, str], ...]) -> TargetSchema | None:
    if not harmless:
        return target
    schema_or_empty = target or TargetSchema()
    functions = dict(schema_or_empty.functions)
    for schema, name in harmless:
        functions[schema, name] = Function(schema, name, harmless=True)
    return replace(schema_or_empty, functions=functions)


def _function(spelled: str) -> tuple[str, str]:
    """Return schema and name of an allowed function. Only letter case is normalised, so that nothing else is
    allowed.
    """
    parse_guarded(spelled, "allow_functions")
    schema, _, name = spelled.lower().removesuffix("()").rpartition(".")
    return schema.strip().removeprefix("*"), name.strip()


def _describe_effects(tag: str, effects: frozenset[Effect]) -> str:
    return f"{tag} ({', '.join(sorted(effects))})" if effects else ""


_AMBIGUOUS: Final = ", which can be in any schema; if you mean another one, write it with its schema"


def _is_bare(touched: ObjectName, rules: Sequence[Guarded]) -> bool:
    """Return whether it is named without a schema, and the rules need one."""
    bare = not touched.schema and touched.kind is not ObjectKind.SCHEMA
    return bare and all(guard.schema or guard.kind is ObjectKind.SCHEMA for guard in rules if guard.hit_by(touched))


def _order(touched: ObjectName) -> tuple[str, str, str]:
    return str(touched.kind), touched.schema, touched.name


def _spell(touched: ObjectName) -> str:
    if touched == EVERYTHING:
        return "unknown objects"
    name = f"{touched.schema}.{touched.name}" if touched.schema else touched.name
    return f"{name}()" if touched.kind is ObjectKind.FUNCTION else name
