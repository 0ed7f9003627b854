"""Checks of shapes for dialects whose lineage needs nothing but a text: texts of one shape are judged alike."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from postern.domain.rules.statement import Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.sql_shapes import Shapes

_LITERALS = st.one_of(
    st.integers(-999, 999).map(str),
    st.text(st.characters(codec="utf-8", exclude_characters="\0\\;-/"), max_size=9).map(
        lambda text: "'" + text.replace("'", "''") + "'"
    ),
)

texts_with_places = st.sampled_from(
    [
        "select a, b from t where a = {} or b in ({}, {})",
        "update t set a = {} where b = {}",
        "delete from t where a = {} and not b = {}",
        "insert into t (a, b) values ({}, {})",
    ]
)
six_literals = st.lists(_LITERALS, min_size=6, max_size=6)


def have_one_shape(shapes: Shapes, one: str, other: str) -> bool:
    return shapes.of(one) is not None and shapes.of(one) == shapes.of(other)


def check_equal_analyses(
    shapes: Shapes,
    text: str,
    literals: list[str],
    judge: Callable[[str, TargetSchema], tuple[Statement, ...]],
    read_lineage: Callable[[str], object],
    schema: TargetSchema,
) -> None:
    """Check a text with two lists of literals, which `read_lineage` analyses without a cache."""
    one, other = text.format(*literals[:3]), text.format(*literals[3:])
    if not have_one_shape(shapes, one, other):
        one, other = text.format(1, 2, 3), text.format("'x'", "'y'", 4)
        assert have_one_shape(shapes, one, other)
    assert judge(one, schema) == judge(other, schema)
    lineage = read_lineage(one)
    assert lineage is not None
    assert lineage == read_lineage(other)
