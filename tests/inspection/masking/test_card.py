from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.inspection.masking.detector import substitute_valid
from postern.inspection.masking.kinds import card
from postern.inspection.masking.kinds.card import CREDIT_CARD, has_check_digit, have_check_digits, is_card

from .values import cards, digits, luhn_digit


@given(st.integers(11, 18).flatmap(digits))
def test_only_the_luhn_digit_completes_a_valid_number(body: str) -> None:
    right = luhn_digit(body)
    for digit in "0123456789":
        assert has_check_digit((body + digit).encode()) == (digit == right)


@given(st.lists(st.integers(12, 19).flatmap(digits), min_size=1, max_size=12), st.booleans())
def test_check_of_many_numbers_equals_the_check_of_each(numbers: list[str], made_right: bool) -> None:
    if made_right:
        numbers = [number[:-1] + luhn_digit(number[:-1]) for number in numbers]
    texts = [number.encode() for number in numbers]
    assert have_check_digits(texts) == all(map(has_check_digit, texts))


@given(
    st.lists(cards().filter(str.isdigit) | st.sampled_from(["4111111111111112", "", "x" * 16]), min_size=1, max_size=6)
)
def test_fast_masking_of_card_columns_equals_the_general_masking(numbers: list[str]) -> None:
    text = "\x00".join(numbers).encode()
    assert CREDIT_CARD.forms[0].mask(text) == substitute_valid(card._CANDIDATE, card._judge)(text)


@pytest.mark.parametrize(
    ("digits", "issued"),
    [
        (b"4111111111111111", True),
        (b"4111111111111112", False),
        (b"5105105105105100", True),
        (b"2221000000000009", True),
        (b"2220990000000007", False),
        (b"2720990000000007", True),
        (b"2721000000000004", False),
        (b"371449635398431", True),
        (b"6011000990139424", True),
        (b"6759649826438453", True),
        (b"1111111111111117", False),
        (b"9999999999999995", False),
        (b"411111111111111", False),
    ],
)
def test_card_number_needs_a_known_issuer_prefix_and_check_digit(digits: bytes, issued: bool) -> None:
    assert is_card(digits) is issued
