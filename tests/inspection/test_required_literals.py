from __future__ import annotations

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from postern.inspection.patterns import Lookup, word_pattern
from postern.inspection.required_literals import required_literals


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("drop", [b"drop"]),
        (word_pattern("Drop  TABLE"), [b"table"]),
        (r"(?i)\bdelete\s+from\s+\w+\s*;?\s*$", [b"delete"]),
        ("drop|truncate", [b"drop", b"truncate"]),
        ("(?:drop|truncate) table", [b" table"]),
        ("(abc)+x?", [b"abc"]),
        ("a{2,3}bc", [b"bc"]),
        (r"\$\$body", [b"$$body"]),
        # nothing that every match has
        ("", []),
        (r"\d{16}", []),
        ("drop|.*", []),
        ("(drop)?", []),
        ("(?:drop){0,2}", []),
        ("[a-z]+", []),
        # what Python and RE2 read differently, or only one of them reads
        (r"\Qdrop\E", []),
        (r"\pLdrop", []),
        (r"[[:alpha:]]drop", []),
        (r"(?U)drop", []),
        (r"(?x) d r o p", []),
        (r"(?P<name>drop)", []),
        (r"\x64rop", []),
        (r"\144rop", []),
        (r"drop{,2}", []),
        (r"(?=drop)drop", []),
        ("größe", []),
    ],
)
def test_literals_that_a_match_must_contain(pattern: str, literals: list[bytes]) -> None:
    assert list(required_literals(pattern)) == literals


def test_letters_beyond_ascii_that_match_ascii_are_searched_for() -> None:
    lookup = Lookup([word_pattern("kiosk", whole=False)])
    assert lookup.first_hit(["select \N{KELVIN SIGN}iosk".encode()]) == 0
    assert lookup.first_hit([b"12345", b"no", b"KIOSK"]) == 2
    assert lookup.first_hit([b"12345", b"no"]) is None


LETTERS = "abAB1- ;\n"
ATOMS = st.one_of(
    st.text(LETTERS, min_size=1, max_size=3).map(lambda text: re2.escape(text)),
    st.sampled_from([".", r"\b", r"\s", r"\w", r"\d", "^", "$", "[ab]", "[^a]", r"[\s;]", "[a-b1]"]),
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["?", "*", "+", "{2}", "{0,2}", "{1,}", "+?"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
    )


PATTERNS = st.tuples(st.sampled_from(["", "(?i)"]), st.recursive(ATOMS, _grow, max_leaves=8)).map("".join)


@given(PATTERNS, st.lists(st.text(LETTERS + "\N{KELVIN SIGN}", max_size=6), max_size=3))
def test_texts_without_the_literals_never_match(pattern: str, texts: list[str]) -> None:
    literals = required_literals(pattern)
    for text in (text.encode() for text in texts):
        if literals and text.isascii() and not any(literal in text.lower() for literal in literals):
            assert re2.search(b"(?ms)" + pattern.encode(), text) is None


@given(st.lists(PATTERNS, min_size=1, max_size=3), st.lists(st.text(LETTERS, max_size=8), min_size=1, max_size=3))
def test_look_ups_find_what_a_search_for_each_pattern_finds(patterns: list[str], texts: list[str]) -> None:
    encoded = [text.encode() for text in texts]
    naive = [any(re2.search(b"(?ms)" + pattern.encode(), text) for pattern in patterns) for text in encoded]
    lookup = Lookup(patterns)
    assert [lookup.hits(text) for text in encoded] == naive
    assert lookup.first_hit(encoded) == (naive.index(True) if any(naive) else None)
