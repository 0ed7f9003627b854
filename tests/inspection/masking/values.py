"""Hypothesis strategies for valid values of each information type and for similar texts."""

from __future__ import annotations

import ipaddress
import string
from collections.abc import Callable

from hypothesis import strategies as st

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.kinds.iban import LENGTHS

Draw = st.DrawFn


def digits(length: int) -> st.SearchStrategy[str]:
    return st.text(string.digits, min_size=length, max_size=length)


def luhn_digit(body: str) -> str:
    total = 0
    for place, character in enumerate(reversed(body)):
        value = int(character) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


CARD_ISSUERS = [("4", 16), ("51", 16), ("55", 16), ("2221", 16), ("2720", 16), ("34", 15), ("37", 15), ("6011", 16)]
CARD_ISSUERS += [("36", 14), ("305", 14), ("3528", 16), ("3589", 16), ("62", 19), ("2200", 16), ("4", 13), ("6759", 12)]
GROUPS = {16: (4, 4, 4, 4), 15: (4, 6, 5), 14: (4, 6, 4), 19: (4, 4, 4, 4, 3)}


@st.composite
def cards(draw: Draw) -> str:
    prefix, length = draw(st.sampled_from(CARD_ISSUERS))
    body = prefix + draw(digits(length - len(prefix) - 1))
    number = body + luhn_digit(body)
    separator = draw(st.sampled_from(["", " ", "-"]))
    if length not in GROUPS:
        return number
    parts = []
    for size in GROUPS[length]:
        parts.append(number[:size])
        number = number[size:]
    return separator.join(parts)


@st.composite
def emails(draw: Draw) -> str:
    label = st.text(string.ascii_letters + string.digits + "é", min_size=1, max_size=6)
    local = draw(st.text(string.ascii_letters + string.digits + "._%+-é=", min_size=1, max_size=12))
    domain = ".".join(draw(st.lists(label, min_size=1, max_size=3)))
    top = draw(st.text(string.ascii_lowercase, min_size=2, max_size=6))
    return f"{local}@{domain}.{top}"


@st.composite
def ssns(draw: Draw) -> str:
    area = draw(st.integers(1, 899).filter(lambda number: number != 666))
    separator = draw(st.sampled_from("- "))
    return separator.join((f"{area:03}", f"{draw(st.integers(1, 99)):02}", f"{draw(st.integers(1, 9999)):04}"))


@st.composite
def phones(draw: Draw) -> str:
    area = draw(st.integers(200, 999))
    exchange, line = draw(digits(3)), draw(digits(4))
    separator = draw(st.sampled_from(" .-"))
    local = draw(st.text("123456789", min_size=6, max_size=8))
    return draw(
        st.sampled_from(
            [
                f"{area}{separator}{exchange}{separator}{line}",
                f"({area}) {exchange}-{line}",
                f"1-{area}-{exchange}-{line}",
                f"+1 ({area}) {exchange}-{line}",
                f"+1{area}{exchange}{line}",
                f"+44 20 {exchange}1 {line}",
                f"+49 30/{local}",
                f"+33 1 23 45 67 {line[:2]}",
                f"020 7{exchange} {line}",
                f"01 23 45 67 {line[:2]}",
                f"(020) 7{exchange} {line}",
                f"0171/{local[:3]}{line}",
            ]
        )
    )


@st.composite
def ibans(draw: Draw) -> str:
    country, length = draw(st.sampled_from(sorted(LENGTHS.items())))
    body = draw(st.text(string.digits + string.ascii_uppercase, min_size=length - 4, max_size=length - 4))
    value = int("".join(str(int(character, 36)) for character in body + country.decode() + "00"))
    account = f"{country.decode()}{98 - value % 97:02}{body}"
    if draw(st.booleans()):
        account = " ".join(account[at : at + 4] for at in range(0, length, 4))
    return account if draw(st.booleans()) else account.lower()


@st.composite
def addresses(draw: Draw) -> str:
    if draw(st.booleans()):
        return str(draw(st.ip_addresses(v=4)))
    address = draw(st.ip_addresses(v=6))
    assert isinstance(address, ipaddress.IPv6Address)
    text = draw(st.sampled_from([address.compressed, address.exploded, address.compressed.upper()]))
    return text if len(text) >= 8 else "2001:db8::1"


TRUE_VALUES: dict[InfoType, Callable[[], st.SearchStrategy[str]]] = {
    InfoType.EMAIL_ADDRESS: emails,
    InfoType.CREDIT_CARD: cards,
    InfoType.US_SSN: ssns,
    InfoType.PHONE_NUMBER: phones,
    InfoType.IBAN_CODE: ibans,
    InfoType.IP_ADDRESS: addresses,
}

# The kinds that replace whole columns by short ways.
QUICK = frozenset(TRUE_VALUES)
ANY_VALUE = st.one_of([make() for make in TRUE_VALUES.values()])
# Text of the characters that values are made of, so that edges and overlaps are met often.
NEAR = st.text("0123456789 4-.+()/:@aex*\\n'\n,", max_size=24)
# Values, parts of them and what stands between, glued without care.
SOUP = st.lists(ANY_VALUE | NEAR | st.sampled_from(["****", "1.", "-4", " ", "::", "DE89", "\x00"]), max_size=6).map(
    "".join
)
ANY_TEXT = SOUP.map(str.encode) | st.binary(max_size=60)
