"""Shapes of MySQL statements: equal shapes have equal judgements and lineage, whatever the literals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.sql.sql_shapes import LONGEST
from postern.protocols.mysql.dialect.mysql_parser import judge_text
from postern.protocols.mysql.dialect.mysql_shapes import MYSQL_SHAPES
from postern.protocols.mysql.lineage.mysql_lineage import MySqlLineage


def shape(text: str) -> str | None:
    return MYSQL_SHAPES.of(text)


ALIKE = [
    (
        "select a from t where `t`.a in (1, 'x',2) and b not in(3)",
        "select a from t where `t`.a in (4, 5,'y') and b not in('z')",
    ),
    ("select a from t where id = 4711;", "select a from t where id = 1;"),
    ("SELECT `a` FROM `t` WHERE `t`.`id` = 'x@y: \"#1\" ü'", "SELECT `a` FROM `t` WHERE `t`.`id` = -5"),
    ("update t set a = a + -5 where id = 3", "update t set a = a + 17 where id = 99"),
    ("select sum(k) from t where id between 1 and 100", "select sum(k) from t where id between 'b' and 7"),
    ("replace into h (a, `b`) values (1, 'x y', CURRENT_TIMESTAMP)", "replace into h (a, `b`) values (-2, null)"),
    ("insert into h values (1, '{\"a\": \"it''s\"}')", "insert into h values (2, ''), (3, 4.50);"),
]

NO_SHAPE = [
    "select 1",
    "select a from t where id = ?",
    "set @a = 5",
    "select a from t where b = 5; set sql_mode = 'ansi_quotes'",
    "select a from t where a = 05",
    "select a from t where a = 5.0",
    "select a from t where a = 5e1",
    "select a from t where a = 5 or 5 = 5",
    "select a from t where a = 5 or not a = 0x5",
    "select a from t where a = 5 or a = b'1'",
    "select a from t where a = x'41'",
    "select a from t where a = n'x'",
    "select a from t where a = _utf8mb4'x'",
    "select a from t where a = _latin1 'x'",
    "select a from t where a = date '2026-11-23'",
    "select a from t where a = 'x' 'y'",
    "select a from t where a = 'x' \"y\"",
    "select a from t where a = 'x'\n'y'",
    'select a from t where a = "x"',
    'select "\'" from t where a = \'x" or b = \'y',
    r"select a from t where a = 'x\' or b = 5",
    "select a from t where a = 5 -- b",
    "select a from t where a = 5 --\tb",
    "select a from t where a = b --5",
    "select a from t where a = 5 # b",
    "select a # '\nfrom t where a = 'x'",
    "select a from t where a = 5 /* b */",
    "select a from t where a = 5 /*!50000 or 1 */",
    "select a from t where a = 5 /*M! or 1 */",
    "select a from t where a = @b and c = 5",
    "select a from t where a = 5 and @b := 6",
    "select a into @b from t where a = 5",
    "select a from t where a = 5 into outfile '/tmp/x'",
    "select a from t where a <=> 5",
    "select a from t where a = 5 || b",
    "select a from t where a = 5 div 2",
    "select a from t where a = 5 collate utf8mb4_bin",
    "select a from t where a = 'x' and load_file('/etc/passwd') = 'y'",
    "select a from t where a = 5 limit 2, 3",
    "select a from t where a = 5 procedure analyse(1)",
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
    "insert into h values (nextval('s'))",
    "insert into h values (1) on duplicate key update a = 5",
    "insert into h values (\"x\")",
    "delimiter //",
    "handler t read first where a = 5",
    "call p(5)",
    "execute immediate 'drop table t'",
    "prepare x from @b",
    "load data infile '/tmp/x' into table t",
    "select a from t where a = 5\0",
    "select a from t where a = '\ufffd'",
    "select a from t where a = 5 and ü = 6",
    "select a from t where a = 5\u00a0or b = 6",
    "select a from t where a = 5 and b = \ue000",
    f"select a from t where a = 5 and {'b' * LONGEST} = 5",
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_texts_that_differ_only_in_values_have_one_shape(one: str, other: str) -> None:
    assert shape(one) is not None
    assert shape(one) == shape(other)
    assert judge_text(one, None) == judge_text(other, None)


@pytest.mark.parametrize("text", NO_SHAPE)
def test_text_whose_literals_matter_or_are_ambiguous_has_no_shape(text: str) -> None:
    assert shape(text) is None


def test_shape_distinguishes_equal_literals_from_different_ones() -> None:
    always, seldom = "delete from t where a = 1 or not a = 1", "delete from t where a = 1 or not a = 2"
    assert None not in (shape(always), shape(seldom))
    assert shape(always) != shape(seldom)
    # Every literal that is not plain is one character to the judge.
    assert shape("delete from t where a = '!' or not a = '?'") == shape("delete from t where a = '?' or not a = '!'")
    assert shape("delete from t where a = '!' or not a = '?'") != shape("delete from t where a = 'b' or not a = 'c'")


def test_quoted_names_are_not_literals_of_a_shape() -> None:
    assert shape("delete from `where a = 1` where b = 2") is None
    assert shape("delete from `t, a = 'x'` where b = 2") is None
    assert shape("delete from `t1` where `where a1` = 2") != shape("delete from `t1` where `where a2` = 2")


LITERALS = ("-1", "'it''s'", "'a'", "'b'", "'#\"'", "'@:'", "'1'", "0", "1", "2")
literals = st.sampled_from(LITERALS)
columns = st.sampled_from(["a", "b", "t.`a`", "`a = 1`", "true", "current_user", "binary", "x", "_utf8", "`it``s`"])
compared = st.builds(
    "{}{}{}".format,
    columns,
    st.sampled_from(["=", " <> ", " < ", " >= ", " != ", "<=>", " = b + ", " = b -"]),
    literals,
)
members = st.lists(literals, min_size=1, max_size=3).map(", ".join)
listed = st.builds("{} {}({})".format, columns, st.sampled_from(["in ", "not in ", "IN", "not  in"]), members)
within = st.builds("{} between {} and {}".format, columns, literals, literals)
odd = st.sampled_from([
    "a is null", "b", "true", "1 = 1", "'t'", "a between b and c", "1 + a = 1", "a like '%'", "a in (a, 1)",
    'a = "b"', "a = 'x' 'y'", "a = @c", "f(a) = 1", "a = (select a from t where b = 1)", "a = b'1'", "a = 'x\\'",
    "a = 1 /*! or 1 */",
])  # fmt: skip
conditions = st.recursive(
    st.one_of(compared, compared, compared, within, listed, odd),
    lambda one: st.one_of(
        st.builds("{} {} {}".format, one, st.sampled_from(["or", "and", "xor"]), one),
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
    "select a, a = 1, b as c from t where {} order by c",
    "with x as (select a from t where {}) select * from x",
    "select case when {} then a end from t;",
    "insert into t (a) select b from t where {}",
    "replace into t set a = 1",
])  # fmt: skip


def changed(text: str, others: list[str]) -> str:
    """Return the text with each literal replaced by another."""
    for place, literal in enumerate(LITERALS):
        text = text.replace(literal, chr(place + 1))
    for place, literal in enumerate(others):
        text = text.replace(chr(place + 1), literal)
    return text


SCHEMA = TargetSchema({("shop", "t"): Relation("shop", "t", ("a", "b", "c"))}, {}, ("shop",))


@given(frames, conditions, st.permutations(LITERALS))
def test_statements_of_one_shape_have_equal_judgements_and_lineage(
    frame: str, condition: str, others: list[str]
) -> None:
    one = frame.format(condition)
    other = changed(one, others)
    if shape(one) is not None and shape(one) == shape(other):
        assert judge_text(one, None) == judge_text(other, None)
        assert MySqlLineage().read(one, SCHEMA) == MySqlLineage().read(other, SCHEMA)


pieces = st.sampled_from([
    "a", "b", "1", "'", "''", "`", '"', "#", "-", "--", "-- ", "/*", "/*!", "*/", "!", "@", ":=", ";", "=", "<", "(",
    ")", ",", ".", "$", "\\", "\n", " ", " and ", " or ", " where ", " between ", " limit ", "x", "n", "_utf8", "é",
    "\x01",
])  # fmt: skip


@given(st.lists(pieces, max_size=16), st.lists(pieces, max_size=8))
def test_attack_shape_alone_has_the_judgement_of_a_hostile_text(before: list[str], within: list[str]) -> None:
    """The judge sees no more of such a text than its shape."""
    text = f"delete from t where {''.join(before)} a = 'x{''.join(within)}'"
    found = shape(text)
    if found is not None:
        plain = "".join(str(ord(sign)) if "\ue000" <= sign <= "\uf8ff" else sign for sign in found)
        assert shape(plain) == found
        assert judge_text(plain, None) == judge_text(text, None)
