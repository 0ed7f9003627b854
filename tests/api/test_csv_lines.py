from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.api import csv_lines

LINES = st.lists(st.lists(st.text(alphabet='ab",\r=+ä\udcff', max_size=5), min_size=1, max_size=4), max_size=6)


@given(LINES, st.data())
def test_any_reader_of_csv_gets_the_fields_back(lines: list[list[str]], data: st.DataObject) -> None:
    whole = "".join("\t".join(fields) + "\n" for fields in lines).encode("utf-8", "surrogateescape")
    cut = data.draw(st.integers(0, len(whole)))
    written = b"".join(csv_lines.from_tabs([whole[:cut], whole[cut:]]))
    text = io.StringIO(written.decode("utf-8", "surrogateescape"), newline="")
    assert list(csv.reader(text)) == lines


@pytest.mark.parametrize("limit", [0, 1, 3, 10])
@given(LINES)
def test_lines_too_long_to_hold_are_the_same_to_a_reader(limit: int, lines: list[list[str]]) -> None:
    before = csv_lines._LONGEST
    csv_lines._LONGEST = limit
    try:
        whole = "".join("\t".join(fields) + "\n" for fields in lines).encode("utf-8", "surrogateescape")
        written = b"".join(csv_lines.from_tabs([whole[at : at + 1] for at in range(len(whole))]))
    finally:
        csv_lines._LONGEST = before
    text = io.StringIO(written.decode("utf-8", "surrogateescape"), newline="")
    assert list(csv.reader(text)) == lines


def test_nothing_is_added_to_formulas() -> None:
    assert b"".join(csv_lines.from_tabs([b"=1+1\t@x\n-2\t+3\n"])) == b"=1+1,@x\n-2,+3\n"
    assert b"".join(csv_lines.from_tabs([b"no end"])) == b"no end\n"
    assert b"".join(csv_lines.from_tabs([])) == b""


def test_a_line_without_end_is_not_held() -> None:
    pieces = csv_lines.from_tabs(b"x" * 100_000 for _ in range(10**9))
    for _ in range(100):
        assert len(next(pieces)) < 3 << 20
