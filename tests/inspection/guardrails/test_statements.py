"""Rules about statements, tested with a fake parser whose effects the tests choose."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import pytest

from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType, Unknown
from postern.domain.rules.statement import Effect, ObjectKind, ObjectName, Statement
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.errors import Invalid
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.inspection.guardrails.guardrail_trial import try_input
from postern.inspection.guardrails.statements import MAX_PARSED
from postern.inspection.sql.sql_parser import Parser, unknown
from postern.inspection.sql.sql_shapes import Shapes
from postern.interception.events import Operation, Phase
from postern.interception.pipeline import AT_ONCE, SessionView
from postern.interception.verdicts import FORWARD, Forward, Hold, Refuse, Verdict, Warn
from postern.protocols.mssql.dialect.tsql_parser import TSqlParser
from postern.protocols.mysql.dialect.mysql_parser import MySqlParser
from postern.protocols.mysql.dialect.mysql_prepared import MySqlPreparedStatements
from postern.protocols.mysql.dialect.mysql_shapes import MYSQL_SHAPES
from postern.protocols.oracledb.dialect.oracle_parser import OracleParser
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser
from postern.protocols.postgres.dialect.postgres_prepared import PreparedStatements
from postern.protocols.postgres.dialect.postgres_shapes import POSTGRES_SHAPES


@dataclass(eq=False)
class Fake:
    """A parser of statements separated by `;`. The first word is the effect, the others are the objects; `all`
    instead of a name means that there is no condition."""

    dialect: str = "fake"
    shapes: Shapes | None = None
    parsed: list[str] = field(default_factory=list)

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        self.parsed.append(text)
        return tuple(self._one(part.split(), schema) for part in text.split(";") if part.strip())

    def _one(self, words: list[str], schema: TargetSchema | None) -> Statement:
        objects = frozenset(_named(word) for word in words[1:] if word != "all")
        harmless = {key for key, one in schema.functions.items() if one.harmless} if schema else set()
        if any(one.kind is ObjectKind.FUNCTION and (one.schema, one.name) not in harmless for one in objects):
            return Statement(
                words[0].upper(), frozenset({Effect.READ, Effect.UNKNOWN}), objects, reason="who knows f()"
            )
        if words[0] == "silent":
            return unknown("")
        if words[0] not in set(Effect):
            return unknown("cannot be parsed")
        return Statement(words[0].upper(), frozenset({Effect(words[0])}), objects, "all" in words)


def _named(word: str) -> ObjectName:
    schema, _, name = word.removesuffix("()").rpartition(".")
    return ObjectName(ObjectKind.FUNCTION if word.endswith("()") else ObjectKind.TABLE, name, schema)


def judge(rule: Rule, text: str, session: SessionView, target: TargetSchema | None = None) -> Verdict:
    return GuardrailInterceptor((rail(rule),), Fake(), lambda: target).see(Operation(1, text), session)


def rail(*rules: Rule) -> Guardrail:
    return Guardrail(UUID(int=1), UUID(int=2), "care", input=rules)


def statements(*effects: Effect, objects: tuple[str, ...] = (), unknown: Unknown | None = None) -> Rule:
    return Rule(RuleType.DENY_STATEMENTS, effects=frozenset(effects), objects=objects, unknown=unknown, name="it")


def test_denied_effect_is_found_anywhere_in_a_statement(session: SessionView) -> None:
    rule = statements(Effect.DDL, Effect.GRANT)
    assert judge(rule, "read t; write t", session) is FORWARD
    refused = judge(rule, "read t; ddl t", session)
    assert isinstance(refused, Refuse)
    assert refused.message == 'blocked by guardrail "care" (rule "it"): DDL (ddl)'
    assert "shop" in refused.hint


@pytest.mark.parametrize(
    ("objects", "text", "is_hit"),
    [
        ("pay.salaries", "read pay.salaries", True),
        ("pay.salaries", "read PAY.Salaries", True),
        ("pay.salaries", "read salaries", True),  # it may be that one
        ("pay.salaries", "read shop.salaries", False),
        ("pay.salaries", "read pay.bonuses", False),
        ("*.salaries", "read shop.salaries", True),
        ("pay", "read pay.bonuses", True),
        ("pay.*", "read pay.bonuses", True),
        ("pay", "read shop.orders", False),
        ("raise()", "read pay.raise()", True),
        ("pay.raise()", "read raise()", True),
        ("pay", "read pay.raise()", True),
    ],
)
def test_rule_about_objects_matches_qualified_and_bare_names(
    session: SessionView, objects: str, text: str, is_hit: bool
) -> None:
    verdict = judge(statements(objects=(objects,), unknown=Unknown.ALLOW), text, session)
    assert isinstance(verdict, Refuse) is is_hit
    assert is_hit or verdict is FORWARD


def test_schema_rule_denies_unqualified_tables_unless_the_catalogue_places_them_elsewhere(session: SessionView) -> None:
    """`set search_path to pay` does not evade a rule about the schema `pay`."""
    rule = statements(objects=("pay",))
    verdict = judge(rule, "read salaries", session)
    assert isinstance(verdict, Refuse)
    assert "write it as schema.salaries" in verdict.message
    known = TargetSchema(relations={("pay", "salaries"): Relation("pay", "salaries", ())})
    assert isinstance(judge(rule, "read salaries", session, known), Refuse)
    assert judge(rule, "read orders", session, known) is FORWARD


@pytest.mark.parametrize(
    ("objects", "text", "is_ambiguous"),
    [
        ("pay", "read salaries", True),
        ("pay.salaries", "read salaries", True),
        ("pay", "read pay.salaries", False),
        ("pay.salaries", "read pay.salaries", False),
        ("*.salaries", "read salaries", False),  # another schema would not help
    ],
)
def test_denial_suggests_a_schema_only_if_a_qualified_name_could_pass(
    session: SessionView, objects: str, text: str, is_ambiguous: bool
) -> None:
    target = TargetSchema(relations={("pay", "salaries"): Relation("pay", "salaries", ())})
    refused = judge(statements(objects=(objects,)), text, session, target)
    assert isinstance(refused, Refuse)
    assert ("write it with its schema" in refused.message) is is_ambiguous


def test_rules_apply_the_newest_catalogue_of_the_target(session: SessionView) -> None:
    targets: list[TargetSchema | None] = [None]
    rails = GuardrailInterceptor((rail(statements(objects=("pay",))),), Fake(), lambda: targets[0])
    assert isinstance(rails.see(Operation(1, "read orders"), session), Refuse)
    targets[0] = TargetSchema(relations={("pay", "salaries"): Relation("pay", "salaries", ())})
    assert rails.see(Operation(2, "read orders"), session) is FORWARD
    assert isinstance(rails.see(Operation(3, "read salaries"), session), Refuse)
    targets[0] = TargetSchema(relations={("pay", "orders"): Relation("pay", "orders", ())})
    assert isinstance(rails.see(Operation(4, "read orders"), session), Refuse)


def test_repeated_statement_is_parsed_once_under_one_catalogue(session: SessionView) -> None:
    parser = Fake()
    target = TargetSchema(relations={("pay", "salaries"): Relation("pay", "salaries", ())})
    rails = GuardrailInterceptor((rail(statements(objects=("pay",))),), parser, lambda: target)
    for exchange in range(3):
        assert rails.see(Operation(exchange, "read orders"), session) is FORWARD
    assert parser.parsed == ["read orders"], "the second statement is answered by the cache of the same rules"


def test_rule_with_effects_and_objects_denies_only_statements_that_match_both(session: SessionView) -> None:
    rule = statements(Effect.WRITE, objects=("*.salaries",))
    assert judge(rule, "read pay.salaries", session) is FORWARD
    assert judge(rule, "write pay.bonuses", session) is FORWARD
    assert isinstance(judge(rule, "write pay.salaries", session), Refuse)


def test_require_where_and_read_only_rules_deny_matching_statements(session: SessionView) -> None:
    where = Rule(RuleType.REQUIRE_WHERE)
    assert judge(where, "write t", session) is FORWARD
    refused = judge(where, "read t; write t all", session)
    assert isinstance(refused, Refuse)
    assert refused.message.endswith("WRITE has no condition")
    only = Rule(RuleType.READ_ONLY)
    assert judge(only, "read t; session", session) is FORWARD
    for text in ("write t", "ddl t", "grant t", "admin", "read t; write t"):
        assert isinstance(judge(only, text, session), Refuse), text


@pytest.mark.parametrize(
    "rule", [statements(Effect.DDL), Rule(RuleType.REQUIRE_WHERE), Rule(RuleType.READ_ONLY), statements(objects=("x",))]
)
def test_unknown_statement_follows_the_rule_and_is_denied_by_default(session: SessionView, rule: Rule) -> None:
    def with_choice(choice: Unknown | None, action: Action = Action.DENY) -> Verdict:
        made = Rule(rule.type, effects=rule.effects, objects=rule.objects, unknown=choice, action=action)
        return judge(made, "gibberish", session)

    refused = with_choice(None)
    assert isinstance(refused, Refuse)
    assert "cannot be parsed" in refused.message
    assert isinstance(with_choice(None, Action.WARN), Warn)
    assert isinstance(with_choice(Unknown.DENY, Action.WARN), Refuse)
    assert isinstance(with_choice(Unknown.WARN), Warn)
    assert isinstance(with_choice(Unknown.REVIEW), Hold)
    assert with_choice(Unknown.ALLOW) is FORWARD


def test_allowed_function_passes_only_the_rule_that_allows_it(session: SessionView) -> None:
    lenient = Rule(RuleType.READ_ONLY, allow_functions=("app.total()",))
    assert judge(lenient, "read app.total()", session) is FORWARD
    assert isinstance(judge(lenient, "read app.other()", session), Refuse)
    both = GuardrailInterceptor((rail(lenient, Rule(RuleType.READ_ONLY)),), Fake())
    assert isinstance(both.see(Operation(1, "read app.total()"), session), Refuse)


def test_most_severe_rule_decides_in_any_order(session: SessionView) -> None:
    warning = Rule(RuleType.DENY_STATEMENTS, effects=frozenset({Effect.WRITE}), action=Action.WARN)
    review = Rule(RuleType.DENY_WORDS_LIST, words=("payroll",), action=Action.REVIEW)
    denial = Rule(RuleType.REQUIRE_WHERE)
    rails = GuardrailInterceptor((rail(warning, review, denial),), Fake())
    assert isinstance(rails.see(Operation(1, "write t"), session), Warn)
    assert isinstance(rails.see(Operation(1, "write payroll"), session), Hold)
    assert isinstance(rails.see(Operation(1, "write payroll all"), session), Refuse)
    assert isinstance(rails.see(Operation(1, "write t", values=(b"payroll",)), session), Hold)


def test_approval_is_valid_for_all_requests_that_read_one_result(session: SessionView) -> None:
    review = Rule(RuleType.DENY_WORDS_LIST, words=("payroll",), action=Action.REVIEW)
    other = Rule(RuleType.DENY_WORDS_LIST, words=("bonus",), action=Action.REVIEW)
    denial = Rule(RuleType.DENY_WORDS_LIST, words=("secret",))
    rails = GuardrailInterceptor((rail(review, other, denial),), Fake())
    assert isinstance(rails.see(Operation(1, "read payroll"), session), Hold)
    assert rails.see(Operation(2, "more of payroll", continues=1), session) is FORWARD
    assert isinstance(rails.see(Operation(3, "more of payroll"), session), Hold)
    assert isinstance(rails.see(Operation(4, "more of payroll", continues=2), session), Hold)
    assert isinstance(rails.see(Operation(5, "more of bonus", continues=1), session), Hold)
    assert isinstance(rails.see(Operation(6, "more of payroll secret", continues=1), session), Refuse)


def test_prepared_statement_is_judged_and_parsed_once(session: SessionView) -> None:
    parser = Fake()
    rails = GuardrailInterceptor((rail(Rule(RuleType.READ_ONLY)),), parser)
    for phase in (Phase.PREPARE, Phase.RUN):
        assert isinstance(rails.see(Operation(1, "write t", phase), session), Refuse)
    assert parser.parsed == ["write t"]
    for action in (Action.WARN, Action.REVIEW):
        lenient = GuardrailInterceptor((rail(Rule(RuleType.READ_ONLY, action=action)),), Fake())
        assert lenient.see(Operation(1, "write t", Phase.PREPARE), session) is FORWARD
        assert isinstance(lenient.see(Operation(1, "write t"), session), Warn | Hold)
    other = GuardrailInterceptor((rail(Rule(RuleType.READ_ONLY, unknown=Unknown.ALLOW, name="other")),), parser)
    assert isinstance(other.see(Operation(1, "write t"), session), Refuse)
    assert parser.parsed == ["write t"] * 2  # other rules, another judgement


def test_large_text_is_judged_in_another_process(session: SessionView) -> None:
    parser = Fake()
    rails = GuardrailInterceptor((rail(Rule(RuleType.READ_ONLY)),), parser)
    text = "read t; " * AT_ONCE
    held = rails.see(Operation(1, text), session)
    assert isinstance(held, Hold)
    assert held.work is not None
    assert not parser.parsed
    assert held.work() is FORWARD
    bad = rails.see(Operation(1, text + "write t"), session)
    assert isinstance(bad, Hold)
    assert bad.work is not None
    assert isinstance(bad.work(), Refuse)


@pytest.mark.parametrize("dialect", ["postgres", "mysql"])
def test_attack_short_text_that_executes_a_long_one_is_judged_in_another_process(
    session: SessionView, dialect: str
) -> None:
    """150 short EXECUTEs of a large text once blocked the event loop for a minute."""
    parser = PostgresParser() if dialect == "postgres" else MySqlParser()
    names = PreparedStatements(parser) if isinstance(parser, PostgresParser) else MySqlPreparedStatements(parser)
    rails = GuardrailInterceptor((rail(Rule(RuleType.READ_ONLY)),), parser, session_parser=names)
    small = "prepare p as select 1" if dialect == "postgres" else "prepare p from 'select 1'"
    assert rails.see(Operation(1, small), session) is FORWARD
    assert rails.see(Operation(1, "execute p"), session) is FORWARD
    many = f"select {'1, ' * AT_ONCE} 1"
    large = f"prepare p as {many}" if dialect == "postgres" else f"prepare p from '{many}'"
    held = [rails.see(Operation(2, text), session) for text in (large, "execute p;" * 150)]
    for each in held:
        assert isinstance(each, Hold)
        assert each.work is not None
        assert each.work() is FORWARD


@pytest.mark.parametrize("dialect", ["postgres", "mysql"])
def test_statement_without_names_is_judged_at_once_after_a_large_prepare(session: SessionView, dialect: str) -> None:
    """Only an EXECUTE requires parsing the session's prepared statements again."""
    parser = PostgresParser() if dialect == "postgres" else MySqlParser()
    names = PreparedStatements(parser) if isinstance(parser, PostgresParser) else MySqlPreparedStatements(parser)
    rails = GuardrailInterceptor((rail(Rule(RuleType.READ_ONLY)),), parser, session_parser=names)
    many = f"select {'1, ' * AT_ONCE} 1"
    large = f"prepare p as {many}" if dialect == "postgres" else f"prepare p from '{many}'"
    held = rails.see(Operation(1, large), session)
    assert isinstance(held, Hold)
    assert held.work is not None
    assert held.work() is FORWARD
    assert names.weight > AT_ONCE
    assert rails.see(Operation(2, "select a from b"), session) is FORWARD
    assert isinstance(rails.see(Operation(3, "execute p"), session), Hold)


