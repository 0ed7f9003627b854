"""Replacement of cells by a rule that searches for information types."""

from __future__ import annotations

import json

import pytest

from postern.domain.rules.masking import InfoType, Strategy
from postern.inspection.masking.joined_texts import Hits
from postern.inspection.masking.kinds.card import is_card
from postern.inspection.masking.strategies import Substitutes
from postern.inspection.masking.substituting import ValueSearch
from postern.interception.events import Scalar

KEY = b"k" * 32
TYPES = frozenset({InfoType.CREDIT_CARD, InfoType.EMAIL_ADDRESS, InfoType.IP_ADDRESS})
CARD = b"4111111111111111"
NUMBERS = [Scalar.SMALLINT, Scalar.INTEGER, Scalar.BIGINT, Scalar.DECIMAL]
TEXTS = [Scalar.TEXT, Scalar.BYTES, Scalar.OTHER]
NOT_LOOKED_AT = [scalar for scalar in Scalar if scalar not in {*NUMBERS, *TEXTS, Scalar.JSON, Scalar.ADDRESS}]


def change(strategy: Strategy, scalar: Scalar, value: bytes) -> tuple[bytes | None, dict[str, int]]:
    """Return the replacement of the value and the counted hits."""
    search = ValueSearch(TYPES, (), 0.5, Substitutes(strategy, KEY if strategy is Strategy.HASH else b""))
    hits = Hits()
    new = search.change(search.detectors(), hits)(scalar, value)
    return new, dict(hits.counts)


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize(
    ("scalar", "value", "kind"),
    [
        *((scalar, CARD, InfoType.CREDIT_CARD) for scalar in NUMBERS),
        *((scalar, b"ann@example.com", InfoType.EMAIL_ADDRESS) for scalar in TEXTS),
        *((scalar, b"write to ann@example.com", InfoType.EMAIL_ADDRESS) for scalar in TEXTS),
        (Scalar.JSON, b'{"to": ["ann@example.com"]}', InfoType.EMAIL_ADDRESS),
        (Scalar.ADDRESS, b"192.168.1.17", InfoType.IP_ADDRESS),
        (Scalar.ADDRESS, b"2001:db8::1", InfoType.IP_ADDRESS),
    ],
)
def test_cell_that_contains_a_value_is_replaced_by_the_strategy(
    scalar: Scalar, value: bytes, kind: InfoType, strategy: Strategy
) -> None:
    new, hits = change(strategy, scalar, value)
    assert hits == {kind: 1}
    assert new == Substitutes(strategy, KEY if strategy is Strategy.HASH else b"").change(scalar, value)
    if strategy is Strategy.NULL:
        assert new is None
    if new is not None:
        assert b"ann@" not in new
        assert not is_card(new)
    if new is not None and scalar is Scalar.JSON:
        json.loads(new)


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        *((scalar, b"4111111111111112") for scalar in NUMBERS),
        *((scalar, b"nothing to find") for scalar in TEXTS),
        (Scalar.JSON, b'{"to": ["nobody"]}'),
        (Scalar.ADDRESS, b"0.0.0.0"),
        (Scalar.ADDRESS, b"08:00:2b:01:02:03"),
        *((scalar, CARD) for scalar in NOT_LOOKED_AT),
    ],
)
def test_cell_without_a_value_stays_unchanged(scalar: Scalar, value: bytes, strategy: Strategy) -> None:
    assert change(strategy, scalar, value) == (value, {})
