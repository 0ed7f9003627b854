"""Positions and scores of values, and the effect of column names and of words before the value."""

from __future__ import annotations

import time

import pytest
from bench.labelled.maker import Maker
from bench.labelled.values import MAKERS
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from postern.domain.rules.masking import MODEL_TYPES, CustomType, InfoType
from postern.errors import Unavailable
from postern.inspection.masking.detector import Found
from postern.inspection.masking.detectors import detectors_for
from postern.inspection.masking.joined_texts import Hits, mask_text, mask_texts

from .values import SOUP

EMAIL = frozenset({InfoType.EMAIL_ADDRESS})


def test_values_are_found_in_order_with_their_positions() -> None:
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


def test_text_without_values_has_no_findings() -> None:
    assert detectors_for(EMAIL).find(b"") == []
    assert detectors_for(EMAIL).find(b"nothing to see") == []


def test_word_before_a_value_or_column_name_raises_its_score() -> None:
    detectors = detectors_for(frozenset({"US_SSN"}))
    alone, told = detectors.find(b"123-45-6789"), detectors.find(b"social security: 123-45-6789")
    named = detectors_for(frozenset({"US_SSN"}), column="customerSSN").find(b"123-45-6789")
    assert alone[0].score < told[0].score == named[0].score


def test_threshold_drops_values_of_a_lower_score() -> None:
    types = frozenset({"PHONE_NUMBER"})
    assert detectors_for(types, threshold=0.9).find(b"212-555-0142") == []
    assert len(detectors_for(types, threshold=0.9).find(b"phone: 212-555-0142")) == 1


def test_custom_types_find_values_by_expression_and_by_words() -> None:
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


def test_anchored_expression_matches_the_edges_of_each_cell() -> None:
    detectors = detectors_for(frozenset(), (CustomType("CODE", pattern_regex=r"\A\d{3}\z"),))
    assert detectors.find(b"123\x00x\x00456") == [Found("CODE", 0, 3, 0.8), Found("CODE", 6, 9, 0.8)]


def test_invalid_utf8_bytes_do_not_shift_positions() -> None:
    detectors = detectors_for(frozenset(), (CustomType("NAME", words=("müller",)),))
    text = b"\xff\xfe " + "müller".encode() + b" \xe4"
    assert [text[one.start : one.end].decode() for one in detectors.find(text)] == ["müller"]


def test_word_applies_to_a_list_of_values_and_ends_at_the_list() -> None:
    detectors = detectors_for(frozenset({"US_PASSPORT"}))
    text = b"passports: 123456780, 987654321; order 555555550"
    assert [text[one.start : one.end] for one in detectors.find(text)] == [b"123456780", b"987654321"]
    assert detectors.find(b"passport\x00123456780") == []


@pytest.mark.parametrize("between", [b",", b";", b"|", b" ", b"&", b", ", b" | ", b" / "])
def test_word_applies_to_each_value_of_a_list(between: bytes) -> None:
    detectors = detectors_for(frozenset({"US_PASSPORT"}))
    text = b"passports " + between.join([b"123456780", b"987654321", b"555555550"])
    assert [text[one.start : one.end] for one in detectors.find(text)] == [b"123456780", b"987654321", b"555555550"]


@pytest.mark.parametrize("between", [b" or ", b" || ", b"    ", b": ", b".\n", b"\x00", b"\t", b" - "])
def test_word_does_not_apply_to_values_after_other_separators(between: bytes) -> None:
    detectors = detectors_for(frozenset({"US_PASSPORT"}))
    text = b"passports 123456780" + between + b"987654321"
    assert [text[one.start : one.end] for one in detectors.find(text)] == [b"123456780"]


def test_unrelated_column_name_drops_uncertain_values_only() -> None:
    types = frozenset({"MEDICAL_LICENSE", "CREDIT_CARD"})
    assert len(detectors_for(types).find(b"AB1234563")) == 1
    assert detectors_for(types, column="order_id").find(b"AB1234563") == []
    # The author of a statement chooses the names, so a certain value is still found.
    assert len(detectors_for(types, column="order_id").find(b"4111111111111111")) == 1


def test_uncertain_values_are_masked_if_a_column_or_word_names_their_type() -> None:
    types = frozenset({"US_PASSPORT"})
    cells = [b"123456780", b"C12345678", b"none"]
    hits = Hits()
    assert mask_texts(detectors_for(types), cells, hits) is None
    assert mask_texts(detectors_for(types, column="passport_no"), cells, hits) == [b"****", b"****", b"none"]
    assert hits.counts == {"US_PASSPORT": 2}
    assert mask_texts(detectors_for(types), [b"passport 123456780"], hits) == [b"passport ****"]


def test_type_of_a_language_model_is_unavailable_without_the_model() -> None:
    with pytest.raises(Unavailable, match="PERSON needs a language model"):
        detectors_for(frozenset({"PERSON"}))


