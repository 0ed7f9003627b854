"""Shapes of Oracle's SQL: texts of one shape have equal judgements and lineage, whatever the literals."""

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
from postern.protocols.oracledb.dialect.oracle_parser import judge_text
from postern.protocols.oracledb.dialect.oracle_shapes import ORACLE_SHAPES
from postern.protocols.oracledb.lineage.oracle_lineage import OracleLineage

SCHEMA = TargetSchema({("APP", "T"): Relation("APP", "T", ("A", "B"))}, {}, ("APP",))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select a from t where id = 4711", "select a from t where id = 1"),
        ("SELECT a FROM app.t WHERE t.a IN (1, 'x') ", "SELECT a FROM app.t WHERE t.a IN ('y', 2) "),
        ("update t set a = a + 5 where b = 'x'", "update t set a = a + 17 where b = 'drop table t'"),
        ("insert into t (a, b) values (1, 'x')", "insert into t (a, b) values (2, '')"),
        ("delete from t where a between 1 and 9", "delete from t where a between 5 and 6"),
    ],
)  # fmt: skip
def test_texts_that_differ_in_compared_literals_have_one_shape(one: str, other: str) -> None:
    assert have_one_shape(ORACLE_SHAPES, one, other)


@pytest.mark.parametrize(
    "text",
    [
        "select 1 from dual",
        "select a from t where b = N'x'",
        "select a from t where b = q'[x]'",
        "select a from t where b = date '2020-01-01' and c = 1",
        "select a from t where b = :p and c = 1",
        'select a from t where "b" = 1',
        "select a from t@remote where b = 1",
        "select a from t where b = 1 -- x",
        "select a from t where b = 1; drop table t",
        "select a from t where b = 1\n/\ndrop table t",
        "select a from t where b = 'x'\n/",
        "begin delete from t where a = 1; end;",
        "select a from t where b = 1.5",
        "select xmlquery('/a' passing b returning content) from t where c = 1",
    ],
)
def test_text_with_anything_else_has_no_shape(text: str) -> None:
    assert ORACLE_SHAPES.of(text) is None


@given(texts_with_places, six_literals)
def test_texts_of_one_shape_have_equal_judgements_and_lineage(text: str, literals: list[str]) -> None:
    def read_lineage(text: str) -> object:
        return OracleLineage().read(text, SCHEMA)

    check_equal_analyses(ORACLE_SHAPES, text, literals, judge_text, read_lineage, SCHEMA)
