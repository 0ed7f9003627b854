"""The dialect as the rest of Postern gets it: by the spec, in guardrails, masking, and other processes."""

# ruff: noqa: E501 - commands stand in tables, one in a line
from __future__ import annotations

import json
import pickle
from typing import Any
from uuid import UUID

import pytest
from tests.inspection.conftest import make_session

from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType, Unknown
from postern.domain.rules.masking import MaskingRule, Strategy
from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.guardrails.guardrail_findings import GuardrailFinding
from postern.inspection.guardrails.guardrail_rules import CompiledRules, judge_text
from postern.inspection.guardrails.guardrail_tasks import JudgeText, read_answer
from postern.inspection.masking.masking_interceptor import Masking
from postern.inspection.masking.samples import SampleRows
from postern.interception.events import Operation
from postern.interception.verdicts import Refuse
from postern.protocols.mongodb.spec import MONGODB

SCHEMA = TargetSchema(
    {
        ("shop", "people"): Relation("shop", "people", ()),
        ("shop", "orders"): Relation("shop", "orders", ()),
        ("shop", "v"): Relation("shop", "v", (), definition='{"viewOn": "people", "pipeline": []}'),
    }
)
assert MONGODB.dialect is not None
DIALECT = MONGODB.dialect


def text_of(**command: Any) -> str:
    return json.dumps({**command, "$db": "shop"})


def find_violation(rule: Rule, text: str) -> GuardrailFinding | None:
    rail = Guardrail(UUID(int=1), UUID(int=2), "care", input=(rule,))
    return judge_text(CompiledRules((rail,), DIALECT.parser(), SCHEMA), text)


OBJECTS: dict[str, Any] = {"effects": frozenset({Effect.READ, Effect.WRITE}), "objects": ("shop.people",)}


@pytest.mark.parametrize(
    ("rule", "text", "reason"),
    [
        (Rule(RuleType.READ_ONLY), text_of(insert="people", documents=[{}]), "insert (write)"),
        (Rule(RuleType.READ_ONLY), text_of(find="people"), None),
        (Rule(RuleType.READ_ONLY), text_of(frobnicate=1), "the command frobnicate is not known"),
        (Rule(RuleType.REQUIRE_WHERE), text_of(delete="people", deletes=[{"q": {}, "limit": 0}]), "delete has no condition"),
        (Rule(RuleType.REQUIRE_WHERE), text_of(delete="people", deletes=[{"q": {"a": 1}, "limit": 0}]), None),
        (Rule(RuleType.DENY_FULL_SCANS), text_of(find="people"), "find reads all of shop.people; add a condition or a LIMIT"),
        (Rule(RuleType.DENY_FULL_SCANS, objects=("shop.orders",)), text_of(find="people"), None),
        (Rule(RuleType.DENY_STATEMENTS, effects=frozenset({Effect.DDL})), text_of(drop="people"), "drop (ddl)"),
        (Rule(RuleType.DENY_STATEMENTS, **OBJECTS), text_of(find="people"), "find touches shop.people"),
        (Rule(RuleType.DENY_STATEMENTS, **OBJECTS), text_of(find="v"), "find touches shop.people"),
        (Rule(RuleType.DENY_STATEMENTS, **OBJECTS), text_of(find="orders"), None),
        (Rule(RuleType.DENY_STATEMENTS, **OBJECTS), text_of(find="unknown"), "shop.unknown is unknown, and could be a view"),
        (Rule(RuleType.DENY_STATEMENTS, unknown=Unknown.ALLOW, **OBJECTS), text_of(find="unknown"), None),
        (Rule(RuleType.DENY_STATEMENTS, **OBJECTS), text_of(aggregate="orders", pipeline=[{"$lookup": {"from": "people", "as": "x"}}]), "aggregate touches shop.people"),
        (Rule(RuleType.DENY_WORDS_LIST, words=("secret",)), text_of(find="people", filter={"note": "a secret"}), '"secret" matches it'),
        (Rule(RuleType.PATTERN_MATCH, pattern_regex='"ssn"'), text_of(find="people", filter={"ssn": 1}), '""ssn"" matches it'),
    ],
)  # fmt: skip
def test_guardrail_judges_commands(rule: Rule, text: str, reason: str | None) -> None:
    found = find_violation(rule, text)
    assert (None if found is None else found.reason) == reason
    assert found is None or found.action is Action.DENY