@pytest.mark.parametrize(
    ("parser", "harmless", "forbidden"),
    [
        (TSqlParser(), "select 'prepare', 'execute'", "execute dbo.change_everything"),
        (OracleParser(), "select 'prepare', 'execute' from dual", "begin execute immediate 'drop table t'; end;"),
    ],
)
def test_execute_is_denied_in_dialects_without_a_session_parser(
    session: SessionView, parser: Parser, harmless: str, forbidden: str
) -> None:
    rails = GuardrailInterceptor((rail(Rule(RuleType.READ_ONLY)),), parser)
    assert rails.see(Operation(1, harmless), session) is FORWARD
    assert isinstance(rails.see(Operation(2, forbidden), session), Refuse)


@pytest.mark.parametrize("choice", [None, *Unknown])
@pytest.mark.parametrize("effects", [{Effect.UNKNOWN}, {Effect.UNKNOWN, Effect.WRITE}, set(Effect)])
@pytest.mark.parametrize(("text", "said"), [("gibberish t", "cannot be parsed"), ("silent t", "cannot be determined")])
def test_rule_about_unknown_effects_hits_statements_of_unknown_effect(
    session: SessionView, text: str, said: str, effects: set[Effect], choice: Unknown | None
) -> None:
    verdict = judge(statements(*effects, unknown=choice), text, session)
    assert isinstance(verdict, Refuse)
    assert said in verdict.message


