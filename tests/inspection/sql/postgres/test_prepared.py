from __future__ import annotations

import pytest

from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import Function, TargetSchema
from postern.protocols.postgres.dialect import postgres_prepared as module
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser
from postern.protocols.postgres.dialect.postgres_prepared import PreparedStatements


def session() -> PreparedStatements:
    return PreparedStatements(PostgresParser())


def effects(one: PreparedStatements, text: str) -> list[set[str]]:
    return [{effect.value for effect in statement.effects} for statement in one.parse(text)]


def test_execute_of_a_name_that_nobody_saw_prepared_is_unknown() -> None:
    assert effects(session(), "execute p") == [{"unknown"}]


def test_execute_does_what_was_prepared() -> None:
    one = session()
    one.record_statement("prepare p as delete from t")
    (statement,) = one.parse("execute p")
    assert {effect.value for effect in statement.effects} == {"session", "write"}
    assert statement.without_where
    assert statement.tag == "EXECUTE"
    assert {name.name for name in statement.objects} == {"t"}


def test_what_was_judged_but_never_passed_is_not_known() -> None:
    one = session()
    one.parse("prepare p as select 1")
    assert effects(one, "execute p") == [{"unknown"}]


def test_within_one_text_the_order_counts() -> None:
    assert effects(session(), "prepare p as select 1; execute p") == [{"session", "read"}] * 2
    assert effects(session(), "execute p; prepare p as select 1")[0] == {"unknown"}


def test_attack_prepared_harmlessly_under_a_name_that_holds_a_write() -> None:
    """The second PREPARE fails on the server, since the name is taken; the EXECUTE runs the first."""
    one = session()
    one.record_statement("prepare p as delete from t")
    one.record_statement("prepare p as select 1")
    assert "write" in effects(one, "execute p")[0]


def test_attack_dropped_in_a_text_that_fails() -> None:
    one = session()
    one.record_statement("prepare p as delete from t")
    one.record_statement("select 1/0; deallocate p")
    assert "write" in effects(one, "execute p")[0]


def test_attack_arguments_that_write() -> None:
    one = session()
    one.record_statement("prepare p(int) as select $1")
    assert effects(one, "execute p(nextval('s'))") == [{"session", "read", "write"}]


def test_attack_execute_inside_of_another_statement() -> None:
    one = session()
    one.record_statement("prepare p as select 1")
    assert "unknown" in effects(one, "explain analyze execute p")[0]
    assert "unknown" in effects(one, "create table t as execute p")[0]


def test_names_are_folded_as_the_server_folds_them() -> None:
    one = session()
    one.record_statement("prepare P as select 1")
    assert effects(one, "execute p") == [{"session", "read"}]
    assert effects(one, 'execute "P"') == [{"unknown"}]


def test_attack_arguments_that_nobody_knows() -> None:
    one = session()
    one.record_statement("prepare p(int) as select $1")
    assert "unknown" in effects(one, "execute p(evil())")[0]


def test_what_the_protocol_prepared_may_be_behind_any_name() -> None:
    one = session()
    one.record_statement("delete from t", by_protocol=True)
    assert effects(one, "execute s1") == [{"write"}]


def test_attack_a_harmless_name_that_the_protocol_took_again() -> None:
    one = session()
    one.record_statement("prepare p as select 1")
    one.record_statement("deallocate p")
    one.record_statement("delete from t", by_protocol=True)
    assert "write" in effects(one, "execute p")[0]


def test_by_what_is_known_of_a_function_now() -> None:
    one = session()
    harmless = TargetSchema(functions={("public", "f"): Function("public", "f", harmless=True)})
    one.record_statement("prepare p as select public.f()")
    assert [statement.effects for statement in one.parse("execute p", harmless)] == [{Effect.SESSION, Effect.READ}]
    assert Effect.UNKNOWN in one.parse("execute p", TargetSchema())[0].effects


def test_where_something_was_missed_nothing_is_known() -> None:
    one = session()
    one.record_statement("prepare p as select 1")
    one.record_gap()
    one.record_statement("prepare q as select 1")
    assert effects(one, "execute p; execute q") == [{"unknown"}] * 2


@pytest.mark.parametrize("bound", ["MOST", "MOST_LENGTH"])
def test_who_prepares_without_end_is_not_followed(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(module, bound, 100)
    one = session()
    for _ in range(100):
        one.record_statement("prepare p as select 1")
        assert effects(one, "execute p") == [{"session", "read"}]
    for number in range(101):
        one.record_statement(f"prepare p{number} as select 1")
    assert effects(one, "execute p") == [{"unknown"}]


def test_what_a_text_runs_by_name_is_told() -> None:
    one = session()
    for text in ("prepare p as delete from t", 'prepare "P" as select 1', "prepare q as select 2"):
        one.record_statement(text)
    one.record_statement("prepare p as select 3")
    texts = "execute p; execute P; execute r"
    one.parse(texts)
    assert one.executed_statements(texts) == ["prepare p as delete from t", "prepare p as select 3"]
    assert one.executed_statements("select 'p'") == []
    one.record_gap()
    assert one.executed_statements(texts) == []
