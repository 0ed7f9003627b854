"""Every shortcut of the search (whole columns, lines, look-ahead) gives the results of a plain search per cell."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from postern.domain.rules.masking import CustomType, InfoType
from postern.inspection.masking.catalogue import ORDER
from postern.inspection.masking.copied_lines import mask_lines
from postern.inspection.masking.detector import Mask, substitute_all, substitute_valid
from postern.inspection.masking.detectors import ROUNDS, detectors_for
from postern.inspection.masking.joined_texts import Hits, mask_text, mask_texts
from postern.inspection.masking.kinds import card, email_address, iban, ip, phone, ssn

from .values import ANY_TEXT, QUICK, SOUP, TRUE_VALUES

pytestmark = pytest.mark.ci

# The close search of every form, in order, without anything that makes it quick.
PLAIN: Sequence[tuple[InfoType, Mask]] = (
    (InfoType.EMAIL_ADDRESS, email_address._mask),
    (InfoType.IBAN_CODE, substitute_valid(iban._CANDIDATE, iban._judge)),
    (InfoType.CREDIT_CARD, substitute_valid(card._CANDIDATE, card._judge)),
    (InfoType.US_SSN, substitute_all(ssn._NUMBER, ssn.MASK)),
    (InfoType.IP_ADDRESS, substitute_valid(ip._V6, ip._judge_v6)),
    (InfoType.IP_ADDRESS, substitute_all(ip._V4, ip.MASK)),
    (InfoType.PHONE_NUMBER, substitute_all(phone._INTERNATIONAL, phone.MASK)),
    (InfoType.PHONE_NUMBER, substitute_all(phone._NORTH_AMERICAN, phone.MASK)),
    (InfoType.PHONE_NUMBER, substitute_valid(phone._NATIONAL, phone._judge_national)),
)
ALL = QUICK
KINDS = st.sets(st.sampled_from(sorted(QUICK)), min_size=1).map(frozenset) | st.just(ALL)


def plainly(kinds: frozenset[InfoType], cell: bytes, hits: Hits) -> bytes:
    for _ in range(ROUNDS):
        found = False
        for kind, mask in PLAIN:
            if kind in kinds:
                masked = mask(cell)
                cell = masked.text
                found = found or masked.hits > 0
                hits.add(kind, masked.hits, masked.size)
        if not found:
            break
    return cell


@st.composite
def nearly(draw: st.DrawFn, value: str) -> str:
    """Return the value with a character added, removed or changed, most often at an edge."""
    place = draw(st.sampled_from([0, len(value), draw(st.integers(0, len(value)))]))
    left_out = draw(st.integers(0, 1))
    between = draw(st.sampled_from(["", "0", "7", "x", "_", " ", "-", ".", "+", "(", "/", "@", "*", "\\n", ":"]))
    return value[:place] + between + value[place + left_out :]


@st.composite
def columns(draw: st.DrawFn) -> list[bytes]:
    """Draw values of one type, sometimes mixed with near misses."""
    true = TRUE_VALUES[draw(st.sampled_from(sorted(QUICK)))]()
    odd = draw(st.sampled_from([true, true | true.flatmap(nearly), true | SOUP | st.just("")]))
    before = draw(st.sampled_from(["", "", "+", "+1 ", "1-", "(", "0"]))
    return [(before + text).encode() for text in draw(st.lists(odd, min_size=1, max_size=5))]


def check(kinds: frozenset[InfoType], cells: list[bytes], found: list[bytes] | None, hits: Hits) -> None:
    plain = Hits()
    assert (cells if found is None else found) == [plainly(kinds, cell, plain) for cell in cells]
    assert hits == plain


@settings(max_examples=examples(1500), deadline=None)
@given(columns() | st.lists(ANY_TEXT, min_size=1, max_size=5), KINDS)
@example([b"+4111111111111111"], ALL)
@example([b"+4222222222222"], ALL)
@example([b"+1 123-45-6789", b"+1 4111 1111 1111 1111"], ALL)
@example([b"+1.2.3.4567890", b"+121.212.121.2121", b"+1 212.12.12.12"], ALL)
@example([b"+49 123-45-6789", b"+1 212-555-0142"], ALL)
@example([b"+1 212-555-0142", b"(212)555-0142", b"1-212-555-0142", b"212.555.0142"], ALL)
@example([b"4111111111111111", b"378282246310005", b"4111111111111112"], ALL)
@example([b"4111111111111111", b"378282246310005"], ALL)
@example([b"a@b.co", b"a@b.co\x00c@d.ee"], ALL)
@example([b"DE89370400440532013000", b"NO9386011117947", b"GB82WEST12345698765432"], ALL)
@example([b"DE89370400440532013000", b"DE88370400440532013000"], ALL)
@example([b"666-12-3456", b"123-45-6789", b"123 45 6789"], ALL)
@example([b"000-12-3456", b"123-00-6789", b"123-45 6789"], ALL)
@example([b"04000 0000 x"], ALL)
@example([b"ad6600000000000000000000_"], ALL)
@example([b"1.2.3.4", b"255.255.255.255", b"001.002.003.004"], ALL)
def test_fast_column_masking_equals_a_plain_search_of_each_cell(cells: list[bytes], kinds: frozenset[InfoType]) -> None:
    hits = Hits()
    check(kinds, cells, mask_texts(detectors_for(kinds), cells, hits), hits)


# Long enough to leap from candidate to candidate, with few of them.
FILLERS = (b"the quick brown fox jumps over a lazy dog, ", b"2024-05-06 12:34:56.789+00\x00", b"\\n(x-1) 020 7x\x00")


@settings(max_examples=examples(800), deadline=None)
@given(
    columns() | st.lists(ANY_TEXT, min_size=1, max_size=5),
    st.sampled_from(FILLERS),
    st.sampled_from([b"", b" ", b"\x00", b"\\n", b"\\t", b"(", b"\xc3\xa9", b"_", b"7", b"***"]),
    KINDS,
)
@example([b"(020 7596 5050)"], FILLERS[0], b"", ALL)
@example([b"(020) 75965050", b"020/75965050"], FILLERS[1], b"\\n", ALL)
@example([b"1 (910) 500-0120"], FILLERS[2], b"", ALL)
def test_masking_of_long_texts_equals_a_plain_search(
    values: list[bytes], filler: bytes, edge: bytes, kinds: frozenset[InfoType]
) -> None:
    repeated = filler * (3000 // len(filler))
    text = repeated + b"".join([edge + value + edge + filler for value in values]) + repeated
    hits, plain = Hits(), Hits()
    masked = mask_text(detectors_for(kinds), text, hits)
    assert (text if masked is None else masked) == plainly(kinds, text, plain)
    assert hits == plain


@settings(max_examples=examples(500), deadline=None)
@given(st.data(), KINDS)
def test_whole_text_masking_equals_a_plain_search(data: st.DataObject, kinds: frozenset[InfoType]) -> None:
    """Texts are generated from the whole-text expressions, not from our own sample values."""
    whole = data.draw(st.sampled_from([detector.whole for detector in ORDER if detector.whole is not None]))
    cells = data.draw(st.lists(st.from_regex(whole.value, fullmatch=True), min_size=1, max_size=3))
    hits = Hits()
    check(kinds, cells, mask_texts(detectors_for(kinds), cells, hits), hits)


@settings(max_examples=examples(500), deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(columns().map(lambda cells: b"\t".join((cells * 4)[:width])), min_size=1, max_size=5)
    )
    | st.lists(columns().map(b"\t".join), min_size=1, max_size=4)
    | st.lists(ANY_TEXT, min_size=1, max_size=4),
    st.sampled_from([b"\n", b"", b"\r\n"]),
    KINDS,
)
@example([b"a\tb@c.de", b"b\tc@d.ee"], b"\n", ALL)
@example([b"a\tb@c.de", b"b"], b"\n", ALL)
@example([b"a@b.co\tb", b"c\t\x00\td"], b"\n", ALL)
@example([b"a@b.co\t\x00\tb", b"c\td"], b"\n", ALL)
@example([b"a@b.co\tb\t\x00", b"c\td\te"], b"\n", ALL)
def test_fast_line_masking_equals_a_plain_search_of_each_line(
    lines: list[bytes], end: bytes, kinds: frozenset[InfoType]
) -> None:
    hits = Hits()
    # Without escapes, which are edges in a copy (test_lines.py).
    lines = [line.replace(b"\\", b"/") + end for line in lines]
    check(kinds, lines, mask_lines(detectors_for(kinds), lines, hits), hits)


EXPRESSIONS = (
    r"a\s*", r"^b", r"b$", r"\bab\b", r"\Bb", r"[^1]+", r"a.b", r"a|\n", r"(?-m)^a", r"a\z", r"\x00", r"\n+", r"\W",
)  # fmt: skip
CUSTOM: list[tuple[CustomType, ...]] = [(CustomType("OWN", pattern_regex=expression),) for expression in EXPRESSIONS]
CUSTOM += [(CustomType("OWN", words=("ab", "1 b")),), (CustomType("OWN", words=("a@b.co",)), *CUSTOM[0])]


@settings(max_examples=examples(600), deadline=None)
@given(
    st.lists(st.text("ab1 _\n", max_size=6) | st.just("a@b.co"), min_size=1, max_size=6)
    | st.lists(st.just("ab@b.co"), min_size=1, max_size=3),
    st.sampled_from(CUSTOM),
)
@example(["a", "b"], CUSTOM[0])
@example(["a@b.co"], (CustomType("OWN", pattern_regex=r"\*@"),))
def test_custom_types_search_each_cell_separately(cells: list[str], custom: tuple[CustomType, ...]) -> None:
    detectors = detectors_for(frozenset({InfoType.EMAIL_ADDRESS}), custom)
    texts = [cell.encode() for cell in cells]
    together, alone = Hits(), Hits()
    each = [mask_text(detectors, text, alone) for text in texts]
    wanted = [old if new is None else new for old, new in zip(texts, each, strict=True)]
    found = mask_texts(detectors, texts, together)
    assert (texts if found is None else found) == wanted
    assert together == alone
