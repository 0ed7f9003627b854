from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.errors import Malformed
from postern.proof import canonical as module
from postern.proof.canonical import LARGEST, canonical, parse

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


def test_strings_are_escaped_as_in_rfc_8785() -> None:
    """RFC 8785, 3.2.2 and 3.2.3: the examples of its text."""
    text = "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f"
    assert canonical({"string": text, "literals": [None, True, False]}) == (
        b'{"literals":[null,true,false],"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_names_are_sorted_by_utf_16_units() -> None:
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    expected = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(parse(canonical(dict.fromkeys(names, 1)))) == expected


@pytest.mark.parametrize(
    "value", [1.5, LARGEST + 1, -LARGEST - 1, "\ud800", float("nan"), {1: 2}, b"x", [[1.0]], {"\udfff": 1}]
)
def test_value_that_json_writers_write_differently_is_malformed(value: Any) -> None:
    with pytest.raises(Malformed):
        canonical({"a": value})


@pytest.mark.parametrize(
    "data",
    [
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a": 1}',
        b'{"a":1}\n',
        b'{"a":1.0}',
        b'{"a":1e3}',
        b'{"a":-0}',
        b'{"a":"\\u0041"}',
        b'{"a":NaN}',
        b'"a"',
        b"[]",
        b"",
        b"\xff",
        b"[" * 100_000,
        b'{"a":"\\ud800"}',
    ],
)
def test_text_that_is_not_canonical_to_the_byte_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse(data)


@given(st.dictionaries(TEXTS, VALUES))
def test_canonical_text_is_parsed_to_the_same_value(value: dict[str, Any]) -> None:
    assert parse(canonical(value)) == value


ASCII = st.text(st.characters(codec="ascii"))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ASCII, inner, max_size=4),
)


@given(st.dictionaries(ASCII, PLAIN, max_size=6))
def test_quick_way_for_ascii_names_writes_the_same_bytes(value: dict[str, Any]) -> None:
    quick = canonical(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_is_plain", lambda _: False)
        assert canonical(value) == quick


@pytest.mark.parametrize("value", [LARGEST, -LARGEST, 0, "\U0001f600", "\u20ac", True, None, [], {}, [{"\ufb33": [1]}]])
@pytest.mark.parametrize("name", ["a", "\U0001f600"])
def test_boundary_values_have_a_canonical_form(name: str, value: Any) -> None:
    assert parse(canonical({name: value})) == {name: value}


@pytest.mark.parametrize("names", [["\ufb33", "\U0001f600"], ["a", "\ufb33", "\U0001f600"], ["\u00f6", "z"]])
def test_names_are_sorted_alike_at_every_depth(names: list[str]) -> None:
    """The character outside of the basic plane comes before U+FB33 in UTF-16 and after it by code point."""
    ordered = sorted(names, key=lambda name: name.encode("utf-16-be"))
    for inner in (dict.fromkeys(names, 1), dict.fromkeys(reversed(names), 1)):
        for value in (inner, {"x": inner}, {"x": [inner]}):
            text = canonical(value).decode()
            assert [name for name in text if name in names] == ordered


@pytest.mark.parametrize("value", [LARGEST + 1, -LARGEST - 1, 1.5, b"x", (1.5,), "\ud800", {1: 2}])
@pytest.mark.parametrize("name", ["a", "\u20ac"])
def test_value_without_canonical_form_is_rejected_at_every_depth(name: str, value: Any) -> None:
    for outer in ({name: value}, {"a": [value]}, {"a": {name: value}}):
        with pytest.raises(Malformed):
            canonical(outer)


def test_number_is_written_as_a_number_and_not_as_a_boolean() -> None:
    class Count(int):
        pass

    assert canonical({"a": Count(1), "b": (1, 2)}) == b'{"a":1,"b":[1,2]}'