def test_parser_is_one_for_a_process_and_can_be_sent_to_others() -> None:
    parser = DIALECT.parser()
    assert parser is DIALECT.parser()
    assert pickle.loads(pickle.dumps(parser)) is parser
    rail = Guardrail(UUID(int=1), UUID(int=2), "care", input=(Rule(RuleType.READ_ONLY),))
    task = pickle.loads(pickle.dumps(JudgeText((rail,), parser, SCHEMA, text_of(drop="people"), None)))
    assert read_answer(CompiledRules((rail,), parser, SCHEMA), task()) is not None


def masked(text: str, columns: list[str], row: list[str], strategy: Strategy = Strategy.REPLACE) -> Any:
    assert DIALECT.lineage is not None
    assert DIALECT.facts is not None
    rule = MaskingRule(
        UUID(int=1), UUID(int=2), "pii", columns=("people.ssn", "people.contact.email"), strategy=strategy
    )
    masking = Masking(frozenset(), (rule,), b"key", DIALECT.lineage()(lambda: SCHEMA), facts=DIALECT.facts())
    session = make_session()
    masking.see(Operation(1, text), session)
    rows = SampleRows(columns, [row])
    rows.exchange = 1
    verdict = masking.see(rows, session)
    return verdict if isinstance(verdict, Refuse) else rows.visible_rows()[0]


def test_fields_of_documents_are_masked() -> None:
    columns, row = ["_id", "ssn", "contact.email", "contact.city"], ["1", "123", "ann@x.org", "Bonn"]
    assert masked(text_of(find="people"), columns, row) == ("1", "****", "****", "Bonn")
    assert masked(text_of(find="v"), columns, row) == ("1", "****", "****", "Bonn")
    assert masked(text_of(find="orders"), columns, row) == tuple(row)
    assert masked(text_of(find="people"), columns, row, Strategy.PARTIAL) == ("1", "1****", "a***@x.org", "Bonn")


def test_computed_field_is_a_constant_and_an_unknown_one_is_denied() -> None:
    stage = {"$project": {"x": {"$concat": ["$ssn", ""]}, "y": "$ssn"}}
    text = text_of(aggregate="people", pipeline=[stage], cursor={})
    x, y = masked(text, ["x", "y"], ["123456789", "123456789"], Strategy.PARTIAL)
    assert x == "****"
    assert y.endswith("6789")
    for unknown in (text_of(find="new"), text_of(frobnicate=1), text_of(getMore=5, collection="people")):
        verdict = masked(unknown, ["x"], ["123"])
        assert isinstance(verdict, Refuse)
        assert "'x'" not in verdict.message  # a name can be a value


def test_facts_are_cautious() -> None:
    assert DIALECT.facts is not None
    facts = DIALECT.facts()
    text = text_of(find="people")
    assert not facts.spells_names((text,))
    assert not facts.only_sets((text,))
    assert not facts.chooses_insert_id((text,))
    assert facts.copy_format(text) is None
    assert facts.quotes_no_values({"message": b"x", "errno": b"59"}, (text,))
    assert not facts.quotes_no_values({"message": b"x", "errno": b"11000"}, (text,))
    assert not facts.quotes_no_values({"message": b"x", "errno": b"59", "detail": b"y"}, (text,))
    assert not facts.quotes_no_values({"message": b"x"}, (text,))
    coded = text_of(find="people", filter={"$where": "throw this.ssn"})
    assert facts.is_in_own_words((b"x",), ("message",), (coded,))
    assert facts.is_in_own_words((b"x",), ("message",), ())
    assert not facts.is_in_own_words((b"x",), ("message",), (text,))
    assert not facts.quotes_no_values({"message": b"x", "errno": b"59"}, (coded,))
