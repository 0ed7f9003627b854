from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.errors import Invalid
from postern.inspection import patterns
from postern.inspection.patterns import Lookup, compiles, readable, word_pattern

WORD_CHARACTERS = set(string.ascii_letters + string.digits + "_")
SPACE = set(" \t\n\r\f\v")


def naive_word_hit(word: str, text: str) -> bool:
    """Apply the documented rule for deny words without an expression engine. ASCII only."""
    parts = word.lower().split()
    text = text.lower()
    return any(naive_word_at(parts, text, start) for start in range(len(text)))


def naive_word_at(parts: list[str], text: str, start: int) -> bool:
    at = start
    for number, part in enumerate(parts):
        if number:
            space = at
            while at < len(text) and text[at] in SPACE:
                at += 1
            if at == space:
                return False
        if text[at : at + len(part)] != part:
            return False
        at += len(part)
    before = text[start - 1] if start else " "
    after = text[at] if at < len(text) else " "
    if parts[0][0] in WORD_CHARACTERS and before in WORD_CHARACTERS:
        return False
    return not (parts[-1][-1] in WORD_CHARACTERS and after in WORD_CHARACTERS)


SHORT = st.text("abAB_1 .;\n", max_size=4)


@given(SHORT.filter(str.strip), st.lists(SHORT | st.text(string.printable, max_size=3), max_size=8), st.booleans())
def test_deny_words_match_like_the_documented_rule(word: str, around: list[str], plant: bool) -> None:
    if plant:
        around.insert(len(around) // 2, word.swapcase())
    text = "".join(around)
    assert Lookup([word_pattern(word)]).hits(text.encode()) == naive_word_hit(word, text)


@pytest.mark.parametrize(
    ("word", "text", "hit"),
    [
        ("drop", "DROP TABLE t", True),
        ("drop", "select 1;drop table t", True),
        ("drop", "select dropped from t", False),
        ("drop", "select drop_date from t", False),
        ("drop table", "drop \n\t table t", True),
        ("drop table", "drop\vtable t", True),
        ("drop table", "droptable t", False),
        (" drop ", "x drop", True),
        ("--", "select 1 -- x", True),
        ("pg_", "select pg_sleep(1)", False),
        ("pg_*", "select pg_*", True),
        ("a.b", "axb", False),
        ("straße", "STRASSE", False),
        ("ÉTÉ", "l'été dernier", True),
    ],
)
def test_deny_word_matches_whole_words_in_any_case(word: str, text: str, hit: bool) -> None:
    assert Lookup([word_pattern(word)]).hits(text.encode()) is hit


def test_deny_word_of_white_space_is_invalid() -> None:
    with pytest.raises(Invalid, match="white space"):
        word_pattern(" \t")


@pytest.mark.parametrize(
    ("pattern", "text", "hit"),
    [
        (r"drop\s+table", "drop  table x", True),
        (r"drop\s+table", "DROP TABLE x", False),
        (r"(?i)drop\s+table", "DROP TABLE x", True),
        (r"drop.*table", "drop\ntable", True),
        (r"(?-s)drop.*table", "drop\ntable", False),
        (r"^drop", "select 1;\ndrop table", True),
        (r"(?-m)^drop", "select 1;\ndrop table", False),
        (r"\Adrop", "select 1;\ndrop table", False),
        (r"delete from \w+$", "delete from t\n", True),
        (r"\Qa.b", "xa.by", True),
        (r"\Qa.b", "axb", False),
    ],
)
def test_pattern_matches_according_to_its_flags(pattern: str, text: str, hit: bool) -> None:
    assert compiles(pattern) is None
    assert Lookup([pattern]).hits(text.encode()) is hit
    assert Lookup([pattern, "never this"]).hits(text.encode()) is hit
    assert Lookup([pattern, "never this"]).first_hit([b"x", text.encode()]) == (1 if hit else None)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a", "missing )"),
        (r"(a)\1", "invalid escape"),
        ("(?=a)b", "invalid perl operator"),
        ("x{1001}", "repetition size"),
        (r"(?:\pL{100}){10}", "too large"),
        ("\ud800", "not valid text"),
    ],
)
def test_invalid_pattern_is_explained_without_internal_flags(pattern: str, reason: str) -> None:
    found = compiles(pattern)
    assert found is not None
    assert reason in found
    assert "(?ms)" not in found
    with pytest.raises(Invalid, match="does not compile"):
        Lookup([pattern, "(a"])


PATTERNS = st.lists(
    st.sampled_from(
        [
            "a",
            "^b",
            "b$",
            r"\Aa",
            r"b\z",
            "(?-m)^a",
            "(?i)A",
            r"\ba\b",
            r"\Ba",
            "a.b",
            r"a\s+b",
            "[^a]b",
            r"\Qa(",
            "x|y",
            "",
        ]
    ),
    min_size=1,
    max_size=4,
)


@given(PATTERNS, st.lists(st.text("ab \nAx(", max_size=5).map(str.encode) | st.binary(max_size=4), max_size=6))
def test_combined_lookup_equals_each_pattern_on_each_text(rules: list[str], texts: list[bytes]) -> None:
    each = [Lookup([rule]) for rule in rules]
    hit = [any(one.hits(readable(text)) for one in each) for text in texts]
    assert Lookup(rules).first_hit(texts) == (hit.index(True) if True in hit else None)


def test_words_beyond_the_memory_of_one_pattern_are_all_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "LOOKUP_MEMORY", 30_000)
    words = [f"word{number:03}" * 10 for number in range(100)]
    lookup = Lookup([word_pattern(word) for word in words])
    assert len(lookup._anywhere) > 1
    assert all(lookup.hits(f"select {word.upper()}".encode()) for word in words)
    assert not lookup.hits(b"select word001")


def test_invalid_utf8_does_not_hide_a_match() -> None:
    lookup = Lookup(["drop.{0,5}table"])
    assert lookup.first_hit([b"x", b"drop\xe9\xfftable"]) == 1


@given(st.binary())
def test_readable_text_is_utf8_and_otherwise_unchanged(text: bytes) -> None:
    read = readable(text)
    read.decode()
    if b"\xef\xbf\xbd" not in read:
        assert read == text


def test_exponential_backtracking_patterns_are_matched_on_long_text() -> None:
    lookup = Lookup(["(a+)+$", "(x|xx)*y", "(.*)*z"])
    assert not lookup.hits(b"a" * 100_000 + b"x" * 100_000 + b"!")


def test_attack_pattern_that_reads_to_the_end_at_each_match_spans_the_whole_text() -> None:
    """Quadratic time: one megabyte would block the relay worker for an hour. The whole text is masked instead."""
    text = b"a" * 1_000_000
    assert Lookup([r"a(?:[^z]*z)?"]).spans(text) == [(0, len(text))]
    assert len(Lookup(["a"]).spans(b"ab" * 1_000)) == 1_000
