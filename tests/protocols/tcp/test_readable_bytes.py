"""Unknown bytes as text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.protocols.tcp.readable_bytes import ReadableBytes, readable

_ROW = re.compile(r"((?:[0-9a-f]{2} ?){1,16}) *\|.{1,16}\|\n")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"+PONG\r\n", "+PONG\r\n"),
        ("grüße, 世界 🎉\t".encode(), "grüße, 世界 🎉\t"),
        (b"a\x00b", "a\n00 62                                            |.b|\n"),
        (b"\x1b[2J", "1b 5b 32 4a                                      |.[2J|\n"),  # would clear a terminal
        (b"\xc2\x9b2J", "c2 9b 32 4a                                      |..2J|\n"),  # the same in 8 bits
        (b"ok\n\xff\xfe", "ok\nff fe                                            |..|\n"),
        ("€".encode()[:2], "e2 82                                            |..|\n"),
        (b"\xed\xa0\x80", "ed a0 80                                         |...|\n"),  # a surrogate is not UTF-8
    ],
)
def test_text_is_shown_as_text_and_other_bytes_as_a_hex_dump(data: bytes, text: str) -> None:
    assert readable(data) == text


def test_hex_dump_ends_after_a_row_of_text() -> None:
    shown = readable(b"\x00" * 16 + b"0123456789abcdef" + b"plain again")
    assert shown.splitlines()[-1] == "plain again"
    assert len(shown.splitlines()) == 3


@given(st.binary(max_size=200), st.lists(st.integers(1, 40), max_size=20))
def test_rendering_does_not_depend_on_the_cut(data: bytes, sizes: list[int]) -> None:
    renderer, at, shown = ReadableBytes(), 0, b""
    for size in [*sizes, len(data)]:
        shown += b"".join(text for _, text in renderer.feed(data[at : at + size]))
        at += size
    shown += b"".join(text for _, text in renderer.rest())
    assert shown.decode() == readable(data)


@given(st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode)))
def test_no_byte_is_lost_and_no_terminal_is_controlled(data: bytes) -> None:
    shown = readable(data)
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", shown)
    in_hex = sum(len(row.group(1).split()) for row in _ROW.finditer(shown))
    assert in_hex <= len(data) or b"|" in data  # text can look like a row
    if shown.encode() != data:
        assert in_hex


def test_megabytes_of_text_are_rendered_in_one_piece() -> None:
    data = "ä".encode() * 2_000_000
    assert readable(data).encode() == data