class Names:
    """A language model that knows one name."""

    types = frozenset({"PERSON"})

    def find(self, text: str, types: frozenset[str]) -> list[tuple[str, int, int, float]]:
        at = text.find("Zoë")
        return [("PERSON", at, at + 3, 0.85)] if at >= 0 and "PERSON" in types else []


def test_findings_of_a_language_model_have_byte_positions() -> None:
    detectors = detectors_for(frozenset({"PERSON", "EMAIL_ADDRESS"}), language=Names())
    text = "é Zoë met a@b.co\x00ask Zoë".encode()
    found = [(one.type, text[one.start : one.end].decode()) for one in detectors.find(text)]
    assert found == [("PERSON", "Zoë"), ("EMAIL_ADDRESS", "a@b.co"), ("PERSON", "Zoë")]


def test_unrelated_column_names_share_compiled_detectors() -> None:
    """A statement chooses the column names of its answer: a thousand names must not compile a thousand searches."""
    types = frozenset({"US_SSN", "US_PASSPORT"})
    first = detectors_for(types, column="alias0")
    assert all(detectors_for(types, column=f"alias{number}") is first for number in range(1000))


MAKER = Maker(1)
VALUES = st.sampled_from([MAKERS[kind](MAKER) for kind in sorted(MAKERS) for _ in range(12)])
WORDS = st.sampled_from(
    ["passport ", "ssn: ", "card no", "NHS ", " ", ", ", "routing ", "cookie: a=", "x", "\n", "****"]
)
TEXTS = st.lists(VALUES | WORDS | SOUP, max_size=6).map("".join).map(str.encode) | st.binary(max_size=80)
COLUMNS = st.sampled_from(["", "ssn", "passport_no", "order_id", "account_number", "id_number"])
EVERY = frozenset(InfoType) - MODEL_TYPES


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=6), COLUMNS)
def test_findings_in_joined_texts_equal_those_in_each_text(texts: list[bytes], column: str) -> None:
    detectors = detectors_for(EVERY, column=column)
    cells = [cell for text in texts for cell in text.split(b"\x00")]
    apart, at = [], 0
    for cell in cells:
        apart += [Found(one.type, at + one.start, at + one.end, one.score) for one in detectors.find(cell)]
        at += len(cell) + 1
    assert detectors.find(b"\x00".join(cells)) == apart


@settings(max_examples=examples(300), deadline=None)
@given(TEXTS, COLUMNS, st.sampled_from([0.2, 0.5, 0.9]))
def test_findings_are_ordered_disjoint_and_inside_the_text(text: bytes, column: str, threshold: float) -> None:
    end = 0
    for one in detectors_for(EVERY, threshold=threshold, column=column).find(text):
        assert end <= one.start < one.end <= len(text)
        assert threshold <= one.score <= 1
        assert b"\x00" not in text[one.start : one.end]
        end = one.end


@settings(max_examples=examples(300), deadline=None)
@given(TEXTS, COLUMNS)
def test_masking_all_types_is_idempotent(text: bytes, column: str) -> None:
    detectors = detectors_for(EVERY, column=column)
    once = mask_text(detectors, text, Hits()) or text
    assert mask_text(detectors, once, Hits()) in (None, once)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(TEXTS.map(lambda text: text.replace(b"\x00", b"")), max_size=6), COLUMNS)
def test_masking_texts_together_equals_masking_each_alone(texts: list[bytes], column: str) -> None:
    detectors = detectors_for(EVERY, column=column)
    each = [mask_text(detectors, text, Hits()) or text for text in texts]
    assert (mask_texts(detectors, texts, Hits()) or texts) == each


HOSTILE = [
    b"eyJaaaaaaa-", b"eyJaaaaaaa.", b"://a:", b"://a:b", b"http://", b"cookie: a=", b"bearer aaaaaaaaaaaaaaaaaaaaaaaa-",
    b"-----BEGIN PRIVATE KEY-----", b"-----BEGIN RSA PRIVATE KEY----- a", b"passport ", b"passport 1", b"ssn,", b"AB",
    b"12 345 678 901 ", b"123 456 789 ", b"1.1.1.1-", b"%B4111111111111^", b";4111111111111=1111111",
    b"bc1qqqqqqqqqqqq",
    b"1111111111111111111111111A", b"00:00:", b"2024-01-01 ", b"xoxb-1111111111", b"AKIA2222222222222222", b"ghp_",
    b"0x", b"Jan 1 2020 ", b"1/1/", b"authorization: a a", b"sig=1&sig=2?", b"756.", b"A9",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.ci
def test_search_time_of_hostile_text_is_not_quadratic_in_its_length(piece: bytes) -> None:
    detectors = detectors_for(EVERY)

    def seconds(length: int) -> float:
        """Of the processor."""
        text = piece * (length // len(piece)) + b" a@example.com"
        start = time.process_time()
        assert detectors.find(text)
        return time.process_time() - start

    seconds(20_000)
    # Four times, were it exact; sixteen, were it quadratic. Once in three: what else goes on in this process is not the
    # text's.
    assert any(seconds(240_000) < 10 * seconds(60_000) + 0.5 for _ in range(3))
