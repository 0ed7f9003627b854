"""A rule about a table applies to the views and synonyms that read it."""

from __future__ import annotations

import pytest

from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import Function, Relation, TargetSchema
from postern.inspection.sql.sql_parser import NO_CATALOGUE
from postern.protocols.oracledb.dialect.oracle_parser import OracleParser

_RELATIONS = (
    Relation("HR", "SALARY", ("ID", "AMOUNT")),
    Relation("APP", "T", ("A",)),
    Relation("APP", "PAY", ("AMOUNT",), definition="select amount from hr.salary with read only"),
    Relation("APP", "MORE", ("X",), definition='CREATE OR REPLACE FORCE VIEW more ("X") AS SELECT amount FROM app.pay'),
    Relation("PUBLIC", "WAGES", ("ID", "AMOUNT"), definition='select * from "HR"."SALARY"'),
    Relation("APP", "CALLS", ("X",), definition="select wild(1) as x from hr.salary"),
    Relation("APP", "OUTSIDE", ("X",), definition="select x from calls"),
    Relation("APP", "BESIDE", ("X", "Y"), definition="select far.x, x as y from calls"),
    Relation("APP", "APART", ("X",), definition="select amount as wilder from hr.salary"),
    Relation("APP", "ODD", ("X",), definition="select {x}"),
)
SCHEMA = TargetSchema(
    {(one.schema, one.name): one for one in _RELATIONS},
    {("APP", name): Function("APP", name, harmless=name == "CALM") for name in ("WILD", "CALM", "PKG", "A")},
    ("APP",),
)


def tables(text: str) -> set[str]:
    return {f"{one.schema}.{one.name}" for statement in OracleParser().parse(text, SCHEMA) for one in statement.objects}


@pytest.mark.parametrize(
    "text",
    [
        "select amount from pay",
        "select x from more",
        'SELECT * FROM "PUBLIC"."WAGES"',
        "select * from wages",
        "update wages set amount = 1 where id = 2",
        "begin execute immediate 'select amount from pay'; end;",
        "begin for r in (select 1 from pay) loop null; end loop; end;",
        "declare cursor c is select x from more; begin null; end;",
        "begin open :c for 'select x from more'; end;",
        "declare pay number; begin delete from t where 1 in (select amount from pay); end;",
        "declare hr t%rowtype; begin delete from hr.salary where id = 1; end;",
        "declare type l is table of number; salary l; begin insert into hr.salary (id) values (1); end;",
        "create view v as select x from more",
        "create table v as select x from more",
        "insert into t select amount from pay",
        "with c as (select amount from pay) select * from c",
        "explain plan for select * from pay",
        "explain plan into hr.salary for select 1 from dual",
        "merge into t using pay on (t.a = pay.amount) when matched then update set a = 1",
    ],
)
def test_objects_of_a_statement_include_the_tables_of_its_views(text: str) -> None:
    assert "HR.SALARY" in tables(text)


def test_table_that_no_view_leads_to_is_no_object() -> None:
    assert "HR.SALARY" not in tables("select a from t")
    [statement] = OracleParser().parse("select a from t", SCHEMA)
    assert statement.untraced == ""


def test_view_that_calls_a_function_of_unknown_effect_is_unknown() -> None:
    for name in ("calls", "outside", "beside"):
        [statement] = OracleParser().parse(f"select x from {name}", SCHEMA)
        assert Effect.UNKNOWN in statement.effects
    [statement] = OracleParser().parse("select x from apart", SCHEMA)
    assert statement.effects == {Effect.READ}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("select x from odd", "SELECT_CATALOG_ROLE"),
        ("select x from created_since", "could be a view"),
        ("select xmlquery('fn:collection(\"oradb:/HR/SALARY\")' returning content) from dual", "XQuery"),
    ],
)
def test_statement_says_if_its_tables_are_not_known(text: str, reason: str) -> None:
    [statement] = OracleParser().parse(text, SCHEMA)
    assert reason in statement.untraced
    assert statement.effects == {Effect.READ}


@pytest.mark.parametrize(
    "text",
    [
        "select 1 from dual",
        "select table_name from user_tables",
        "select banner from v$version",
        "select * from sys.all_objects",
        "with c (a) as (select 1 from dual union all select a + 1 from c) select a from c",
        "select xmlquery('/a/b' passing x returning content) from dual",
    ],
)
def test_system_tables_and_recursive_queries_are_no_views(text: str) -> None:
    [statement] = OracleParser().parse(text, SCHEMA)
    assert statement.untraced == ""


def test_without_a_catalogue_the_tables_of_views_are_unknown() -> None:
    [statement] = OracleParser().parse("select a from t")
    assert statement.untraced == NO_CATALOGUE


@pytest.mark.parametrize(("text", "is_known"), [
    ("select a, wild from t", False), ("select t.wild from t", False), ("select a, calm from t", True),
    ("select a, other from t", True), ("select pkg.wild from t pkg", False), ("select pkg.a from t pkg", True),
])  # fmt: skip
def test_attack_function_that_looks_like_a_column_is_found_by_the_catalogue(text: str, is_known: bool) -> None:
    [statement] = OracleParser().parse(text, SCHEMA)
    assert (Effect.UNKNOWN not in statement.effects) is is_known
