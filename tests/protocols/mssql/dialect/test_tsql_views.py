"""A rule about a table applies to the views and synonyms that read it."""

from __future__ import annotations

import pytest

from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import Function, Relation, TargetSchema
from postern.inspection.sql.sql_parser import NO_CATALOGUE
from postern.protocols.mssql.dialect.tsql_parser import TSqlParser

_RELATIONS = (
    Relation("hr", "salary", ("id", "amount")),
    Relation("dbo", "t", ("a",)),
    Relation("dbo", "pay", ("amount",), definition="create view dbo.pay as select amount from hr.salary"),
    Relation(
        "dbo", "more", ("x",), definition="CREATE VIEW more (x)\nWITH SCHEMABINDING AS SELECT amount FROM dbo.pay"
    ),
    Relation("dbo", "wages", ("id", "amount"), definition="select * from [hr].[salary]"),
    Relation("dbo", "calls", ("x",), definition="create view calls as select dbo.wild(1) as x from hr.salary"),
    Relation("dbo", "odd", ("x",), definition="create view odd as select {x}"),
)
SCHEMA = TargetSchema(
    {(one.schema, one.name): one for one in _RELATIONS},
    {("dbo", "wild"): Function("dbo", "wild", harmless=False)},
    ("dbo",),
)


def tables(text: str) -> set[str]:
    return {f"{one.schema}.{one.name}" for statement in TSqlParser().parse(text, SCHEMA) for one in statement.objects}


@pytest.mark.parametrize(
    "text",
    [
        "select amount from pay",
        "select x from more",
        "SELECT * FROM [dbo].[WAGES]",
        "select amount from shop.dbo.pay",
        "update wages set amount = 1 where id = 2",
        "exec ('select amount from pay')",
        "if exists (select 1 from pay) select 1",
        "declare c cursor for select x from more",
        "create view v as select x from more",
        "insert t select amount from pay",
        "with c as (select amount from pay) select * from c",
    ],
)
def test_objects_of_a_statement_include_the_tables_of_its_views(text: str) -> None:
    assert "hr.salary" in tables(text)


def test_table_that_no_view_leads_to_is_no_object() -> None:
    assert "hr.salary" not in tables("select a from t")
    [statement] = TSqlParser().parse("select a from t", SCHEMA)
    assert statement.untraced == ""


def test_view_that_calls_a_function_of_unknown_effect_is_unknown() -> None:
    [statement] = TSqlParser().parse("select x from calls", SCHEMA)
    assert Effect.UNKNOWN in statement.effects


@pytest.mark.parametrize(
    ("text", "reason"),
    [("select x from odd", "VIEW DEFINITION"), ("select x from created_since", "could be a view")],
)
def test_statement_says_if_its_tables_are_not_known(text: str, reason: str) -> None:
    [statement] = TSqlParser().parse(text, SCHEMA)
    assert reason in statement.untraced
    assert statement.effects == {Effect.READ}


@pytest.mark.parametrize("text", ["select a from #t", "select name from sys.tables", "select @a"])
def test_temporary_and_system_tables_are_no_views(text: str) -> None:
    [statement] = TSqlParser().parse(text, SCHEMA)
    assert statement.untraced == ""


def test_without_a_catalogue_the_tables_of_views_are_unknown() -> None:
    [statement] = TSqlParser().parse("select a from t")
    assert statement.untraced == NO_CATALOGUE
