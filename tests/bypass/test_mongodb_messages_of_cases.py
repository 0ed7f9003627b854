"""The MongoDB cases as messages: what a guardrail must stop never reaches the target, in whatever form it comes."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from tests.bypass import cases_mongodb
from tests.bypass.cases import HARMLESS, Case, Ordinary, Truth
from tests.bypass.mongodb_forms import forms
from tests.support.mongodb_links import links, sent

from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.domain.rules.statement import Effect
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Link

READS_ONLY = Rule(RuleType.READ_ONLY)
CONDITIONS = Rule(RuleType.REQUIRE_WHERE)
# Answered or refused by the gateway in any case, and forms of cases that mean something else.
_OWN = ('"hello"', "saslStart")


def _links(rule: Rule) -> Callable[[], Link]:
    rail = Guardrail(UUID(int=1), UUID(int=2), "care", input=(rule,))
    return links(GuardrailInterceptor((rail,), cases_mongodb.parser()))


def reaches_target(message: bytes, rule: Rule) -> bool:
    return bool(forward(message, rule))


def forward(message: bytes, rule: Rule) -> bytes:
    """Return what a guardrail with this rule forwards. What it stops is answered, or ends the link."""
    effects = _links(rule)().receive(Side.CLIENT, message)
    forwarded = sent(effects, Side.TARGET)
    is_silent = bool(message[16] & 2)
    answered = bool(sent(effects, Side.CLIENT)) or any(isinstance(effect, Close) for effect in effects)
    assert bool(forwarded) != answered or (is_silent and not answered)
    return forwarded


@pytest.mark.parametrize("case", cases_mongodb.CASES, ids=lambda case: case.name)
def test_case_is_stopped_in_every_form(case: Case) -> None:
    for form, message in forms(case.text):
        if case.truth is not Truth.HARMLESS:
            assert not reaches_target(message, READS_ONLY), form
        elif not any(name in case.text for name in _OWN) and "originatingCommand" not in case.text:
            assert reaches_target(message, READS_ONLY), form
        if case.without_where:
            assert not reaches_target(message, CONDITIONS), form
        elif case.effects is not None and Effect.UNKNOWN not in case.effects and "originating" not in case.text:
            assert reaches_target(message, CONDITIONS) or any(name in case.text for name in _OWN), form


@pytest.mark.parametrize("ordinary", cases_mongodb.ORDINARY, ids=lambda ordinary: ordinary.text[:80])
def test_ordinary_command_passes_in_every_form(ordinary: Ordinary) -> None:
    if any(name in ordinary.text for name in ("originatingCommand", '"isMaster"', '"ismaster"', *_OWN)):
        return
    for form, message in forms(cases_mongodb.in_scratch(ordinary.text)):
        if ordinary.effects <= HARMLESS:
            assert reaches_target(message, READS_ONLY), form
        else:
            assert not reaches_target(message, READS_ONLY), form


def test_most_cases_have_several_forms() -> None:
    counts = [len(list(forms(case.text))) for case in cases_mongodb.CASES]
    assert sum(count >= 5 for count in counts) >= len(counts) * 9 // 10
    assert max(counts) == 8
