from __future__ import annotations

from decimal import Decimal
from ipaddress import ip_interface

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.rules.masking import DEFAULT_TYPES, InfoType
from postern.inspection.masking.detectors import detectors_for
from postern.inspection.masking.joined_texts import Hits
from postern.inspection.masking.scalars import mask_addresses, mask_numbers

from .values import cards

ALL = detectors_for(DEFAULT_TYPES)
NO_CARDS = detectors_for(DEFAULT_TYPES - {InfoType.CREDIT_CARD})
NO_ADDRESSES = detectors_for(DEFAULT_TYPES - {InfoType.IP_ADDRESS})

NUMBERS = st.one_of(
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    cards().filter(str.isdigit),
)


@given(st.lists(NUMBERS, min_size=1))
def test_masked_number_is_unchanged_or_its_last_four_digits(texts: list[str]) -> None:
    found = mask_numbers(ALL, [text.encode() for text in texts], Hits())
    for old, new in zip(texts, found or [], strict=False):
        assert Decimal(new.decode()) == Decimal(old) or Decimal(new.decode()) == int(old[-4:])


def test_masked_card_number_keeps_its_last_four_digits_and_its_length() -> None:
    hits = Hits()
    assert mask_numbers(ALL, [b"7", b"4111111111111111", b"4111111111111112"], hits) == [
        b"7",
        b"0000000000001111",
        b"4111111111111112",
    ]
    assert hits == Hits({InfoType.CREDIT_CARD: 1}, 16)


@pytest.mark.parametrize(
    "text", [b"4111111111111112", b"-4111111111111111", b"4111111111111111.0", b"2125550142", b"NaN", b""]
)
def test_numbers_that_are_not_card_numbers_stay_unchanged(text: bytes) -> None:
    assert mask_numbers(ALL, [text], Hits()) is None


def test_card_numbers_stay_unchanged_without_the_credit_card_type() -> None:
    assert mask_numbers(NO_CARDS, [b"4111111111111111"], Hits()) is None


@given(st.lists(st.ip_addresses().map(str) | st.just("10.1.2.0/24") | st.just("2001:db8::/32"), min_size=1))
def test_masked_address_is_the_unspecified_address_of_its_version(texts: list[str]) -> None:
    found = mask_addresses(ALL, [text.encode() for text in texts], Hits()) or [text.encode() for text in texts]
    for old, new in zip(texts, found, strict=True):
        assert ip_interface(new.decode()).version == ip_interface(old).version
        assert int(ip_interface(new.decode()).ip) == 0
    assert mask_addresses(ALL, found, Hits()) is None


@pytest.mark.parametrize("text", [b"08:00:2b:01:02:03", b"08:00:2b:01:02:03:04:05"])
def test_hardware_addresses_stay_unchanged(text: bytes) -> None:
    assert mask_addresses(ALL, [text], Hits()) is None


def test_addresses_stay_unchanged_without_the_ip_address_type() -> None:
    assert mask_addresses(NO_ADDRESSES, [b"10.0.0.1"], Hits()) is None


def test_numbers_in_a_column_named_like_their_type_become_zeros() -> None:
    hits = Hits()
    told = detectors_for(DEFAULT_TYPES, column="ssn")
    assert mask_numbers(told, [b"123456789", b"17", b"000123456"], hits) == [b"000000000", b"17", b"000123456"]
    assert hits == Hits({InfoType.US_SSN: 1}, 9)
    assert mask_numbers(ALL, [b"123456789"], Hits()) is None
