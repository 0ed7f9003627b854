"""Output that rules cannot read, or that may show columns under other names."""

from __future__ import annotations

from uuid import UUID

import pytest

from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType
from postern.domain.rules.masking import MaskingRule, Strictness, TypeGroup
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import Output
from postern.interception.pipeline import Interceptor, SessionView
from postern.interception.verdicts import Forward, Refuse, Replace, Verdict, Warn
from postern.protocols.httpproxy.body_events import BodyPart, CodePart, UnreadableBody
from postern.protocols.httpproxy.json_parts import JsonPart

ID = UUID(int=1)


def page(data: bytes) -> Output:
    return BodyPart(1, data, bytes)


def document(data: bytes) -> Output:
    return JsonPart(1, data, bytes)


def script(data: bytes) -> Output:
    return CodePart(1, data, bytes)


def pdf() -> Output:
    return UnreadableBody(1, "a PDF document")


def masks(strictness: Strictness = Strictness.STRICT, columns: tuple[str, ...] = ()) -> Masking:
    groups = () if columns else (TypeGroup("contact", ("EMAIL_ADDRESS",)),)
    return Masking(frozenset(), [MaskingRule(ID, ID, "r", groups=groups, columns=columns, strictness=strictness)])


def guards(action: Action) -> GuardrailInterceptor:
    words = Rule(RuleType.DENY_WORDS_LIST, words=("secret",), action=action)
    return GuardrailInterceptor((Guardrail(ID, ID, "g", output=(words,)),))


@pytest.mark.parametrize(
    ("judge", "body", "verdict"),
    [
        (masks(), pdf(), Refuse),
        (masks(Strictness.BEST_EFFORT), pdf(), Forward),
        (masks(columns=("email",)), page(b"page"), Refuse),
        (masks(Strictness.BEST_EFFORT, ("email",)), page(b"page"), Forward),
        (masks(columns=("email",)), script(b"body {}"), Forward),
        (guards(Action.DENY), pdf(), Refuse),
        (guards(Action.MASK), pdf(), Refuse),
        (guards(Action.WARN), pdf(), Warn),
        (masks(), document(b'{"a": "x\\u0040example.com"}'), Replace),
    ],
)
def test_verdict_follows_the_rule(judge: Interceptor, body: Output, verdict: type[Verdict]) -> None:
    view = SessionView(UUID(int=0), "a@example.com", frozenset(), "c", "database", "", {})
    assert isinstance(judge.see(body, view), verdict)
