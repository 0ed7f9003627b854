"""Shapes of PostgreSQL statements: equal shapes have equal judgements, whatever the literals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.inspection.sql.sql_shapes import LONGEST
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser
from postern.protocols.postgres.dialect.postgres_shapes import POSTGRES_SHAPES

PARSER = PostgresParser()
shape_of = POSTGRES_SHAPES.of

ALIKE = [
    (
        "select a from t where a in (1, 'x',2) and b not in(3)",
        "select a from t where a in (4, 5,'y') and b not in('z')",
    ),
    ("select a from t where id = 4711;", "select a from t where id = 1;"),
    ("select a from t where id = -4711", "select a from t where id = 'x'"),
    ("update t set a = a + -5 where id = 3", "update t set a = a + 17 where id = 99"),
    ('delete from "t" where "t"."id" = 5 and x <> \'it\'\'s\'', 'delete from "t" where "t"."id" = 6 and x <> \'b\''),
    ("select a from t where a = 1 or b = 1 limit 5", "select a from t where a = 2 or b = 2 limit 9"),
    ("select a from t where a between 1 and 9 order by a", "select a from t where a between 'x' and 3 order by a"),
    ("insert into h (a, b) values (1, 'x', CURRENT_TIMESTAMP)", "insert into h (a, b) values (-2, null), (3, 4.50);"),
]

NO_SHAPE = [
    "select 1",
    "select a from t",
    "select a from t where id = $1",
    "set standard_conforming_strings = 0",
    "select a from t where b = 5; set standard_conforming_strings = 0",
    "alter system set work_mem = 5",
    "select a from t where a = 05",
    "select a from t where a = 5.0",
    "select a from t where a = 5 or 5 = 5",
    "select a from t where a = 5 or 5 = a",
    "select a from t where a = 5 or not a = (5)",
    "select a from t where a = 5 or not a = +5",
    "select a from t where a = 5 or not a = 0x5",
    "select a from t where a = 5 or not a = 1 + 4",
    "select a from t where a = 5::int",
    "select a from t where a = 'pg_authid'::regclass",
    "select a from t where a = 'pg_authid' :: regclass",
    "select a from t where a = 'x'\n'y'",
    "select a from t where a = E'x'",
    r"select a from t where a = 'x\' or b = 5",
    "select a from t where a = U&'x'",
    "select a from t where a = $$x$$",
    "select a from t where a = 5 -- b",
    "select a from t where a = 5 /* b */",
    "select a from t where a = 'x' and pg_read_file('y') = 'z'",
    "select a from t where 'x' collate \"C\" = 'x'",
    "select a from t where 5::int = 5",
    "select a from t where a = 5 order by 2",
    "select a from t where a in (5, b)",
    "select a from t where a in (5, 6 + 1)",
    "select a from t where a in (5, (6))",
    "select a from t where a in ((5))",
    "select a from t where a in (select 5)",
    "select a from t where a in (5.0)",
    "select a from t where (a) in (5)",
    "select a from t where (a, b) in ((5, 6))",
    "select a from t where 5 in (5)",
    "select a from t where a + 1 in (5)",
    "select a from t where a in (5) is true",
    "select a from t where a in (5) = b",
    "select a from t where f(a) in (5)",
    "select a from t where a in ()",
    "select a from t where a between 5 and b",
    "select a from t where a between 5 and 6 + 1",
    "select a from t where a between 5 and not 6",
    "insert into h values (nextval('s'))",
    "insert into h values (1) on conflict do nothing",
    "select a from t where a = 5\0",
    "select a from t where a = 5 and b = \ue000",
    f"select a from t where a = 5 and {'b' * LONGEST} = 5",
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_texts_that_differ_only_in_values_have_one_shape(one: str, other: str) -> None:
    assert shape_of(one) is not None
    assert shape_of(one) == shape_of(other)
    assert PARSER.parse(one) == PARSER.parse(other)


@pytest.mark.parametrize("text", NO_SHAPE)
def test_text_whose_literals_matter_has_no_shape(text: str) -> None:
    assert shape_of(text) is None


def test_shape_distinguishes_equal_literals_from_different_ones() -> None:
    always = shape_of("delete from t where a = 1 or not a = 1")
    seldom = shape_of("delete from t where a = 1 or not a = 2")
    assert None not in (always, seldom)
    assert always != seldom
    assert shape_of("delete from t where a in (1, 2, 1)") != shape_of("delete from t where a in (1, 2, 3)")


def test_quoted_names_are_not_literals_of_a_shape() -> None:
    assert shape_of('delete from "where a = 1" where b = 2') is None
    assert shape_of("delete from \"t, a = 'x'\" where b = 2") is None
    assert shape_of('delete from "t1" where "where a1" = 2') != shape_of('delete from "t1" where "where a2" = 2')


def test_shape_of_an_insert_distinguishes_a_function_from_a_constant() -> None:
    assert shape_of("insert into t values (now())") != shape_of("insert into t values (1)")


LITERALS = ("-1", "'it''s'", "'a'", "'b'", "'1'", "0", "1", "2")
literals = st.sampled_from(LITERALS)
columns = st.sampled_from(["a", "b", 't."a"', '"a = 1"', "true", "current_user"])
compared = st.builds(
    "{}{}{}".format, columns, st.sampled_from(["=", " <> ", " < ", " >= ", " != ", " = b + ", " = b - "]), literals
)
odd = st.sampled_from(["a is null", "b", "true", "1 = 1", "'t'", "a between 1 and 2", "a between b and c", "1 + a = 1"])
members = st.lists(literals, min_size=1, max_size=3).map(", ".join)
listed = st.builds("{} {}({})".format, columns, st.sampled_from(["in ", "not in ", "IN", "not  in"]), members)
within = st.builds("{} between {} and {}".format, columns, literals, literals)
conditions = st.recursive(
    st.one_of(compared, compared, compared, within, listed, odd),
    lambda one: st.one_of(
        st.builds("{} or {}".format, one, one),
        st.builds("{} and {}".format, one, one),
        st.builds("not {}".format, one),
        st.builds("({})".format, one),
        st.builds("not ({})".format, one),
    ),
    max_leaves=5,
)
frames = st.sampled_from([
    "delete from t where {}",
    "update t set a = 2 where {}",
    "select a from t where {} limit 1",
    "with x as (delete from t where {} returning a) select a from x",
    "select case when {} then a end from t",
])  # fmt: skip


@given(frames, conditions, st.permutations(LITERALS))
def test_statements_of_one_shape_have_equal_judgements(frame: str, condition: str, others: list[str]) -> None:
    one = frame.format(condition)
    other = one
    for place, literal in enumerate(LITERALS):
        other = other.replace(literal, chr(place + 1))
    for place, literal in enumerate(others):
        other = other.replace(chr(place + 1), literal)
    if shape_of(one) is not None and shape_of(one) == shape_of(other):
        assert PARSER.parse(one) == PARSER.parse(other)