def test_large_text_is_judged_in_another_process_once(session: SessionView) -> None:
    parser = Fake()
    rails = GuardrailInterceptor((rail(Rule(RuleType.READ_ONLY)),), parser)
    for text, expected in (("read t; " * 300, Forward), ("write t; " * 300, Refuse)):
        held = rails.see(Operation(1, text), session)
        assert isinstance(held, Hold)
        assert held.work is not None
        assert isinstance(held.work(), expected)
        assert isinstance(rails.see(Operation(2, text), session), expected)
    assert len(parser.parsed) == 2


@pytest.mark.parametrize("shapes", [POSTGRES_SHAPES, MYSQL_SHAPES], ids=["postgres", "mysql"])
def test_statements_of_the_same_shape_are_parsed_once(session: SessionView, shapes: Shapes) -> None:
    parser = Fake(shapes=shapes)
    rails = GuardrailInterceptor((rail(statements(Effect.WRITE, unknown=Unknown.ALLOW)),), parser)
    for number in range(10):
        assert rails.see(Operation(number, f"select a from t where b = {number}"), session) is FORWARD
    assert len(parser.parsed) == 1
    for number in range(10):
        rails.see(Operation(number, f"select a from t where b = {number} or {number} = 1"), session)
    assert len(parser.parsed) == 11


