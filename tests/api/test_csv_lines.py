from __future__ import annotations

import csv
import io
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.api.sessions import recording_files

LINES = st.lists(st.lists(st.text(alphabet='ab",\r=+1ä\udcff', max_size=5), min_size=1, max_size=4), max_size=6)


@given(LINES, st.data())
def test_any_reader_of_csv_gets_the_fields_back(lines: list[list[str]], data: st.DataObject) -> None:
    whole = "".join("\t".join(fields) + "\n" for fields in lines).encode("utf-8", "surrogateescape")
    cut = data.draw(st.integers(0, len(whole)))
    written = b"".join(recording_files.from_tabs([whole[:cut], whole[cut:]]))
    text = io.StringIO(written.decode("utf-8", "surrogateescape"), newline="")
    check(list(csv.reader(text)), lines)


@pytest.mark.parametrize("limit", [0, 1, 3, 10])
@given(LINES)
def test_lines_too_long_to_hold_are_the_same_to_a_reader(limit: int, lines: list[list[str]]) -> None:
    before = recording_files._LONGEST
    recording_files._LONGEST = limit
    try:
        whole = "".join("\t".join(fields) + "\n" for fields in lines).encode("utf-8", "surrogateescape")
        written = b"".join(recording_files.from_tabs([whole[at : at + 1] for at in range(len(whole))]))
    finally:
        recording_files._LONGEST = before
    text = io.StringIO(written.decode("utf-8", "surrogateescape"), newline="")
    check(list(csv.reader(text)), lines)


def check(found: list[list[str]], lines: list[list[str]]) -> None:
    """Each field as it was, or with an apostrophe where a spreadsheet would begin to compute."""
    assert [len(fields) for fields in found] == [len(fields) for fields in lines]
    for shown, field in zip(chain.from_iterable(found), chain.from_iterable(lines), strict=True):
        assert shown in (field, f"'{field}")
        is_formula = field.startswith(("=", "+", "-", "@", "\r"))
        assert is_formula or shown == field
        assert not is_formula or shown != field or (field[0] in "+-" and field[1:].isdigit())


def test_formulas_are_text_and_numbers_are_numbers() -> None:
    lines = b"=1+1\t@x\n-2\t+3.5e-7\t-2+cmd|' /C calc'!A0\n--\t-\n"
    assert b"".join(recording_files.from_tabs([lines])) == b"'=1+1,'@x\n-2,+3.5e-7,'-2+cmd|' /C calc'!A0\n'--,'-\n"
    assert b"".join(recording_files.from_tabs([b"no end"])) == b"no end\n"
    assert b"".join(recording_files.from_tabs([])) == b""


def test_a_line_without_end_is_not_held() -> None:
    pieces = recording_files.from_tabs(b"x" * 100_000 for _ in range(10**9))
    for _ in range(100):
        assert len(next(pieces)) < 3 << 20
