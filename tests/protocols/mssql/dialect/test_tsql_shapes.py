"""Shapes of T-SQL: texts of one shape have equal judgements and lineage, whatever the literals."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.support.sql_shape_checks import (
    check_equal_analyses,
    have_one_shape,
    six_literals,
    texts_with_places,
)

from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.protocols.mssql.dialect.tsql_parser import judge_text
from postern.protocols.mssql.dialect.tsql_shapes import TSQL_SHAPES
from postern.protocols.mssql.lineage.tsql_lineage import TSqlLineage

SCHEMA = TargetSchema({("dbo", "t"): Relation("dbo", "t", ("a", "b"))}, {}, ("dbo",))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select a from t where id = 4711", "select a from t where id = 1"),
        (
            "SELECT a FROM dbo.t WHERE t.a IN (1, 'x') ORDER BY b",
            "SELECT a FROM dbo.t WHERE t.a IN ('y', 2) ORDER BY b",
        ),
        ("update t set a = a + 5 where b = 'x'", "update t set a = a + 17 where b = 'drop table t'"),
        ("insert into t (a, b) values (1, 'x')", "insert into t (a, b) values (2, ''), (3, null)"),
        ("delete from t where a between 1 and 9", "delete from t where a between 5 and 6"),
    ],
)
def test_texts_that_differ_in_compared_literals_have_one_shape(one: str, other: str) -> None:
    assert have_one_shape(TSQL_SHAPES, one, other)


@pytest.mark.parametrize(
    "text",
    [
        "select 1",
        "select top 5 a from t where b = 1",
        "select a from t where b = N'x'",
        "select a from t where b = @p and c = 1",
        'select a from t where "b" = 1',
        "select a from [t] where b = 1",
        "select a from t where b = 1 -- x",
        "select a from t where b = 1 /* x */",
        "select a from t where b = 1; drop table t",
        "select a from t where b = 1\nGO\nselect 2",
        "select a from t where b = 1 exec ('drop table t')",
        "select a from t where b = 'x' exec p 'y'",
        "exec p 'x'",
        "declare @s varchar(9) = 'x'",
        "select a from t where b = 0x41",
        "select a from t where b = 1.5",
        "select a from #t where b = 1",
    ],
)
def test_text_with_anything_else_has_no_shape(text: str) -> None:
    assert TSQL_SHAPES.of(text) is None


@given(texts_with_places, six_literals)
def test_texts_of_one_shape_have_equal_judgements_and_lineage(text: str, literals: list[str]) -> None:
    def read_lineage(text: str) -> object:
        return TSqlLineage().read(text, SCHEMA)

    check_equal_analyses(TSQL_SHAPES, text, literals, judge_text, read_lineage, SCHEMA)
