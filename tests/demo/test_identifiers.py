"""The made-up identifiers must be ones that a masking validator accepts, and ones that belong to nobody."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from stdnum import iban, luhn
from stdnum.us import ssn

from postern.demo import identifiers, shop

SERIALS = range(1, 600)
DOCUMENTATION = [ip_network(net) for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")]


@pytest.mark.parametrize("digits", ["7992739871", "411111111111111", "37828224631000"])
def test_luhn_digit_agrees_with_a_library(digits: str) -> None:
    assert identifiers.luhn_digit(digits) == luhn.calc_check_digit(digits)


def test_cards_pass_luhn_and_are_in_test_ranges() -> None:
    for serial in SERIALS:
        number = identifiers.card(serial).replace(" ", "")
        assert luhn.is_valid(number)
        assert len(number) == (15 if number.startswith("37") else 16)
        assert number.startswith(identifiers.CARD_PREFIXES)


def test_ibans_have_valid_check_digits_and_banks_that_do_not_exist() -> None:
    for serial in SERIALS:
        number = identifiers.iban(serial)
        assert iban.is_valid(number, check_country=False)
        assert number[4:8] == "TEST" or number[4:12] == "12345678"
        assert len(number) == {"GB": 22, "NL": 18, "DE": 22}[number[:2]]


def test_social_security_numbers_are_well_formed() -> None:
    assert all(ssn.is_valid(identifiers.ssn(serial)) for serial in SERIALS)


def test_phones_are_kept_for_fiction() -> None:
    for serial in SERIALS:
        digits = "".join(filter(str.isdigit, identifiers.phone(serial)))
        assert digits[-7:-4] == "555"
        assert 100 <= int(digits[-4:]) <= 199


def test_addresses_and_mail_domains_are_kept_for_documentation() -> None:
    for serial in SERIALS:
        address = ip_address(identifiers.address(serial))
        assert any(address in net for net in DOCUMENTATION if net.version == address.version)
        assert identifiers.email("A", "B", serial).split("@")[1] in ("example.com", "example.org", "example.net")


def test_every_shape_of_each_identifier_occurs_in_the_shop() -> None:
    customers = shop.tables()[0]
    assert len({row[2] for row in customers.rows}) == len(customers.rows) == shop.CUSTOMERS
    cards = [row[5] for row in customers.rows]
    assert any(" " in card for card in cards)
    assert any(len(card) == 15 for card in cards)
    assert len({row[7] for row in customers.rows}) == shop.CUSTOMERS


def test_the_shop_is_the_same_every_time() -> None:
    assert shop.tables() == shop.tables()
    first = shop.tables()[0].rows[0]
    assert first[1:4] == ("Hana Dale", "hana.dale1@example.org", "+1 212 555 0137")
