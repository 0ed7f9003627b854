"""Prefilters exclude nothing that a detector finds: in which cells of a column, after which words, in which texts."""

from __future__ import annotations

from bench.labelled.texts import labelled
from bench.masking import encoded, session
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from postern.domain.rules.masking import DEFAULT_TYPES, MODEL_TYPES, InfoType
from postern.inspection.masking.copied_lines import mask_lines
from postern.inspection.masking.detectors import Detectors, detectors_for
from postern.inspection.masking.joined_texts import Hits, mask_text, mask_texts
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import TextKind

from .values import ANY_TEXT, ANY_VALUE

EVERY = detectors_for(frozenset(InfoType) - MODEL_TYPES)
SETS = st.sampled_from([EVERY, detectors_for(DEFAULT_TYPES), detectors_for(frozenset({InfoType.US_SSN}))])
SAMPLES = labelled(11, 6, 3)  # values of all kinds, and what looks like them, alone and in sentences
WORDS = b"ssn", b"passport no", b"card", b"Steuer-ID", b"routing", b"run", b"drug", b"vin", b"my account is"
EDGES = st.sampled_from([b"", b" ", b"\\n", b"\\t", b"\n", b"\t", b"_", b"x", b"7", b"(", b"***", b"\xc3\xa9", b"\x00"])
VALUES = st.sampled_from([sample.text for sample in SAMPLES]) | ANY_VALUE.map(str.encode) | ANY_TEXT
TEXTS = st.builds(
    lambda before, edge, value, after: before + edge + value + after,
    st.sampled_from((b"", *WORDS)), EDGES, VALUES, EDGES,
)  # fmt: skip
CLEAN = b"", b"x", b"the quick brown fox", b"2024-05-06 12:34:56.789+00", b"12345", b"3d1f-88aa", b"\xff\xfe"


@st.composite
def cells(draw: st.DrawFn) -> list[bytes]:
    """Draw a column of mostly clean cells, which are enough for the search of single cells."""
    clean = draw(st.sampled_from(CLEAN))
    column = [clean] * draw(st.integers(32, 100))
    for text in draw(st.lists(TEXTS, max_size=6)):
        column[draw(st.integers(0, len(column) - 1))] = text
    return column


@settings(max_examples=examples(600), deadline=None)
@given(cells(), SETS)
@example([*[b"x"] * 40, b"ann@example.com", b"@b.cc", b""], EVERY)
def test_cells_outside_of_found_positions_have_no_candidate(column: list[bytes], detectors: Detectors) -> None:
    joined = b"\x00".join(column)
    spans = detectors.find_cells(joined)
    if spans is None:
        return
    covered = {place for start, end in spans for place in range(start, end + 1)}
    assert all(
        joined[start - 1 : start] in (b"", b"\x00") and joined[end : end + 1] in (b"", b"\x00") for start, end in spans
    )
    at = 0
    for cell in joined.split(b"\x00"):
        if detectors.worth(cell):
            assert at in covered
        at += len(cell) + 1


@settings(max_examples=examples(600), deadline=None)
@given(cells(), SETS)
def test_column_with_few_candidates_is_masked_as_each_cell_alone(column: list[bytes], detectors: Detectors) -> None:
    hits, alone = Hits(), Hits()
    masked = mask_texts(detectors, column, hits)
    each = [mask_text(detectors, cell, alone) for cell in column]
    assert (masked or column) == [old if new is None else new for old, new in zip(column, each, strict=True)]
    assert hits == alone


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(cells(), min_size=1, max_size=4), SETS)
def test_copied_lines_with_few_candidates_are_masked_as_each_field_alone(
    columns: list[list[bytes]], detectors: Detectors
) -> None:
    signs = bytes.maketrans(b"\t\n\\", b"   ")
    rows = [[field.translate(signs) for field in row] for row in zip(*columns, strict=False)]
    hits, alone = Hits(), Hits()
    masked = mask_lines(detectors, [b"\t".join(row) + b"\n" for row in rows], hits)
    each = [[mask_text(detectors, field, alone) or field for field in row] for row in rows]
    assert (masked or [b"\t".join(row) + b"\n" for row in rows]) == [b"\t".join(row) + b"\n" for row in each]
    assert hits == alone


NUMBERS = st.integers(0, 10**19).map(str).map(str.encode) | st.sampled_from(
    [b"4111111111111111", b"12.5", b"-1", b"123456789"]
)
KINDS = st.sampled_from([TextKind.TEXT, TextKind.TEXT, TextKind.NUMBER, TextKind.JSON])


@st.composite
def results(draw: st.DrawFn) -> list[list[tuple[TextKind, list[bytes]]]]:
    """Draw reads of one result: few of its cells can contain anything."""
    kinds = draw(st.lists(KINDS, min_size=2, max_size=5))
    count = draw(st.integers(1, 3))
    reads: list[list[tuple[TextKind, list[bytes]]]] = []
    for _ in range(draw(st.integers(1, 4))):
        read = [(kind, [b"12" if kind is TextKind.NUMBER else b"x y"] * count) for kind in kinds]
        for column in draw(st.lists(st.integers(0, len(kinds) - 1), max_size=3)):
            values = NUMBERS if kinds[column] is TextKind.NUMBER else TEXTS.map(lambda text: text.replace(b"\x00", b""))
            read[column][1][draw(st.integers(0, count - 1))] = draw(values)
        reads.append(read)
    return reads


@settings(max_examples=examples(500), deadline=None)
@given(results(), st.sampled_from([frozenset(InfoType) - MODEL_TYPES, DEFAULT_TYPES]))
def test_columns_searched_together_are_masked_as_each_column_alone(
    reads: list[list[tuple[TextKind, list[bytes]]]], types: frozenset[InfoType]
) -> None:
    masking, view = Masking(types), session()
    alone = session()
    for read in reads:
        rows = encoded(read).rows()
        masking.see(rows, view)
        for place, column in enumerate(read):
            single = encoded([column]).rows()
            Masking(types).see(single, alone)
            assert rows.texts(place) == single.texts(0)
    assert view.metrics.info_types == alone.metrics.info_types
    assert len(view.marks) == len(alone.marks)


@settings(max_examples=examples(600), deadline=None)
@given(TEXTS, SETS)
def test_first_look_tells_whether_any_form_has_a_candidate(text: bytes, detectors: Detectors) -> None:
    assert detectors.may_find(text) is bool(detectors.worth(text))


class Unfiltered(Detectors):
    """Searches for values after context words even if the text has no candidate of their form."""

    def _may_find(self, index: int, text: bytes) -> bool:
        return True


@settings(max_examples=examples(600), deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=3).map(b" ".join))
@example(b"x9VIN 4YD1U3KX872425050")
@example(b"account: 12345678, 87654321")
def test_values_after_words_are_found_as_without_a_look_for_candidates(text: bytes) -> None:
    catalogue = EVERY._catalogue
    assert EVERY.find(text) == Unfiltered(catalogue, EVERY.types, frozenset(), doubted=False).find(text)
