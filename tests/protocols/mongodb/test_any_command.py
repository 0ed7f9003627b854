"""Properties that hold for any text: the dialect never raises, and doubt is never taken for knowledge."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocols.mongodb.test_command_lineage import SCHEMA, session

from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import ColumnRef
from postern.interception.events import Column, TextKind
from postern.protocols.mongodb.dialect import mongodb_operators as operators
from postern.protocols.mongodb.dialect.mongodb_command_effects import _SPECIAL
from postern.protocols.mongodb.dialect.mongodb_command_names import COMMANDS
from postern.protocols.mongodb.dialect.mongodb_count_plans import count_plans
from postern.protocols.mongodb.dialect.mongodb_parser import MongodbParser
from postern.protocols.mongodb.dialect.mongodb_statement_facts import MongodbStatementFacts

PARSER = MongodbParser()
_OPERATORS = sorted(operators.EXPRESSIONS | operators.ACCUMULATORS | operators.QUERY_PREDICATES | operators.UPDATES)
_STAGES = sorted(operators.STAGES | operators.ADMIN_STAGES | operators.WRITING_STAGES)
_KEYS = st.one_of(
    st.sampled_from(["a", "ssn", "_id", "a.b", "in", "input", "as", "vars", "if", "then", "else", "branches", "from"]),
    st.sampled_from(
        ["pipeline", "let", "into", "coll", "db", "output", "groupBy", "field", "value", "q", "u", "multi"]
    ),
    st.sampled_from(["$and", "$or", "$nor", "$expr", "$where", "$function", "$each", "$oid", "$numberLong", "$date"]),
    st.sampled_from(_OPERATORS),
    st.text(max_size=3),
)
_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.floats(allow_nan=False), st.text(max_size=3),
    st.sampled_from(["$ssn", "$a.b", "$$ROOT", "$$CURRENT.ssn", "$$this", "$$v", "$$REMOVE", "$", "$$", "people", "v"]),
)  # fmt: skip
_JSON = st.recursive(
    _VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=15
)
_PIPELINES = st.lists(st.builds(lambda name, spec: {name: spec}, st.sampled_from(_STAGES), _JSON), max_size=4)
_COMMANDS = st.builds(
    lambda name, argument, fields: {name: argument, **fields, "$db": "shop"},
    st.sampled_from(sorted({*COMMANDS, *_SPECIAL, "frobnicate"})),
    st.sampled_from(["people", "orders", 1]) | _JSON,
    st.fixed_dictionaries(
        {},
        optional={
            "filter": _JSON, "query": _JSON, "projection": _JSON, "fields": _JSON, "pipeline": _PIPELINES | _JSON,
            "updates": st.lists(_JSON, max_size=2), "deletes": _JSON, "documents": _JSON, "ops": _JSON, "nsInfo": _JSON,
            "update": _JSON, "let": _JSON, "key": _JSON, "out": _JSON, "viewOn": _JSON, "to": _JSON, "validator": _JSON,
            "indexes": _JSON, "privileges": _JSON, "originatingCommand": _JSON, "verbosity": _JSON, "sort": _JSON,
        },
    ),
)  # fmt: skip
_COLUMNS = tuple(Column(name, TextKind.TEXT) for name in ("a", "ssn", "a.b.c", "x", "(field names)", ""))


def check(text: str) -> None:
    for schema in (None, SCHEMA):
        for statement in PARSER.parse(text, schema):
            assert statement.effects
            assert (Effect.UNKNOWN in statement.effects) is bool(statement.reason)
    lineage = session()
    lineage.record_statement(text)
    found = lineage.of(text, _COLUMNS)
    assert found is None or len(found) == len(_COLUMNS)
    lineage.shape(text)
    lineage.unread(text)
    for plan in count_plans(text):
        if not plan.why_not and plan.known is None:
            assert isinstance(json.loads(plan.query_text(1000)), dict)
    facts = MongodbStatementFacts()
    facts.quotes_no_values({"errno": b"13"}, (text,))
    facts.is_in_own_words((b"x",), ("message",), (text,))


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    check(text)


@given(_JSON)
def test_any_json_is_judged(value: Any) -> None:
    check(json.dumps(value))


@settings(max_examples=300)
@given(_COMMANDS)
def test_any_command_is_judged(command: dict[str, Any]) -> None:
    check(json.dumps(command))


@settings(max_examples=300)
@given(_PIPELINES)
def test_any_pipeline_is_judged(stages: list[dict[str, Any]]) -> None:
    check(json.dumps({"aggregate": "people", "pipeline": stages, "$db": "shop"}))


@settings(max_examples=300)
@given(_JSON)
def test_expression_that_names_a_field_never_passes_as_a_constant(expression: Any) -> None:
    """A value is a constant only if the field is not in its text, unless an operator ignores it."""
    text = json.dumps(
        {"aggregate": "people", "pipeline": [{"$replaceWith": {"x": {"$concat": [expression, "$ssn"]}}}], "$db": "shop"}
    )
    found = session().of(text, (Column("x", TextKind.TEXT),))
    assert found is None or found[0] is None or ColumnRef("shop", "people", "ssn") in found[0].refs


@settings(max_examples=200)
@given(_COMMANDS)
def test_repeated_name_anywhere_is_unknown(command: dict[str, Any]) -> None:
    text = json.dumps(command)
    name = json.dumps(next(iter(command)))
    (statement,) = PARSER.parse(f"{{{name}: 1, {text[1:]}")
    assert Effect.UNKNOWN in statement.effects
    (statement,) = PARSER.parse(f'{text[:-1]}, "x": [{{"y": {{"z": 1, "z": 2}}}}]}}')
    assert Effect.UNKNOWN in statement.effects