def test_matching_statement_is_parsed_each_time(session: SessionView) -> None:
    """The denial message can quote the text of the statement."""
    parser = Fake(shapes=POSTGRES_SHAPES)
    rails = GuardrailInterceptor((rail(Rule(RuleType.READ_ONLY)),), parser)
    for number in range(3):
        assert isinstance(rails.see(Operation(number, f"select a from t where b = {number}"), session), Refuse)
    assert len(parser.parsed) == 3


@pytest.mark.parametrize(
    ("harmless", "attack"),
    [
        ("delete from t where a = 1 or not a = 2", "delete from t where a = 1 or not a = 1"),
        ("delete from t where a = 1 or not a = (2)", "delete from t where a = 1 or not a = (1)"),
        ("delete from t where a = 1 or not a = 02", "delete from t where a = 1 or not a = 01"),
        ("delete from t where a = 'a'\n'b' or not a = 'x'", "delete from t where a = 'a'\n'b' or not a = 'ab'"),
        ("delete from t where a = 1 and 1 = 2", "delete from t where a = 1 or 1 = 1"),
        ("update t set a = 1 where b = 1 or 1 = 2", "update t set a = 1 where b = 1 or 2 = 2"),
        ('delete from t where "b = 1" = 1', "delete from t where 1 = 1"),
    ],
)
def test_attack_postgres_condition_that_is_always_true_is_denied_after_a_similar_harmless_one(
    session: SessionView, harmless: str, attack: str
) -> None:
    rails = GuardrailInterceptor((rail(Rule(RuleType.REQUIRE_WHERE)),), PostgresParser())
    for _ in range(2):
        assert rails.see(Operation(1, harmless), session) is FORWARD
        assert isinstance(rails.see(Operation(2, attack), session), Refuse)


