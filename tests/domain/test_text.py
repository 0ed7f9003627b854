from __future__ import annotations

import json
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.text import json_text, one_line, printable, small_letters


def test_control_characters_are_shown_as_escapes() -> None:
    assert one_line("a\r\nb\x1b[2J\u2028c\u202ed") == r"a\r\nb\x1b[2J\u2028c\u202ed"
    assert printable("a\r\n\tb\x1b[2J\x9b1m\x07") == "a\n\tb\\x1b[2J\\x9b1m\\x07"


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    assert len((one_line(text) + "|").splitlines()) == 1


@given(st.text(st.characters(blacklist_categories=("Cc", "Cf", "Zl", "Zp"))))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert one_line(text) == printable(text) == text


def test_json_means_the_same_and_steers_nothing() -> None:
    hostile = 'a\x1b[2J\x7f\x9b6n\u202e\u200f\u061c\u2028"\\ü€😀\n'
    shown = json_text(json.dumps({hostile: hostile}, ensure_ascii=False))
    assert json.loads(shown) == {hostile: hostile}
    assert one_line(shown) == shown
    assert "ü€😀" in shown


@pytest.mark.parametrize("mark", ["\u061c", "\u200e", "\u200f", "\u202e", "\u2066"])
def test_marks_of_direction_are_shown_as_what_they_are(mark: str) -> None:
    wanted = mark.encode("unicode_escape").decode()
    assert one_line(f"a{mark}b") == printable(f"a{mark}b") == f"a{wanted}b"


@pytest.mark.parametrize("letter", string.ascii_lowercase)
@pytest.mark.ci
def test_small_letters_hold_what_a_search_without_regard_to_case_finds(letter: str) -> None:
    everything = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    for found in re.finditer(letter, everything, re.IGNORECASE):
        assert letter in small_letters(found[0])
        assert f"na{letter}e" in small_letters(f"NA{found[0]}E")
