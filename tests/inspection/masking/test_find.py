"""Where values are, how sure each is, and what a column's name or a word before them changes."""

from __future__ import annotations

from postern.domain.masking import CustomType, InfoType
from postern.inspection.masking.detector import Found
from postern.inspection.masking.detectors import detectors_for

EMAIL = frozenset({InfoType.EMAIL_ADDRESS})


def test_values_are_found_in_order_with_their_places() -> None:
    detectors = detectors_for(frozenset({"EMAIL_ADDRESS", "US_SSN"}))
    text = b"ssn 123-45-6789, mail ann@example.com and bob@example.org"
    found = detectors.find(text)
    assert [(one.type, text[one.start : one.end]) for one in found] == [
        ("US_SSN", b"123-45-6789"),
        ("EMAIL_ADDRESS", b"ann@example.com"),
        ("EMAIL_ADDRESS", b"bob@example.org"),
    ]
    assert found == sorted(found, key=lambda one: one.start)
    assert all(0.5 <= one.score <= 1 for one in found)


def test_nothing_is_found_where_nothing_is() -> None:
    assert detectors_for(EMAIL).find(b"") == []
    assert detectors_for(EMAIL).find(b"nothing to see") == []


def test_a_word_before_a_value_and_a_columns_name_raise_its_score() -> None:
    detectors = detectors_for(frozenset({"US_SSN"}))
    alone, told = detectors.find(b"123-45-6789"), detectors.find(b"social security: 123-45-6789")
    named = detectors_for(frozenset({"US_SSN"}), column="customerSSN").find(b"123-45-6789")
    assert alone[0].score < told[0].score == named[0].score


def test_a_threshold_keeps_what_is_surer() -> None:
    types = frozenset({"PHONE_NUMBER"})
    assert detectors_for(types, threshold=0.9).find(b"212-555-0142") == []
    assert len(detectors_for(types, threshold=0.9).find(b"phone: 212-555-0142")) == 1


def test_custom_types_by_expression_and_by_words() -> None:
    custom = (
        CustomType("STAFF_NUMBER", pattern_regex=r"E-\d{6}", score=0.7),
        CustomType("PROJECT", words=("blue moon", "Röntgen")),
    )
    detectors = detectors_for(frozenset(), custom)
    text = "E-123456 worked on Blue  Moon, then röntgen\x00E-654321".encode()
    assert [(one.type, text[one.start : one.end].decode()) for one in detectors.find(text)] == [
        ("STAFF_NUMBER", "E-123456"),
        ("PROJECT", "Blue  Moon"),
        ("PROJECT", "röntgen"),
        ("STAFF_NUMBER", "E-654321"),
    ]
    assert detectors_for(frozenset(), custom, threshold=0.75).find(b"E-123456") == []


def test_an_expression_bound_to_the_edges_of_a_text_sees_those_of_each_cell() -> None:
    detectors = detectors_for(frozenset(), (CustomType("CODE", pattern_regex=r"\A\d{3}\z"),))
    assert detectors.find(b"123\x00x\x00456") == [Found("CODE", 0, 3, 0.8), Found("CODE", 6, 9, 0.8)]


def test_bytes_that_are_no_text_shift_no_place() -> None:
    detectors = detectors_for(frozenset(), (CustomType("NAME", words=("müller",)),))
    text = b"\xff\xfe " + "müller".encode() + b" \xe4"
    assert [text[one.start : one.end].decode() for one in detectors.find(text)] == ["müller"]
