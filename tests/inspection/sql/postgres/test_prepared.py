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


def test_execute_of_a_name_that_was_never_prepared_is_unknown() -> None:
    assert effects(session(), "execute p") == [{"unknown"}]


def test_execute_has_the_effects_and_objects_of_the_prepared_statement() -> None:
    one = session()
    one.record_statement("prepare p as delete from t")
    (statement,) = one.parse("execute p")
    assert {effect.value for effect in statement.effects} == {"session", "write"}
    assert statement.without_where
    assert statement.tag == "EXECUTE"
    assert {name.name for name in statement.objects} == {"t"}


def test_execute_is_unknown_if_prepare_was_judged_but_not_forwarded() -> None:
    one = session()
    one.parse("prepare p as select 1")
    assert effects(one, "execute p") == [{"unknown"}]


def test_execute_in_one_text_is_known_only_after_its_prepare() -> None:
    assert effects(session(), "prepare p as select 1; execute p") == [{"session", "read"}] * 2
    assert effects(session(), "execute p; prepare p as select 1")[0] == {"unknown"}


def test_attack_harmless_prepare_under_a_used_name_does_not_hide_the_write() -> None:
    """The second PREPARE fails on the server because the name is in use. The EXECUTE runs the first."""
    one = session()
    one.record_statement("prepare p as delete from t")
    one.record_statement("prepare p as select 1")
    assert "write" in effects(one, "execute p")[0]


def test_attack_deallocate_in_a_failing_text_does_not_hide_the_write() -> None:
    one = session()
    one.record_statement("prepare p as delete from t")
    one.record_statement("select 1/0; deallocate p")
    assert "write" in effects(one, "execute p")[0]


def test_attack_execute_has_the_effects_of_its_arguments() -> None:
    one = session()
    one.record_statement("prepare p(int) as select $1")
    assert effects(one, "execute p(nextval('s'))") == [{"session", "read", "write"}]


def test_attack_execute_inside_another_statement_is_unknown() -> None:
    one = session()
    one.record_statement("prepare p as select 1")
    assert "unknown" in effects(one, "explain analyze execute p")[0]
    assert "unknown" in effects(one, "create table t as execute p")[0]


def test_prepared_names_are_folded_as_by_the_server() -> None:
    one = session()
    one.record_statement("prepare P as select 1")
    assert effects(one, "execute p") == [{"session", "read"}]
    assert effects(one, 'execute "P"') == [{"unknown"}]


def test_attack_execute_with_an_unknown_function_argument_is_unknown() -> None:
    one = session()
    one.record_statement("prepare p(int) as select $1")
    assert "unknown" in effects(one, "execute p(evil())")[0]


def test_statement_prepared_by_the_protocol_matches_any_execute_name() -> None:
    one = session()
    one.record_statement("delete from t", by_protocol=True)
    assert effects(one, "execute s1") == [{"write"}]


def test_attack_write_prepared_by_the_protocol_under_a_freed_name_is_found() -> None:
    one = session()
    one.record_statement("prepare p as select 1")
    one.record_statement("deallocate p")
    one.record_statement("delete from t", by_protocol=True)
    assert "write" in effects(one, "execute p")[0]


def test_execute_is_judged_with_the_current_schema() -> None:
    one = session()
    harmless = TargetSchema(functions={("public", "f"): Function("public", "f", harmless=True)})
    one.record_statement("prepare p as select public.f()")
    assert [statement.effects for statement in one.parse("execute p", harmless)] == [{Effect.SESSION, Effect.READ}]
    assert Effect.UNKNOWN in one.parse("execute p", TargetSchema())[0].effects


def test_execute_is_unknown_after_a_gap() -> None:
    one = session()
    one.record_statement("prepare p as select 1")
    one.record_gap()
    one.record_statement("prepare q as select 1")
    assert effects(one, "execute p; execute q") == [{"unknown"}] * 2


@pytest.mark.parametrize("bound", ["MOST", "MOST_LENGTH"])
def test_execute_is_unknown_after_more_prepares_than_are_tracked(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(module, bound, 100)
    one = session()
    for _ in range(100):
        one.record_statement("prepare p as select 1")
        assert effects(one, "execute p") == [{"session", "read"}]
    for number in range(101):
        one.record_statement(f"prepare p{number} as select 1")
    assert effects(one, "execute p") == [{"unknown"}]


def test_executed_statements_lists_every_statement_of_the_executed_names() -> None:
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
