from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row
from postern.protocols.mysql.queries.mysql_schema import QUESTIONS, target_schema


def test_schema_of_an_empty_target_is_empty() -> None:
    schema = target_schema([[] for _ in QUESTIONS])
    assert not schema.relations
    assert schema.search_path == ()


@pytest.mark.parametrize(
    "answers",
    [
        [[]],
        [[], [("shop", None, None)], [], [], []],
        [[], [("shop", "t")], [], [], []],
        [[], [("shop", "t", None)], [("shop", "t", None, None, None)], [], []],
        [[], [], [("shop", "t", "c")], [], [("shop",)]],
    ],
)
def test_attack_malformed_schema_answer_is_a_protocol_violation(answers: list[list[Row]]) -> None:
    with pytest.raises(ProtocolViolation):
        target_schema(answers)


cells = st.none() | st.text(max_size=4)


@given(st.lists(st.lists(st.lists(cells, max_size=6).map(tuple), max_size=2), min_size=5, max_size=5))
def test_arbitrary_schema_answers_parse_as_a_schema_or_a_violation(answers: list[list[Row]]) -> None:
    with contextlib.suppress(ProtocolViolation):
        target_schema(answers)
