"""Masking of copied lines, including escaped values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.rules.masking import DEFAULT_TYPES
from postern.inspection.masking.copied_lines import mask_lines
from postern.inspection.masking.detectors import THRESHOLD, detectors_for
from postern.inspection.masking.joined_texts import Hits

DETECTORS = detectors_for(DEFAULT_TYPES, (), THRESHOLD, "")
MAIL = b"ann@example.com"


@pytest.mark.parametrize(
    ("line", "made"),
    [
        (rb"x\n4111111111111111", rb"x\n************1111"),
        (rb"\t4111111111111111\r", rb"\t************1111\r"),
        (rb"a\nann@example.com\tb", rb"a\n****@****\tb"),
        (rb"x\nDE89370400440532013000", rb"x\nDE****3000"),
        (rb"""{"a": "ann\\u0040example.com"}""", rb"""{"a": "****@****"}"""),
        (rb'"{""a"": ""ann\u0040example.com""}"', rb'"{""a"": ""****@****""}"'),
        (rb"\\x" + MAIL.hex().encode(), rb"\\x" + b"****@****".hex().encode()),
        (rb"\x" + MAIL.hex().encode(), rb"\x" + b"****@****".hex().encode()),
    ],
)
def test_escaped_values_in_copied_lines_are_masked(line: bytes, made: bytes) -> None:
    """Attack: have the format of a copy escape a value so that no detector recognises it."""
    hits = Hits()
    found = mask_lines(DETECTORS, [b"1\t" + line + b"\n", b"2\t" + line + b"\n"], hits)
    assert (found or [b"1\t" + line + b"\n"])[0] == b"1\t" + made + b"\n"
    assert sum(hits.counts.values()) == 2


def test_copied_lines_without_values_stay_unchanged() -> None:
    lines = [rb"a\nb\\u0041\x6162" + b"\n", rb"\N" + b"\n", rb"c:\new" + b"\n"]
    assert mask_lines(DETECTORS, lines, Hits()) is None
    found = mask_lines(DETECTORS, [*lines, MAIL + b"\n"], Hits())
    assert found == [*lines, b"****@****\n"]


def test_attack_copied_line_with_every_control_character_raises() -> None:
    with pytest.raises(ValueError, match="could mark escapes"):
        mask_lines(DETECTORS, [bytes(range(32)) + rb"\n4111111111111111"], Hits())


PARTS = st.sampled_from([rb"\n", rb"\\", rb"\t", rb"\\u0040", rb"\\x61", b"a", b"\x01", MAIL, b" "])


@given(st.lists(PARTS, max_size=9))
def test_masking_of_copied_lines_is_idempotent(parts: list[bytes]) -> None:
    line = b"".join(parts) + b"\n"
    once = mask_lines(DETECTORS, [line], Hits()) or [line]
    assert (mask_lines(DETECTORS, once, Hits()) or once) == once
    assert once[0].count(b"\n") == 1
