"""Compiled rules of guardrails, and their judgement of a statement."""

from __future__ import annotations

from functools import lru_cache

from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.guardrails.guardrail_findings import Culprit, GuardrailFinding, StatementCache, name_rules
from postern.inspection.guardrails.guardrail_texts import Masker, by_severity, of_text
from postern.inspection.guardrails.statements import StatementRules, worse
from postern.inspection.sql.sql_parser import Parser, SessionParser
from postern.inspection.sql_comments import readings


class CompiledRules:
    """Compiled rules by direction, shared by the sessions that they apply to."""

    def __init__(self, rails: tuple[Guardrail, ...], parser: Parser | None, target: TargetSchema | None) -> None:
        inputs = [each for rail in rails for each in name_rules(rail, rail.input)]
        outputs = [each for rail in rails for each in name_rules(rail, rail.output)]
        about_statements = [(culprit, rule) for culprit, rule in inputs if rule.judges_statements]
        self.input = by_severity(inputs)
        self.first: Culprit | None = inputs[0][0] if inputs else None
        self.statements = StatementRules(about_statements, parser, target) if about_statements else None
        self.output = by_severity(outputs)
        masks = of_text(outputs, Action.MASK)
        self.masker = Masker(masks) if masks else None
        self.most = _strictest_max_rows(outputs)
        self.judged = StatementCache()
        self.target = target
        self.culprits = [culprit for culprit, _ in inputs]


def _strictest_max_rows(outputs: list[tuple[Culprit, Rule]]) -> tuple[int, Culprit] | None:
    """Return the strictest max_rows and its rule."""
    limits = [(rule.most, culprit) for culprit, rule in outputs if rule.type is RuleType.MAX_ROWS]
    return min(limits, key=lambda limit: limit[0]) if limits else None


@lru_cache(maxsize=64)
def load(rails: tuple[Guardrail, ...], parser: Parser | None, target: TargetSchema | None) -> CompiledRules:
    return CompiledRules(rails, parser, target)


def judge_text(rules: CompiledRules, text: str, parser: SessionParser | None = None) -> GuardrailFinding | None:
    worst: GuardrailFinding | None = None
    if rules.input:
        spellings = readings(text.encode("utf-8", "replace"))
        for rule_set in rules.input:
            worst = worse(worst, rule_set.judge(spellings, quotes=True))
    if rules.statements is None or (worst is not None and worst.action is Action.DENY):
        return worst
    return worse(worst, rules.statements.judge(text, parser))


def with_values(
    rules: CompiledRules, finding: GuardrailFinding | None, bind_values: tuple[bytes | None, ...]
) -> GuardrailFinding | None:
    """Add the findings for bind values to that of the text. Each value is judged on its own."""
    if not bind_values or not rules.input:
        return finding
    values = [value for value in bind_values if value is not None]
    for rule_set in rules.input:
        finding = worse(finding, rule_set.judge(values, quotes=True))
    return finding