@pytest.mark.parametrize(
    ("harmless", "attack"),
    [
        ("delete from t where a = 1 or not a = 2", "delete from t where a = 1 or not a = 1"),
        ("delete from t where a = 'b' 'c' or not a = 'x'", "delete from t where a = 'b' 'c' or not a = 'bc'"),
        ("delete from t where a = 1 and 1 = 2", "delete from t where a = 1 or 1 = 1"),
        ("delete from t where `b = 1` = 1", "delete from t where 1 = 1"),
        ("update t set a = 'x' where b = 1", "update t set a = 'x' # where b = 1"),
        ("update t set a = 'x' where b = 1", "update t set a = 'x' /*! -- */ where b = 1"),
        ("delete from t where a = 'x' and b = 'y'", "delete from t where a = 'x\\' or 1 -- ' and b = 'y'"),
        ("select a from t where a = 'x; y'", "select a from t where a = 'x'; delete from t"),
    ],
)
def test_attack_mysql_condition_that_is_always_true_is_denied_after_a_similar_harmless_one(
    session: SessionView, harmless: str, attack: str
) -> None:
    rails = GuardrailInterceptor((rail(Rule(RuleType.REQUIRE_WHERE)),), MySqlParser())
    for _ in range(2):
        assert rails.see(Operation(1, harmless), session) is FORWARD
        assert isinstance(rails.see(Operation(2, attack), session), Refuse)


def test_attack_many_small_statements_in_one_batch_are_held_for_background_judgement(session: SessionView) -> None:
    rails = GuardrailInterceptor((rail(Rule(RuleType.READ_ONLY)),), Fake())
    verdicts = [rails.see(Operation(n, f"read t{n} " + "x " * 500), session) for n in range(20)]
    assert any(isinstance(verdict, Hold) for verdict in verdicts)


def test_attack_statement_too_long_to_parse_is_denied(session: SessionView) -> None:
    held = GuardrailInterceptor((rail(Rule(RuleType.READ_ONLY)),), Fake()).see(
        Operation(1, "read t" + " " * MAX_PARSED), session
    )
    assert isinstance(held, Hold)
    assert held.work is not None
    assert isinstance(held.work(), Refuse)


