from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from postern.domain.text import one_line, printable


def test_control_characters_are_shown_as_escapes() -> None:
    assert one_line("a\r\nb\x1b[2J\u2028c\u202ed") == r"a\r\nb\x1b[2J\u2028c\u202ed"
    assert printable("a\r\n\tb\x1b[2J\x9b1m\x07") == "a\n\tb\\x1b[2J\\x9b1m\\x07"


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    assert len((one_line(text) + "|").splitlines()) == 1


@given(st.text(st.characters(blacklist_categories=("Cc", "Cf", "Zl", "Zp"))))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert one_line(text) == printable(text) == text
