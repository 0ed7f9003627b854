"""Guardrails tried on recorded sessions and on single texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType
from postern.domain.rules.statement import Effect, Statement
from postern.domain.rules.trial import Answered, Hit, RecordedStatement
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.guardrails.guardrail_trial import SessionTrier, Trier, try_input, try_output
from postern.inspection.sql.sql_parser import Parser, SessionParser
from postern.protocols.mysql.dialect.mysql_parser import MySqlParser
from postern.protocols.mysql.dialect.mysql_prepared import MySqlPreparedStatements
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser
from postern.protocols.postgres.dialect.postgres_prepared import PreparedStatements

WORDS = RuleType.DENY_WORDS_LIST


@dataclass(eq=False)
class CountingParser:
    """Reports every statement as a read and lists the parsed texts."""

    dialect: str = "counting"
    shapes: None = None
    parsed: list[str] = field(default_factory=list)

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        self.parsed.append(text)
        return (Statement(text, frozenset({Effect.READ}), frozenset()),)


def rule(text: str, action: Action, name: str) -> Rule:
    return Rule(WORDS, words=(text,), action=action, name=name)


def session_trier(*, on_input: tuple[Rule, ...] = (), on_output: tuple[Rule, ...] = ()) -> SessionTrier:
    return Trier(Guardrail(UUID(int=1), UUID(int=2), "tried", input=on_input, output=on_output), None).session(None)


def rule_and_action(hit: Hit | None) -> tuple[str, Action] | None:
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
    assert rule_and_action(session_trier(on_output=rules).judge_answer(Answered((answer,)))) == expected


def test_recurring_statement_is_parsed_once_across_sessions() -> None:
    parser = CountingParser()
    rails = Guardrail(UUID(int=1), UUID(int=2), "read only", input=(Rule(RuleType.READ_ONLY),))
    trier = Trier(rails, parser)
    for session in (trier.session(None), trier.session(None)):
        for _ in range(3):
            assert session.judge_statement(RecordedStatement("select a from b")) is None
    assert parser.parsed == ["select a from b"]


REVIEW = rule("ask", Action.REVIEW, "review")
PREPARED: dict[str, Any] = {"prepared": True}
BOUND: dict[str, Any] = {"values": (b"1",)}
RUN: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("steps", "hits"),
    [
        ([("stop", RUN)], ["deny"]),
        ([("stop", RUN), ("stop", RUN)], ["deny", "deny"]),
        ([("stop", PREPARED)], ["deny"]),
        # A statement that could not be prepared would never have run.
        ([("stop", PREPARED), ("stop", RUN)], ["deny", None]),
        ([("stop", PREPARED), ("stop", BOUND)], ["deny", "deny"]),
        ([("stop", PREPARED), ("stop now", RUN)], ["deny", "deny"]),
        ([("stop", PREPARED), ("stop", PREPARED)], ["deny", "deny"]),
        # A review or a warning is for the statement that runs.
        ([("ask", PREPARED), ("ask", RUN)], [None, "review"]),
        ([("careful", PREPARED), ("careful", RUN), ("careful", RUN)], [None, "warn", "warn"]),
        ([("fine", PREPARED), ("fine", RUN), ("fine", BOUND)], [None, None, None]),
        ([("select $1", {"values": (b"fine", None, b"stop")})], ["deny"]),
        ([("select $1", {"values": (None,)})], [None]),
        ([("select $1", {"truncated": True})], ["deny"]),
        ([("careful", {"values": (b"stop",)})], ["deny"]),
    ],
)
def test_each_recorded_statement_is_judged_as_it_would_have_run(
    steps: list[tuple[str, dict[str, Any]]], hits: list[str | None]
) -> None:
    session = session_trier(on_input=(DENY, REVIEW, WARN))
    found = [session.judge_statement(RecordedStatement(text, **how)) for text, how in steps]
    assert [None if hit is None else hit.rule for hit in found] == hits


def test_guardrail_without_input_rules_judges_no_statement() -> None:
    assert session_trier(on_output=(DENY,)).judge_statement(RecordedStatement("stop", truncated=True)) is None


@pytest.mark.parametrize(
    ("parser", "names", "before"),
    [
        (PostgresParser(), PreparedStatements, ["prepare p as {}"]),
        (PostgresParser(), PreparedStatements, ["prepare p as select 1", "PROTOCOL {}"]),
        (MySqlParser(), MySqlPreparedStatements, ["prepare p from '{}'"]),
        (MySqlParser(), MySqlPreparedStatements, ["set @text = '{}'", "prepare p from @text"]),
    ],
)
@pytest.mark.parametrize(("prepared", "is_hit"), [("select 1", False), ("delete from t", True)])
def test_execute_is_judged_by_what_the_recorded_session_prepared(
    parser: Parser, names: Callable[[Any], SessionParser], before: list[str], prepared: str, is_hit: bool
) -> None:
    rails = Guardrail(UUID(int=1), UUID(int=2), "read only", input=(Rule(RuleType.READ_ONLY),))
    trier = Trier(rails, parser)
    session = trier.session(names(parser))
    for text in before:
        text = text.format(prepared)
        session.judge_statement(
            RecordedStatement(text.removeprefix("PROTOCOL "), prepared=text.startswith("PROTOCOL "))
        )
    hit = session.judge_statement(RecordedStatement("execute p"))
    assert (hit is not None) == is_hit
    assert hit is None or not hit.unknown
    other = trier.session(names(parser)).judge_statement(RecordedStatement("execute p"))
    assert other is not None, "statements of a different session are unknown"
    assert other.unknown


MOST = Rule(RuleType.MAX_ROWS, most=5, name="most")


@pytest.mark.parametrize(
    ("parts", "hits"),
    [
        ([5], [False]),
        ([6], [True]),
        ([3, 3], [False, True]),
        ([3, 3, 3], [False, True, False]),  # one hit for one answer
        ([5, 1], [False, True]),
        ([5, 0], [False, False]),
        (["5 ends", 5], [False, False]),
        (["6 ends", 6], [True, True]),
        ([5, "asked", 5], [False, False]),
        ([5, "asked", 6], [False, True]),
    ],
)
@pytest.mark.parametrize("is_asked", [True, False], ids=["asked", "beginning missing"])
def test_max_rows_rule_counts_rows_of_each_recorded_answer(
    parts: list[int | str], hits: list[bool], is_asked: bool
) -> None:
    session = session_trier(on_output=(MOST,))
    if is_asked:
        session.judge_statement(RecordedStatement("select 1"))
    found = []
    for part in parts:
        if part == "asked":
            session.judge_statement(RecordedStatement("select 1"))
        else:
            rows, _, ends = str(part).partition(" ")
            found.append(session.judge_answer(Answered((), rows=int(rows), ends=bool(ends))))
    assert [hit is not None for hit in found] == hits
    assert all(hit is None or rule_and_action(hit) == ("most", Action.DENY) for hit in found)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("stop", [(0, 4)]),
        ("please stop, stop", [(7, 11), (13, 17)]),
        ("é ü stop ñ", [(4, 8)]),  # places are characters
        ("go on", None),
    ],
)
def test_trial_reports_the_span_of_each_hit(text: str, spans: list[tuple[int, int]] | None) -> None:
    rail = Guardrail(UUID(int=1), UUID(int=2), "tried", input=(DENY, WARN), output=(DENY, WARN))
    for trial in (try_input(rail, text, None), try_output(rail, text)):
        assert [(hit.rule, list(hit.spans)) for hit in trial.hits] == ([] if spans is None else [("deny", spans)])
        assert trial.outcome is (None if spans is None else Action.DENY)
        assert trial.message == ("" if spans is None else 'blocked by guardrail "tried" (rule "deny")')


def test_hit_across_a_comment_has_no_span() -> None:
    pattern = Rule(RuleType.PATTERN_MATCH, pattern_regex=r"drop\s+table", name="drop")
    rail = Guardrail(UUID(int=1), UUID(int=2), "tried", input=(pattern,), output=(pattern,))
    found = try_input(rail, "drop/**/table t", None)
    assert [(hit.rule, hit.spans) for hit in found.hits] == [("drop", ())]
    assert try_output(rail, "drop/**/table t").hits == ()
