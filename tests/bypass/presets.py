"""The cases of a dialect that each preset denies and passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from uuid import UUID

from tests.bypass.cases import Case, Truth

from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType
from postern.domain.rules.guardrail_presets import PRESETS, Preset
from postern.domain.rules.statement import Effect
from postern.domain.targets.dialect import DIALECTS
from postern.inspection.guardrails.guardrail_findings import GuardrailFinding
from postern.inspection.guardrails.guardrail_rules import CompiledRules, judge_text

_HARMLESS = frozenset({Effect.READ, Effect.SESSION})


@dataclass
class PresetScore:
    """`aimed` are the cases that the preset must deny, and undecidable ones. `harmless` cases only read or set the
    session."""

    preset: str
    dialect: str
    aimed: int = 0
    got_through: list[Case] = field(default_factory=list)
    harmless: int = 0
    stopped_for_nothing: list[Case] = field(default_factory=list)

    def line(self) -> str:
        stopped, passed = self.aimed - len(self.got_through), self.harmless - len(self.stopped_for_nothing)
        return f"{self.preset:<26}{self.dialect:<10}{stopped:>6} of {self.aimed:<6}{passed:>6} of {self.harmless:<6}"


def presets_of(dialect: str) -> Iterator[Preset]:
    """Yield the presets with statement rules for this dialect, except those about full scans: the cases do not state
    full scans, and tests/inspection/sql/test_scans.py covers them."""
    spoken = {protocol for protocol, its in DIALECTS.items() if its == dialect}
    for preset in PRESETS:
        if spoken & set(preset.protocols) and any(
            rule.judges_statements and rule.type is not RuleType.DENY_FULL_SCANS for rule in preset.input
        ):
            yield preset


def score_of(preset: Preset, cases: ModuleType) -> PresetScore:
    parser = cases.parser()
    rail = Guardrail(UUID(int=1), UUID(int=2), preset.name, input=preset.input)
    rules = CompiledRules((rail,), parser, cases.SCHEMA)
    result = PresetScore(preset.name, parser.dialect)
    for case in cases.CASES:
        if case.truth is Truth.REJECTED:
            continue
        found = judge_text(rules, case.text)
        if any(_is_about(rule, case) for rule in preset.input):
            result.aimed += 1
            if found is None or found.action is not preset.input[0].action:
                result.got_through.append(case)
        elif case.truth is Truth.HARMLESS:
            result.harmless += 1
            if _stops(found):
                result.stopped_for_nothing.append(case)
    return result


def _stops(found: GuardrailFinding | None) -> bool:
    return found is not None and found.action in (Action.DENY, Action.REVIEW)


def _is_about(rule: Rule, case: Case) -> bool:
    effects = case.effects or frozenset()
    if Effect.UNKNOWN in effects and rule.unknown is None:
        return True
    if rule.type is RuleType.REQUIRE_WHERE:
        return case.without_where
    if rule.type is RuleType.READ_ONLY:
        return bool(effects - _HARMLESS - {Effect.UNKNOWN})
    return not rule.objects and bool(effects & rule.effects)


def table(cases: ModuleType) -> str:
    """Return a table for users: a line for each preset, then the failures."""
    scores = [score_of(preset, cases) for preset in presets_of(cases.parser().dialect)]
    lines = [f"{'preset':<26}{'dialect':<10}{'stopped':>9}{'':>7}{'harmless passed':>19}"]
    lines += [one.line() for one in scores]
    lines += [f"  GOT THROUGH {one.preset}  {case.name}" for one in scores for case in one.got_through]
    lines += [
        f"  stopped for nothing by {one.preset}  {case.name}" for one in scores for case in one.stopped_for_nothing
    ]
    return "\n".join(lines)
