"""Which filters match every document, as far as their text tells."""

# ruff: noqa: E501 - commands stand in tables, one in a line
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bypass.cases_mongodb import _ALWAYS, _NEVER_ALWAYS

from postern.protocols.mongodb.dialect.mongodb_conditions import can_be, can_expression_be, is_always_true
from postern.protocols.mongodb.dialect.mongodb_json import read_json


@pytest.mark.parametrize("text", _ALWAYS)
def test_filter_matches_every_document(text: str) -> None:
    assert is_always_true(read_json(text))


@pytest.mark.parametrize("text", _NEVER_ALWAYS)
def test_filter_is_a_condition(text: str) -> None:
    assert not is_always_true(read_json(text))


@pytest.mark.parametrize(
    "query",
    [
        {"$nor": [{"$and": [{"a": 1}, {"$alwaysFalse": 1}]}]},
        {"$nor": [{"$or": [{"a": {"$in": []}}, {"$expr": False}]}]},
        {"a": {"$not": {"$all": []}}},
        {"$or": [{"a": {"$in": [1]}}, {"a": {"$nin": [1]}}]},
        {"$or": [{"a": {"$gte": 5}}, {"a": {"$lt": 5}}]},
        {"$or": [{"b": 1}, {"a": {"$eq": 5}}, {"a": {"$ne": 5}}]},
        {"$and": []},
        {"$expr": {"$toBool": "yes"}},
        {"$expr": {"$type": "$a"}},
        {"$expr": {"$eq": ["$$given", 5]}},
        {"$expr": {"$not": {"$ne": ["$a", "$a"]}}},
        {"$expr": [1]},
        {"$expr": {"a": 1}},
        {"$jsonSchema": {"required": ["_id"]}},
        None,
    ],
)
def test_more_filters_that_match_every_document(query: Any) -> None:
    assert is_always_true(query)


@pytest.mark.parametrize(
    "query",
    [
        {"a": {"$gt": {"$minKey": 1}}},
        {"a": None},
        {"a": {"$exists": False}},
        {"$or": [{"a": {"$gt": 5}}, {"a": {"$lt": 5}}]},
        {"$or": [{"a": 1}, {"b": {"$ne": 1}}]},
        {"$expr": {"$gt": ["$a", "$b"]}},
        {"$expr": "$a"},
        {"$expr": {"$cond": ["$a", True, False]}},
        {"$expr": {"$ifNull": ["$a", True]}},
        {"$text": {"$search": "x"}},
        {"$jsonSchema": {"required": ["a"]}},
        {"$jsonSchema": {"bsonType": "object", "additionalProperties": False}},
        {"$sampleRate": 0.5},
        {"a": {"$regex": "."}},
    ],
)
def test_more_filters_that_are_conditions(query: Any) -> None:
    assert not is_always_true(query)


_FIELDS = st.sampled_from(["a", "b", "_id"])
_CLAUSES = st.one_of(
    st.builds(lambda name, value: {name: value}, _FIELDS, st.integers(0, 2)),
    st.builds(lambda name, operator, value: {name: {operator: value}}, _FIELDS,
              st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), st.integers(0, 2)),
    st.builds(lambda name, value: {name: {"$exists": value}}, _FIELDS, st.booleans()),
    st.builds(lambda name, values: {name: {"$in": values}}, _FIELDS, st.lists(st.integers(0, 2), max_size=2)),
    st.builds(lambda name, values: {name: {"$nin": values}}, _FIELDS, st.lists(st.integers(0, 2), max_size=2)),
    st.just({}),
)  # fmt: skip
_QUERIES = st.recursive(
    _CLAUSES,
    lambda inner: st.builds(
        lambda name, parts: {name: parts},
        st.sampled_from(["$and", "$or", "$nor"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)
_DOCUMENTS = [
    {"_id": i, **({} if a is None else {"a": a}), **({} if b is None else {"b": b})}
    for i in (0, 1, 2)
    for a in (None, 0, 1, 2)
    for b in (None, 0, 1, 2)
]
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda x, y: x == y,
    "$ne": lambda x, y: x != y,
    "$gt": lambda x, y: x is not None and x > y,
    "$gte": lambda x, y: x is not None and x >= y,
    "$lt": lambda x, y: x is not None and x < y,
    "$lte": lambda x, y: x is not None and x <= y,
    "$in": lambda x, y: x in y,
    "$nin": lambda x, y: x not in y,
}


def _matches(query: dict[str, Any], document: dict[str, Any]) -> bool:
    for name, operand in query.items():
        if name.startswith("$"):
            found = [_matches(each, document) for each in operand]
            if not (all(found) if name == "$and" else any(found) is (name == "$or")):
                return False
            continue
        value = document.get(name)
        conditions = operand if isinstance(operand, dict) else {"$eq": operand}
        for operator, compared in conditions.items():
            if operator == "$exists":
                if (name in document) is not compared:
                    return False
            elif not _COMPARE[operator](value, compared):
                return False
    return True


@given(_QUERIES)
def test_filter_that_counts_as_always_true_matches_every_document(query: dict[str, Any]) -> None:
    """Where the text decides, the reader is right: it never takes a condition for none."""
    if can_be(True, query):
        assert all(_matches(query, document) for document in _DOCUMENTS)
    if can_be(False, query):
        assert not any(_matches(query, document) for document in _DOCUMENTS)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["$a", "$$ROOT", "$$x"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["a", "$and", "$or", "$not", "$expr", "$eq", "$exists", "$minKey", "$literal"]), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(_JSON)
def test_any_json_can_be_judged(value: Any) -> None:
    is_always_true(value)
    can_expression_be(True, value)
    can_expression_be(False, value)
