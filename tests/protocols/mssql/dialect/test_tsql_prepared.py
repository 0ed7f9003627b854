"""sp_execute has the effects of whatever the session has prepared."""

from __future__ import annotations

import pytest

from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import Function, TargetSchema
from postern.protocols.mssql.dialect.tsql_parser import TSqlParser
from postern.protocols.mssql.dialect.tsql_prepared import MOST, TSqlPreparedStatements


def session(*texts: str) -> TSqlPreparedStatements:
    statements = TSqlPreparedStatements(TSqlParser())
    for text in texts:
        statements.record_statement(text)
    return statements


def effects(statements: TSqlPreparedStatements, text: str) -> set[Effect]:
    return {effect for statement in statements.parse(text) for effect in statement.effects}


def test_execute_by_number_has_the_effects_of_all_prepared_statements() -> None:
    statements = session("exec sp_prepare @h output, N'', N'select 1'")
    assert effects(statements, "exec sp_execute 1") == {Effect.READ}
    statements.record_statement("exec sp_prepexec @h output, N'', N'delete from t'")
    assert effects(statements, "exec sp_execute 1") == {Effect.READ, Effect.WRITE}
    assert statements.executed_statements("exec sp_execute 1") == ["select 1", "delete from t"]
    assert effects(statements, "select 1") == {Effect.READ}
    assert statements.executed_statements("select 1") == []
    assert statements.weight == len("select 1") + len("delete from t")


def test_statement_that_the_protocol_prepares_has_a_number_as_well() -> None:
    statements = session()
    assert effects(statements, "exec sp_execute 1") == {Effect.UNKNOWN}
    statements.record_statement("drop table t", by_protocol=True)
    assert effects(statements, "exec sp_execute 1") == {Effect.DDL}


def test_text_can_execute_what_it_prepares_itself() -> None:
    text = "declare @h int; exec sp_prepare @h output, N'', N'drop table t'; exec sp_execute @h"
    assert Effect.DDL in effects(session(), text)
    assert session().executed_statements(text) == ["drop table t"]


@pytest.mark.parametrize(
    "text",
    [
        "exec sp_prepare @h output, N'', @sql",
        "exec ('exec sp_prepare @h output, N'''', N''drop table t''')",
        "exec sp_prepare @h output, N'', N'open",
        "exec @procedure 1",
        "exec (@sql)",
        "exec sp_executesql @sql",
        "exec ('select 1') as user = 'x'",
        "exec sp_prepexecrpc @h output, N'p'",
        "sp_prepexecrpc @h output, N'p'",
        "insert t exec (@sql)",
        "exec [\uff53p_prepare] @h output, N'', N'drop table t'",
    ],
)
def test_attack_number_is_unknown_after_an_unknown_text_was_prepared(text: str) -> None:
    statements = session("exec sp_prepare @h output, N'', N'select 1'", text)
    assert Effect.UNKNOWN in effects(statements, "exec sp_execute 1")


@pytest.mark.parametrize(
    "text",
    [
        "exec dbo.p 1",
        "exec sp_help 't'",
        "exec sp_executesql N'select 1'",
        "exec ('select 1')",
        "execute as user = 'x'",
    ],
)
def test_number_stays_known_after_ordinary_calls(text: str) -> None:
    statements = session("exec sp_prepare @h output, N'', N'select 1'", text)
    assert effects(statements, "exec sp_execute 1") == {Effect.READ}


def test_number_is_unknown_after_a_gap_and_after_too_many_statements() -> None:
    statements = session("exec sp_prepare @h output, N'', N'select 1'")
    statements.record_gap()
    assert effects(statements, "exec sp_execute 1") == {Effect.UNKNOWN}
    many = session()
    for number in range(MOST + 1):
        many.record_statement(f"select {number}", by_protocol=True)
    assert effects(many, "exec sp_execute 1") == {Effect.UNKNOWN}
    assert many.weight == 0


def test_only_texts_that_prepare_or_execute_matter_later() -> None:
    statements = session()
    assert statements.matters_later("EXEC SP_PREPARE @h output, N'', N'x'")
    assert statements.matters_later("exec sp_execute 1")
    assert statements.matters_later("exec (@sql)")
    assert not statements.matters_later("select 1")


def test_declared_functions_count_in_prepared_statements() -> None:
    schema = TargetSchema(functions={("dbo", "f"): Function("dbo", "f", harmless=True)})
    statements = session("exec sp_prepare @h output, N'', N'select dbo.f(1)'")
    [statement] = statements.parse("exec sp_execute 1", schema)
    assert statement.effects == {Effect.READ}
