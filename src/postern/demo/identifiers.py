"""Well-formed identifiers that belong to nobody, for a shop's data about its customers.

Sources: telephone numbers 555-0100 to 555-0199 are reserved for fiction in North America; example.com, .net and .org
are reserved (RFC 2606); 192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24 and 2001:db8::/32 are for documentation (RFC
5737, RFC 3849); the card prefixes are those of the payment networks' published test numbers.
"""

from __future__ import annotations

CARD_PREFIXES = ("41111111", "42424242", "55555555", "37828224", "60111111")
AREA_CODES = (202, 212, 303, 312, 404, 415, 503, 512, 617, 702, 713, 808)
MAIL_DOMAINS = ("example.com", "example.org", "example.net")
NETWORKS = ("192.0.2", "198.51.100", "203.0.113")


def luhn_digit(digits: str) -> str:
    """Return the check digit that makes `digits` a valid card number (ISO/IEC 7812-1)."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def card(serial: int) -> str:
    """Return a card number: 15 digits for the 37… prefix, 16 for the others; every third one in groups of four."""
    prefix = CARD_PREFIXES[serial % len(CARD_PREFIXES)]
    length = 15 if prefix.startswith("37") else 16
    body = prefix + str(serial * 7919 % 10 ** (length - 9)).zfill(length - 9)
    number = body + luhn_digit(body)
    if serial % 3 == 0 and length == 16:
        return " ".join(number[at : at + 4] for at in range(0, 16, 4))
    return number


def phone(serial: int) -> str:
    area, line = AREA_CODES[serial % len(AREA_CODES)], 100 + serial * 37 % 100
    shapes = ("({0}) 555-{1:04}", "+1 {0} 555 {1:04}", "{0}-555-{1:04}", "+1-{0}-555-{1:04}")
    return shapes[serial % len(shapes)].format(area, line)


def ssn(serial: int) -> str:
    """Return a social security number: area numbers from 880 up were never assigned by place; group and serial are
    counted."""
    return f"{880 + serial % 20}-{1 + serial * 13 % 99:02}-{1 + serial * 7907 % 9999:04}"


def iban(serial: int) -> str:
    """Return an account number with valid check digits (ISO 13616), of a bank that does not exist: bank code TEST, or
    12345678 in Germany."""
    number = str(serial * 104_729 % 10**9).zfill(10)
    country, account = (
        ("GB", f"TEST{number:0>14}"),
        ("NL", f"TEST{number}"),
        ("DE", f"12345678{number}"),
    )[serial % 3]
    return f"{country}{iban_check(country, account)}{account}"


def iban_check(country: str, account: str) -> str:
    """Return the two check digits, by the remainder of 97 (ISO 13616)."""
    digits = "".join(str(int(char, 36)) for char in f"{account}{country}00")
    return f"{98 - int(digits) % 97:02}"


def address(serial: int) -> str:
    if serial % 5 == 0:
        return f"2001:db8::{serial:x}"
    return f"{NETWORKS[serial % len(NETWORKS)]}.{1 + serial * 11 % 254}"


def email(first_name: str, family: str, serial: int) -> str:
    domain = MAIL_DOMAINS[serial % len(MAIL_DOMAINS)]
    return f"{first_name}.{family}{serial}@{domain}".lower()
