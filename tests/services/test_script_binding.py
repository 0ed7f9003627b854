"""Binding of a script's parameters."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.unsaved import unsaved_connection

from postern.domain.sessions.script_parameters import (
    MAX_BOUND_SCRIPT,
    MAX_PARAMETERS,
    MAX_VALUES,
    BoundScript,
    Edit,
    Parameters,
    check_parameters,
)
from postern.domain.targets.connection import Connection, ConnectionType
from postern.errors import Invalid
from postern.services.script_binding import bind

POSTGRES, MYSQL = unsaved_connection("postgres"), unsaved_connection("mysql")


def values(bound: BoundScript) -> list[tuple[str, str | None]]:
    return [(place.name, place.value) for place in bound.placeholders]


def test_postgresql_gets_values_beside_the_text() -> None:
    script = "select :a, :b, :a, :c, :d, :e, ':f'"
    bound = bind(script, {"a": "it's", "b": 7, "c": None, "d": True, "e": -1.5}, POSTGRES)
    assert (bound.text, bound.edits) == (script, ())
    assert values(bound) == [
        *(("a", "it's"), ("b", "7"), ("a", "it's"), ("c", None)),
        *(("d", "true"), ("e", "-1.5")),
    ]


def test_mysql_gets_literals() -> None:
    script = "select :a, :b, :c, :d, :e - :f, ':a' -- :a"
    parameters: Parameters = {"a": 'it\'s \\ "x"', "b": 7, "c": None, "d": False, "e": 1.5, "f": -2}
    bound = bind(script, parameters, MYSQL)
    assert bound.text == "select 'it''s \\\\ \"x\"', 7, NULL, false, 1.5 - (-2), ':a' -- :a"
    assert bound.placeholders == ()


@pytest.mark.parametrize("text", ["' or 1=1 -- ", "\\' or 1=1 -- ", "'; drop table t; -- ", "/*", "ü\U0001f600\n\t"])
def test_text_for_mysql_stays_one_literal(text: str) -> None:
    bound = bind("select :a", {"a": text}, MYSQL)
    literal = bound.text.removeprefix("select ")
    assert literal[0] == literal[-1] == "'"
    assert literal[1:-1].replace("''", "").replace("\\\\", "").count("'") == 0
    assert literal[1:-1].replace("''", "'").replace("\\\\", "\\") == text


def test_text_with_control_characters_is_no_literal_and_is_not_repeated() -> None:
    with pytest.raises(Invalid, match="the value of 'a' has control characters") as raised:
        bind("select :a", {"a": "secret\x07"}, MYSQL)
    assert "secret" not in raised.value.message
    assert values(bind("select :a", {"a": "bell\x07"}, POSTGRES)) == [("a", "bell\x07")]


@pytest.mark.parametrize(
    ("script", "parameters", "reason", "field"),
    [
        ("select :a, :b, :c", {"b": 1}, "the script uses :a, :c without a value", "parameters"),
        ("select :a", {"a": 1, "b": 1, "c": 2}, "the script does not use 'b', 'c'", "parameters"),
        ("select ':a'", {"a": 1}, "does not use 'a'; write it as :NAME outside of quotes", "parameters"),
        ("select :A", {"a": 1}, "uses :A without a value", "parameters"),
        ("select 1;\n select :a\n, 'open", {"a": 1}, "a quote or a comment is not closed", "script"),
        ("select 1;\n select :a'x'", {"a": 1}, "line 2, column 9: a quote follows", "script"),
        ("x" * (MAX_BOUND_SCRIPT + 1), {"a": 1}, "at most 262,144 characters with parameters", "script"),
    ],
)
@pytest.mark.parametrize("connection", [POSTGRES, MYSQL], ids=["postgres", "mysql"])
def test_mismatch_is_a_clear_error(
    script: str, parameters: dict[str, Any], reason: str, field: str, connection: Connection
) -> None:
    with pytest.raises(Invalid, match=reason) as raised:
        bind(script, parameters, connection)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"": 1}, "'' is not a name"),
        ({"1a": 1}, "is not a name"),
        ({"größe": 1}, "is not a name"),
        ({"a" * 64: 1}, "is not a name"),
        ({f"a{number}": 1 for number in range(MAX_PARAMETERS + 1)}, "at most 100"),
        ({"a": "x" * MAX_VALUES, "b": "y"}, "characters of values together"),
        ({"a": math.nan}, "must be a finite number"),
        ({"a": math.inf}, "must be a finite number"),
    ],
)
def test_parameters_that_cannot_be(parameters: dict[str, Any], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        check_parameters(parameters)


def test_without_parameters_a_script_is_what_it_is() -> None:
    script = "select 'open :a, x[i:j]"
    assert bind(script, {}, POSTGRES) == BoundScript(script)


@pytest.mark.parametrize("subtype", ["ssh", ""])
def test_commands_have_no_placeholders(subtype: str) -> None:
    command = unsaved_connection(subtype, ConnectionType.CUSTOM, ("sh",))
    with pytest.raises(Invalid, match="has no placeholders, only databases have"):
        bind("echo :a", {"a": 1}, command)


@given(
    st.lists(st.tuples(st.text("xy ", max_size=4), st.integers(0, 5)), max_size=8),
    st.text("xy ", max_size=4),
)
def test_every_offset_leads_back_to_the_script(parts: list[tuple[str, int]], rest: str) -> None:
    written, text = "", ""
    edits: list[Edit] = []
    origin: list[int] = []
    for before, length in parts:
        origin += range(len(written), len(written) + len(before))
        written, text = written + before, text + before
        edits.append(Edit(len(written), len(written) + 3, length))
        origin += [len(written)] * length
        written, text = written + ":ab", text + "v" * length
    origin += range(len(written), len(written) + len(rest) + 1)
    bound = BoundScript(text + rest, edits=tuple(edits))
    assert [bound.original_offset(offset) for offset in range(len(text + rest) + 1)] == origin
