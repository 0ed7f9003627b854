from __future__ import annotations

import contextlib
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.targets.target_schema import TargetSchema
from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row, tags
from postern.protocols.postgres.queries.postgres_schema import QUESTIONS, target_schema

EMPTY: list[list[Row]] = [[] for _ in QUESTIONS]


def with_answer(place: int, *rows: Row) -> list[list[Row]]:
    return [list(rows) if index == place else answer for index, answer in enumerate(EMPTY)]


def test_schema_of_an_empty_target_is_empty() -> None:
    assert asdict(target_schema(EMPTY)) == asdict(TargetSchema())


@pytest.mark.parametrize(
    "answers",
    [
        EMPTY[:-1],
        with_answer(2, ("x", "public", "t", None, "[]", None, None, None, None)),
        with_answer(2, ("1", None, "t", None, "[]", None, None, None, None)),
        with_answer(2, ("1", "public", "t", None, "no json", None, None, None, None)),
        with_answer(2, ("1", "public")),
        with_answer(3, ("public", "f")),
        with_answer(2, ("1", "public", "t", None, "[]", None, None, "[1]", None)),
        with_answer(5, ("1", "public", "t", "t", '["x"]')),
    ],
)
def test_attack_malformed_schema_answer_is_a_protocol_violation(answers: list[list[Row]]) -> None:
    with pytest.raises(ProtocolViolation):
        target_schema(answers)


@given(st.lists(st.lists(st.tuples(*[st.none() | st.text(max_size=4)] * 8), max_size=2), min_size=6, max_size=6))
def test_arbitrary_schema_answers_parse_as_a_schema_or_a_violation(answers: list[list[Row]]) -> None:
    with contextlib.suppress(ProtocolViolation):
        target_schema(answers)


def test_type_built_from_a_harmful_type_is_harmful() -> None:
    rows: list[Row] = [
        ("1", "public", "a", "f", None),
        ("2", "public", "b", "t", "[1]"),
        ("3", "public", "c", "t", "[9, 2]"),
        ("4", "public", "d", "t", "[9]"),
    ]
    schema = target_schema(with_answer(5, *rows))
    assert {name: harmless for (_, name), harmless in schema.types.items()} == {
        "a": False,
        "b": False,
        "c": False,
        "d": True,
    }


def test_tags_are_read_from_comments() -> None:
    assert tags("Where to write to. #pii, #contact:mail (#gdpr) #last.") == {"pii", "contact:mail", "gdpr", "last"}
    assert tags("no. 1 # not") == frozenset()
