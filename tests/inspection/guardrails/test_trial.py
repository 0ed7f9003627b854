"""Guardrails tried on recorded sessions, outside of any session."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import pytest

from postern.domain.guardrail import Action, GuardRail, Rule, RuleType
from postern.domain.statement import Effect, Statement
from postern.domain.target_schema import TargetSchema
from postern.domain.trial import Answered, Asked, Hit
from postern.inspection.guardrails.trial import SessionTrier, Trier

WORDS = RuleType.DENY_WORDS_LIST


@dataclass(eq=False)
class CountingParser:
    """Takes every statement for a read and remembers what it parsed."""

    dialect: str = "counting"
    parsed: list[str] = field(default_factory=list)

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        self.parsed.append(text)
        return (Statement(text, frozenset({Effect.READ}), frozenset()),)


def rule(text: str, action: Action, name: str) -> Rule:
    return Rule(WORDS, words=(text,), action=action, name=name)


def session_trier(*, on_input: tuple[Rule, ...] = (), on_output: tuple[Rule, ...] = ()) -> SessionTrier:
    return Trier(GuardRail(UUID(int=1), UUID(int=2), "tried", input=on_input, output=on_output), None).session(None)


def decided(hit: Hit | None) -> tuple[str, Action] | None:
    return None if hit is None else (hit.rule, hit.action)


MASK, WARN, DENY = (
    rule("secret", Action.MASK, "mask"),
    rule("careful", Action.WARN, "warn"),
    rule("stop", Action.DENY, "deny"),
)


@pytest.mark.parametrize(
    ("rules", "answer", "expected"),
    [
        ((MASK,), b"nothing", None),
        ((MASK,), b"a secret", ("mask", Action.MASK)),
        ((MASK, WARN), b"careful", ("warn", Action.WARN)),
        ((MASK, WARN), b"careful, a secret", ("mask", Action.MASK)),
        ((MASK, DENY), b"stop", ("deny", Action.DENY)),
        ((MASK, DENY), b"stop, a secret", ("deny", Action.DENY)),
        ((MASK, WARN, DENY), b"careful, stop, a secret", ("deny", Action.DENY)),
    ],
)
def test_the_most_severe_output_rule_decides(
    rules: tuple[Rule, ...], answer: bytes, expected: tuple[str, Action] | None
) -> None:
    assert decided(session_trier(on_output=rules).answered(Answered((answer,)))) == expected


def test_a_statement_that_recurs_is_parsed_once() -> None:
    parser = CountingParser()
    rails = GuardRail(UUID(int=1), UUID(int=2), "read only", input=(Rule(RuleType.READ_ONLY),))
    trier = Trier(rails, parser)
    for session in (trier.session(None), trier.session(None)):
        for _ in range(3):
            assert session.asked(Asked("select a from b")) is None
    assert parser.parsed == ["select a from b"]
