"""A statement is judged the same in another process as in this one, in every dialect."""

from __future__ import annotations

import pickle
from types import ModuleType
from uuid import UUID

import pytest
from tests.bypass import cases_mysql, cases_oracle, cases_postgres, cases_tsql

from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType
from postern.domain.rules.guardrail_presets import PRESETS
from postern.inspection.guardrails.guardrail_interceptor import SEARCHED_AT_ONCE, GuardrailInterceptor
from postern.inspection.guardrails.guardrail_rules import judge_text, load
from postern.inspection.guardrails.guardrail_tasks import JudgeText, read_answer
from postern.inspection.schema_ref import pack_schema
from postern.inspection.sql.sql_parser import Parser, SessionParser
from postern.interception.events import Operation
from postern.interception.pipeline import AT_ONCE, SessionView
from postern.interception.verdicts import FORWARD, Hold, Refuse
from postern.protocols.mysql.dialect.mysql_parser import MySqlParser
from postern.protocols.mysql.dialect.mysql_prepared import MySqlPreparedStatements
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser
from postern.protocols.postgres.dialect.postgres_prepared import PreparedStatements

DIALECTS = {"postgres": cases_postgres, "mysql": cases_mysql, "tsql": cases_tsql, "oracle": cases_oracle}
EVERY = 7  # each seventh case of the corpora: all of them are judged elsewhere, and here their way is tested


def rails(*rules: Rule) -> tuple[Guardrail, ...]:
    return (Guardrail(UUID(int=1), UUID(int=2), "care", input=rules),)


def run_pickled(task: JudgeText) -> object:
    """Run the task on pickled input and return its pickled result, as another process does."""
    return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(task))()))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_verdict_of_another_process_equals_the_local_verdict(dialect: str) -> None:
    cases: ModuleType = DIALECTS[dialect]
    parser: Parser = cases.parser()
    words = Rule(RuleType.DENY_WORDS_LIST, words=("secret",), action=Action.WARN)
    of = rails(words, *(rule for preset in PRESETS for rule in preset.input if rule.judges_statements))
    rules = load(of, parser, cases.SCHEMA)
    found = 0
    for case in cases.CASES[::EVERY]:
        expected = judge_text(rules, case.text)
        assert read_answer(rules, run_pickled(JudgeText(of, parser, cases.SCHEMA, case.text, None))) == expected
        found += expected is not None
    assert found > 10


@pytest.mark.parametrize(
    ("names", "prepare"),
    [
        (PreparedStatements(PostgresParser()), "prepare p as delete from t"),
        (MySqlPreparedStatements(MySqlParser()), "prepare p from 'delete from t'"),
    ],
    ids=["postgres", "mysql"],
)
def test_another_process_judges_execute_by_the_statements_prepared_in_the_session(
    names: SessionParser, prepare: str
) -> None:
    parser: Parser = PostgresParser() if names.__class__ is PreparedStatements else MySqlParser()
    of = rails(Rule(RuleType.READ_ONLY))
    rules = load(of, parser, None)
    names.record_statement(prepare)
    answer = read_answer(rules, run_pickled(JudgeText(of, parser, None, "execute p", names)))
    assert answer == judge_text(rules, "execute p", names)
    assert answer is not None
    assert not answer.unknown


def test_schema_is_unpacked_once_for_each_snapshot() -> None:
    ref = pack_schema(cases_postgres.SCHEMA)
    assert pack_schema(cases_postgres.SCHEMA) is ref
    there = pickle.loads(pickle.dumps(ref)).load()
    assert there is not cases_postgres.SCHEMA
    assert there.relations == cases_postgres.SCHEMA.relations
    assert pickle.loads(pickle.dumps(ref)).load() is there


def test_attack_large_text_is_searched_in_another_process_for_word_rules() -> None:
    session = SessionView(UUID(int=1), "ann@example.com", frozenset(), "shop", "database", "postgres", {})
    guard = GuardrailInterceptor(rails(Rule(RuleType.DENY_WORDS_LIST, words=("secret",))))
    assert guard.see(Operation(1, "x" * (AT_ONCE + 1)), session) is FORWARD
    held = guard.see(Operation(1, "x" * SEARCHED_AT_ONCE + " secret"), session)
    assert isinstance(held, Hold)
    assert held.work is not None
    assert isinstance(held.work.task, JudgeText)
    assert isinstance(held.work.conclude(run_pickled(held.work.task)), Refuse)


def test_attack_many_statements_in_one_read_are_held_after_a_limit() -> None:
    """Each statement is short, but one read can bring thousands."""
    session = SessionView(UUID(int=1), "ann@example.com", frozenset(), "shop", "database", "postgres", {})
    guard = GuardrailInterceptor(rails(Rule(RuleType.READ_ONLY)), PostgresParser())
    verdicts = [guard.see(Operation(number, f"select {number} from t{number}"), session) for number in range(200)]
    waiting = [verdict for verdict in verdicts if isinstance(verdict, Hold)]
    assert len(waiting) > 50
    for verdict in waiting:
        assert verdict.work is not None
        assert verdict.work.task is None
        assert verdict.work() is FORWARD
    session.parsed = 0  # the next read
    assert guard.see(Operation(1, "select 1 from another"), session) is FORWARD
