from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.inspection.sql_comments import readings

COMMENTS = st.sampled_from(["/**/", "/* x */", "/*/**/*/", "/* ' */", '/* " $$ */', "-- x\n", "--'\n", "/*--*/", "\v"])
# What may stand in front of a statement, with quotes and comment marks that are data.
FRONTS = st.sampled_from(
    [
        "select 1; ",
        "select '/*'; ",
        "select '--'; ",
        "select 'it''s /*'; ",
        r"select E'\'/*'; ",
        r"select e'\\'; ",
        "select E'a'\n'\\'/*'; ",
        'select "a/*" ; ',
        'select "a""--" ; ',
        "select $$ /* ' -- $$; ",
        "select $x$ $$ /* $x$; ",
        "select a$b, 'x$$/*'; ",
        "select U&'/*\\0041'; ",
        "select $1; ",
        "/* lead */ ",
        "-- lead '\n",
    ]
)


@given(st.lists(FRONTS, max_size=4).map("".join), st.lists(COMMENTS, min_size=1, max_size=3).map("".join))
def test_comment_between_two_words_is_read_as_a_space(front: str, between: str) -> None:
    text = f"{front}drop{between}table x"
    found = readings(text.encode())
    assert found[0] == text.encode()
    assert any(b"drop table" in b" ".join(reading.split()) for reading in found)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("select 1", []),
        ("a/*/*x*/y*/b", ["a b"]),
        ("a/*/*x*/y", ["a "]),
        ("select '--', 1 -- x", ["select '--', 1  "]),
        ("select 1 -- a\r\n + 1", ["select 1  \r\n + 1"]),
        ("select '/* no comment */'", []),
        ("select $$ -- body\n drop/**/table $$", ["select $$  \n drop table $$"]),
        (r"select '\'/*'; drop/*'*/table x", [r"select '\' ", r"select '\'/*'; drop table x"]),
        ("select 'open /* ", []),
    ],
)
def test_text_has_the_expected_readings_without_comments(text: str, wanted: list[str]) -> None:
    assert [reading.decode() for reading in readings(text.encode())] == [text, *wanted]


@given(
    st.lists(st.sampled_from(["'", '"', "$$", "$a$", "\\", "E'", "--", "/*", "*/", "\n", "x", " ", "\v"])).map("".join)
)
def test_readings_only_replace_comments(text: str) -> None:
    for reading in readings(text.encode()):
        rest = iter(text)
        assert all(character == " " or character in rest for character in reading.decode())


def test_long_hostile_text_is_read() -> None:
    for piece in (b"/*", b"--\n", b"$a$", b"E'\\'", b"'", b"$", b"/**/", b"E'a'\n"):
        text = piece * (1_000_000 // len(piece)) + b"-- x"
        assert readings(text)[0] == text
