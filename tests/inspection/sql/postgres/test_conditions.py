from __future__ import annotations

import pytest

from postern.protocols.postgres.dialect.postgres_parser import PostgresParser

PARSER = PostgresParser()


def without_where(condition: str) -> bool:
    found = {statement.without_where for statement in PARSER.parse(f"delete from t where {condition}")}
    assert found == {statement.without_where for statement in PARSER.parse(f"update t set a = 1 where {condition}")}
    return found == {True}


@pytest.mark.parametrize(
    "condition",
    [
        *("true", "1=1", "1 = 1", "'a'='a'", "not false", "1=1 or x", "x or 1=1", "(true)", "true and true"),
        *("not (false and a)", "not not true", "'t'", "'on'::bool", "1::bool", "cast('yes' as boolean)", "bool 'true'"),
        *("2 > 1", "1 < 2", "1 <> 2", "1 != 2", "2 >= 2", "'a' <> 'b'", "1 in (3, 1)", "1 between 1 and 1"),
        *("a = a", "a >= a", "t.a = t.a", "a || 'x' = a || 'x'", "a is null or a is not null", "b > 1 or not b > 1"),
        *("a like '%'", "a ilike '%%'", "a is not distinct from a", "a in (b, a)", "a between a and a"),
        *("not a <> a", "not a is distinct from a", "true is true", "false is not true", "1 is not null"),
        *("(select true)", "(select (select 1=1))", "exists (select 1)", "coalesce(true, a)", "now() > '2000-01-01'"),
        *("$1", "$1 = $2", "1 + 1 = 2", "length('x') = 1", "random() < 0.5", "current_user = 'x'"),
        "case when true then true end",
    ],
)
def test_condition_that_can_hold_for_every_row_counts_as_no_where(condition: str) -> None:
    assert without_where(condition)


@pytest.mark.parametrize(
    "condition",
    [
        *("a = 1", "a", "not a", "a = b", "a > a + 1", "true and a", "1=1 and a = 1", "false", "1=2", "null", "1 > 2"),
        *("not true", "a is null", "a is not null", "a like 'x%'", "a in (1, 2)", "a <> a", "false or a = 1"),
        *("exists (select 1 from b where b.a = t.a)", "a = $1", "current of c", "t.* is not null", "'off'::bool"),
        *("(a, b) = (1, 2)", "a = any($1)", "a not like '%'", "case when a then true end", "coalesce(a, true)"),
    ],
)
def test_condition_that_filters_rows_counts_as_where(condition: str) -> None:
    assert not without_where(condition)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("merge into t using s on true when matched then delete", True),
        ("merge into t using s on t.a = s.a when matched then delete", False),
        ("merge into t using s on true when matched and t.a = 1 then delete", False),
        ("merge into t using s on true when matched then do nothing", False),
        ("merge into t using s on true when not matched then insert values (1)", False),
        ("merge into t using s on t.a = s.a when not matched by source then delete", True),
        ("merge into t using s on t.a = s.a when not matched by source and t.b then delete", False),
        ("explain delete from t", False),
        ("explain analyze delete from t", True),
        ("prepare p as delete from t", True),
        ("create rule r as on insert to t do also delete from u", True),
        ("create function f() returns void language sql as 'update t set a = 1'", True),
        ("insert into t values (1) on conflict (a) do update set a = 1", False),
        ("truncate t", False),
    ],
)
def test_merge_and_nested_writes_are_checked_for_a_condition(text: str, expected: bool) -> None:
    assert any(statement.without_where for statement in PARSER.parse(text)) is expected