def test_statement_rule_without_a_parser_raises_invalid() -> None:
    with pytest.raises(Invalid, match="no parser"):
        GuardrailInterceptor((rail(Rule(RuleType.READ_ONLY)),))


def test_denial_shows_the_message_of_the_rule(session: SessionView) -> None:
    verdict = judge(Rule(RuleType.READ_ONLY, message="Writes go through the release pipeline."), "write t", session)
    assert isinstance(verdict, Refuse)
    assert verdict.message == "Writes go through the release pipeline. [care / 1: WRITE (write)]"
    assert verdict.rule == "care / 1"


class TestPreparedNames:
    """EXECUTE is judged by the statement that the session prepared, by SQL or by the protocol."""

    @pytest.fixture
    def rails(self) -> GuardrailInterceptor:
        parser = PostgresParser()
        rule = statements(Effect.WRITE)
        return GuardrailInterceptor((rail(rule),), parser, lambda: None, PreparedStatements(parser))

    @staticmethod
    def passes(rails: GuardrailInterceptor, session: SessionView, text: str, phase: Phase = Phase.RUN) -> bool:
        return isinstance(rails.see(Operation(1, text, phase), session), Forward)

    def test_execute_of_a_known_harmless_statement_passes(
        self, rails: GuardrailInterceptor, session: SessionView
    ) -> None:
        assert not self.passes(rails, session, "execute p")
        assert self.passes(rails, session, "prepare p as select 1")
        assert self.passes(rails, session, "execute p")
        assert not self.passes(rails, session, "execute q")

    def test_prepared_names_of_sessions_are_separate(self, rails: GuardrailInterceptor, session: SessionView) -> None:
        assert self.passes(rails, session, "prepare p as select 1")
        parser = PostgresParser()
        other = GuardrailInterceptor(
            (rail(statements(Effect.WRITE)),), parser, lambda: None, PreparedStatements(parser)
        )
        assert not self.passes(other, session, "execute p")
        assert self.passes(rails, session, "execute p")

    def test_attack_execute_is_denied_after_the_protocol_prepared_a_write(
        self, rails: GuardrailInterceptor, session: SessionView
    ) -> None:
        assert self.passes(rails, session, "prepare p as select 1")
        assert self.passes(rails, session, "deallocate p")
        self.passes(rails, session, "delete from t where id = 1", Phase.PREPARE)
        assert not self.passes(rails, session, "execute p")

    def test_attack_execute_is_denied_after_a_denied_prepare_of_the_same_name(
        self, rails: GuardrailInterceptor, session: SessionView
    ) -> None:
        assert self.passes(rails, session, "prepare p as select 1")
        assert not self.passes(rails, session, "prepare p as delete from t where id = 1")
        assert not self.passes(rails, session, "execute p"), "an ambiguous name is denied"


@pytest.mark.parametrize("parser", [PostgresParser, MySqlParser])
def test_rule_about_a_table_denies_tables_when_the_catalogue_could_not_be_read(
    session: SessionView, parser: type[PostgresParser | MySqlParser]
) -> None:
    """Any table can be a view that reads the protected table."""

    def denies(text: str, rule: Rule, target: TargetSchema | None = None) -> bool:
        return (
            GuardrailInterceptor((rail(rule),), parser(), lambda: target).see(Operation(1, text), session)
            is not FORWARD
        )

    hr = statements(objects=("hr.salary",))
    assert denies("select * from app.other", hr)
    assert denies("delete from app.other where id = 1", statements(Effect.WRITE, objects=("hr.salary",)))
    assert not denies("select * from app.other", statements(Effect.WRITE, objects=("hr.salary",)))
    assert not denies("select * from app.other", statements(objects=("hr.salary",), unknown=Unknown.ALLOW))
    assert not denies("select 1", hr)
    assert not denies("select * from information_schema.tables", hr)
    assert not denies("select * from app.other", statements(Effect.WRITE))
    known = TargetSchema({("app", "other"): Relation("app", "other", ("a",))})
    assert not denies("select * from app.other", hr, known)


def test_trying_a_rule_on_text_needs_no_catalogue() -> None:
    for parser in (PostgresParser(), MySqlParser()):
        made = rail(statements(objects=("hr.salary",)))
        assert try_input(made, "select * from app.other", parser).outcome is None
        assert try_input(made, "select * from hr.salary", parser).outcome is Action.DENY
