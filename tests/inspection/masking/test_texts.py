"""Properties of masking for every information type and any text."""

from __future__ import annotations

import pytest
import re2
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from postern.domain.rules.masking import DEFAULT_TYPES, MODEL_TYPES, InfoType
from postern.inspection.masking import detector as detector_module
from postern.inspection.masking import joined_texts as texts_module
from postern.inspection.masking.catalogue import ORDER
from postern.inspection.masking.detector import compile_linear
from postern.inspection.masking.detectors import Detectors, FormCatalogue, detectors_for
from postern.inspection.masking.joined_texts import Hits, mask_text, mask_texts

from .values import ANY_TEXT, QUICK, SOUP, TRUE_VALUES

ALL = detectors_for(DEFAULT_TYPES)
FOUND = frozenset(InfoType) - MODEL_TYPES
# A few sets, as preparing one takes a while: all, the quick ones, each of these, and others by tens.
SETS = [FOUND, QUICK, *(frozenset({kind}) for kind in sorted(QUICK))]
SETS += [frozenset(sorted(FOUND)[start::7]) for start in range(7)]
TYPES = st.sampled_from([detectors_for(types) for types in SETS])


def masked(text: bytes, detectors: Detectors = ALL) -> bytes:
    found = mask_text(detectors, text, Hits())
    return text if found is None else found


@settings(max_examples=examples(600), deadline=None)
@given(ANY_TEXT, TYPES)
@example(b"4111111111114242 4242 4242 4242", ALL)
@example(b"a@b.co@c.de", ALL)
@example(b"555-123-4567.1.2.3.4", ALL)
def test_masking_is_idempotent_for_every_set_of_types(text: bytes, detectors: Detectors) -> None:
    once = masked(text, detectors)
    assert masked(once, detectors) == once


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(ANY_TEXT, max_size=8), TYPES)
def test_masking_texts_together_equals_masking_each_alone(texts: list[bytes], detectors: Detectors) -> None:
    together, alone = Hits(), Hits()
    each = [mask_text(detectors, text, alone) for text in texts]
    found = mask_texts(detectors, texts, together)
    assert (found if found is not None else texts) == [
        old if new is None else new for old, new in zip(texts, each, strict=True)
    ]
    assert together == alone


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(ANY_TEXT, min_size=1, max_size=4), st.lists(st.integers(0, 3), min_size=40, max_size=60), TYPES)
def test_repeated_texts_are_each_masked_and_counted(some: list[bytes], places: list[int], detectors: Detectors) -> None:
    texts = [some[place % len(some)] for place in places]
    together, alone = Hits(), Hits()
    each = [mask_text(detectors, text, alone) or text for text in texts]
    assert (mask_texts(detectors, texts, together) or texts) == each
    assert together == alone


EDGES = st.sampled_from(
    ["", " ", "\t", "\n", ",", ";", ":", '"', "'", "(", ")", "<", ">", "[", "]", "{", "}", "=", "|", "\\n"]
)
AROUND = st.text(st.characters(codec="utf-8", exclude_characters="\x00*@"), max_size=12)


def digits_of(text: str) -> str:
    return "".join(character for character in text if character.isdigit())


@pytest.mark.parametrize("kind", sorted(QUICK))
@settings(max_examples=examples(400), deadline=None)
@given(data=st.data())
def test_valid_value_is_masked_in_any_surrounding_text(kind: InfoType, data: st.DataObject) -> None:
    value = data.draw(TRUE_VALUES[kind]())
    before, after = data.draw(EDGES), data.draw(EDGES.filter(lambda edge: edge != "\\n"))
    # Groups with colons go on at a colon: more of them are a longer address, or a fingerprint.
    assume(kind is not InfoType.IP_ADDRESS or ":" not in value or ":" not in (before, after))
    left = data.draw(AROUND) if before else ""
    right = data.draw(AROUND) if after else ""
    text = f"{left}{before}{value}{after}{right}"
    digits = digits_of(value)
    assume(len(digits) < 6 or digits not in digits_of(f"{left}{before}{value[-4:]}{after}{right}"))
    hits = Hits()
    found = mask_text(detectors_for(frozenset({kind})), text.encode(), hits)
    assert found is not None, text
    assert hits.counts[kind] >= 1
    assert value.encode() not in found
    # The value is gone, and what is left of it is what the mask keeps: at most the last four digits.
    assert len(digits) < 6 or digits not in digits_of(found.decode("utf-8", "replace"))


@settings(max_examples=examples(500), deadline=None)
@given(SOUP.map(str.encode))
def test_candidate_expression_matches_every_text_that_a_form_masks(text: bytes) -> None:
    for detector in ORDER:
        for form in detector.forms:
            if form.mask(text).hits:
                assert compile_linear(form.candidate).search(text)


@settings(max_examples=examples(300), deadline=None)
@given(ANY_TEXT)
def test_masking_adds_no_quotes_separators_or_white_space(text: bytes) -> None:
    for character in b"\"'{},\\ \t\n\x00":
        assert masked(text).count(character) <= text.count(character)


@settings(max_examples=examples(300), deadline=None)
@given(ANY_TEXT)
def test_counted_size_is_that_of_the_masked_values(text: bytes) -> None:
    hits = Hits()
    mask_text(ALL, text, hits)
    assert 0 <= hits.size <= len(text)
    assert bool(hits.size) == bool(hits.counts)
    assert sum(hits.counts.values()) <= hits.size


def test_masking_raises_if_the_number_of_texts_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts_module, "_mask_held", lambda *_: b"one text")
    with pytest.raises(RuntimeError, match="1 texts for 2"):
        mask_texts(ALL, [b"a@example.com", b"b"], Hits())


@pytest.mark.parametrize("memory", [1 << 14, 1 << 18, 1 << 19, 1 << 20, 1 << 22])
def test_quick_search_with_little_memory_finds_the_same_or_cannot_be_built(
    memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = ("ann@example.com", "4111111111111111", "SSN", "ghp_" + "x1" * 18, "+44 20 7946 0958")
    texts = [f"{chr(97 + place % 26)}{place**3} {value}".encode() for place in range(8) for value in values]
    which = FormCatalogue(DEFAULT_TYPES, (), 0.5, None).which
    wanted = [sorted(which(text) or ()) for text in texts]
    assert all(wanted)
    monkeypatch.setattr(detector_module, "MANY_MEMORY", memory)
    try:
        which = FormCatalogue(DEFAULT_TYPES, (), 0.5, None).which
    except (RuntimeError, re2.error):
        return
    assert [sorted(which(text) or ()) for text in texts] == wanted


def test_address_after_200_kb_of_hostile_text_is_masked() -> None:
    pieces = [
        b"a",
        b"1",
        b"1 ",
        b"1-",
        b"a.",
        b"a'",
        b"@a.",
        b"a@",
        b"1.",
        b":",
        b"a:",
        b"1:",
        b"::",
        b"4111 ",
        b"(",
        b"+1",
        b"DE89 ",
        b"\\n1",
    ]
    for piece in pieces:
        text = piece * (200_000 // len(piece)) + b" a@example.com"
        assert masked(text) != text


def test_address_after_a_million_apostrophes_is_masked() -> None:
    assert masked(b"a'" * 1_000_000 + b"a@b.co") == b"****@****"
    assert masked(b"''" * 1_000_000 + b"a@b.co").endswith(b"'****@****")
