"""What the detectors find in the labelled texts: floors, so that no change makes them worse unseen."""

from __future__ import annotations

import pytest
from bench.detection import ALL, Result, judge, postern
from bench.labelled.texts import labelled

# Kinds that nothing but a name or a word can tell from other numbers; the others are found alone, too.
NEED_A_WORD = frozenset({
    "AU_ACN", "AU_TFN", "CUSIP", "DE_TAX_ID", "CA_SIN", "FDA_CODE", "IMEI", "IN_PASSPORT", "IN_VOTER",
    "IT_DRIVER_LICENSE", "IT_IDENTITY_CARD", "IT_PASSPORT", "NL_BSN", "PL_PESEL", "SWIFT_CODE", "TR_ID_NUMBER",
    "US_BANK_NUMBER", "US_BANK_ROUTING", "US_DRIVER_LICENSE", "US_NPI", "US_PASSPORT",
})  # fmt: skip


@pytest.fixture(scope="module")
def result() -> Result:
    return judge(labelled(seed=2026, of_each=40, negatives=60), postern())


def test_the_labelled_texts_are_the_same_for_the_same_seed() -> None:
    assert labelled(3, 5, 5) == labelled(3, 5, 5)
    assert labelled(3, 5, 5) != labelled(4, 5, 5)


@pytest.mark.parametrize("kind", sorted(ALL))
def test_values_of_a_kind_are_found(kind: str, result: Result) -> None:
    score = result.scores[kind]
    assert score.recall_told >= 0.95
    if kind not in NEED_A_WORD:
        assert score.recall_alone >= 0.9


@pytest.mark.parametrize("kind", sorted(ALL - {"DATE_TIME", "PHONE_NUMBER", "CREDIT_CARD"}))
def test_what_is_found_is_of_the_kind(kind: str, result: Result) -> None:
    assert result.scores[kind].precision >= 0.85


def test_false_alarms_are_few(result: Result) -> None:
    assert result.false_alarms <= 0.02 * result.clean
    assert result.total().precision >= 0.97
