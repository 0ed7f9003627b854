"""Values that each detector masks, and similar texts that it must not change."""

from __future__ import annotations

import pytest

from postern.domain.rules.masking import DEFAULT_TYPES, InfoType
from postern.inspection.masking.detectors import detectors_for
from postern.inspection.masking.joined_texts import Hits, mask_text

ALL = detectors_for(DEFAULT_TYPES)

MASKED = [
    # e-mail addresses
    ("ann@example.com", "****@****"),
    ("Ann Lee <ann.lee+news@mail.example.co.uk>", "Ann Lee <****@****>"),
    ("mailto:ann@example.com.", "mailto:****@****."),
    ("o'brien@example.com", "****@****"),
    ("insert into t values ('ann@example.com')", "insert into t values ('****@****')"),
    ("jürgen@müller.de", "****@****"),
    ("ann@xn--mller-kva.xn--p1ai", "****@****"),
    ("x\tann@example.com\tbob@example.org\n", "x\t****@****\t****@****\n"),
    ("{ann@example.com,bob@example.org}", "{****@****,****@****}"),
    ("(user)=(ann@example.com)", "(user)=(****@****)"),
    # cards
    ("4111111111111111", "************1111"),
    ("4111 1111 1111 1111", "************1111"),
    ("4111-1111-1111-1111", "************1111"),
    ("378282246310005", "************0005"),
    ("3782 822463 10005", "************0005"),
    ("5555555555554444", "************4444"),
    ("2223003122003222", "************3222"),
    ("6011111111111117", "************1117"),
    ("30569309025904", "************5904"),
    ("3530111333300000", "************0000"),
    ("6200000000000005", "************0005"),
    ("card 4111 1111 1111 1111 123 of 12/27", "card ************1111 123 of 12/27"),
    ("items 1234 4111 1111 1111 1111", "items 1234 ************1111"),
    ("pan=4111111111111111;", "pan=************1111;"),
    ("log:\\n4111111111111111", "log:\\n************1111"),
    # social security numbers
    ("123-45-6789", "***-**-****"),
    ("ssn: 123 45 6789.", "ssn: ***-**-****."),
    ("899-99-9999", "***-**-****"),
    # telephone numbers
    ("+1 (212) 555-0142", "***-***-****"),
    ("(212) 555-0142", "***-***-****"),
    ("(212)5550142", "***-***-****"),
    ("tel(212)555-0142", "tel***-***-****"),
    ("212-555-0142", "***-***-****"),
    ("212.555.0142", "***-***-****"),
    ("212 555 0142", "***-***-****"),
    ("1-800-555-0199", "***-***-****"),
    ("+442079460958", "***-***-****"),
    ("+49 (0)30 901820", "***-***-****"),
    ("020 7946 0958", "***-***-****"),
    ("01 23 45 67 89", "***-***-****"),
    ("030 12345678", "***-***-****"),
    ("03-1234-5678", "***-***-****"),
    ("020 7946 0958 17 items", "***-***-**** 17 items"),
    ("call 212-555-0142 or +33 1 23 45 67 89!", "call ***-***-**** or ***-***-****!"),
    # bank accounts
    ("DE89370400440532013000", "DE****3000"),
    ("DE89 3704 0044 0532 0130 00", "DE****3000"),
    ("GB82 WEST 1234 5698 7654 32 is it", "GB****5432 is it"),
    ("no9386011117947", "NO****7947"),
    ("AB12 GB82WEST12345698765432", "AB12 GB****5432"),
    # addresses
    ("192.168.1.17", "***.***.***.***"),
    ("10.0.0.1:5432", "***.***.***.***:5432"),
    ("10.0.0.0/8", "***.***.***.***/8"),
    ("from 10.0.0.1.", "from ***.***.***.***."),
    ("fe80::1ff:fe23:4567:890a", "***.***.***.***"),
    ("[2001:db8::1]:443", "[***.***.***.***]:443"),
    ("2001:0db8:0000:0000:0000:ff00:0042:8329", "***.***.***.***"),
    ("::ffff:192.0.2.128", "***.***.***.***"),
    ("address: ::1", "address: ***.***.***.***"),
]

LEFT_ALONE = [
    "",
    "2024-01-31",
    "2024-01-31 12:34:56.123456+00:00",
    "2024-01-31T12:34:56Z",
    "01-02-2023 10:00",
    "01/02/2023 10:00",
    "01 02 2023 10:00",
    "31.12.2023",
    "20240131123456",
    "12:34:56",
    "1700000000",
    "1700000000000",
    "+02:00",
    "1.2.3",
    "v1.2.3.4",
    "1.2.3.4.5",
    "PostgreSQL 15.4 (Debian 15.4-1.pgdg120+1)",
    "1.3.6.1.4.1.311.21.20",
    "550e8400-e29b-41d4-a716-446655440000",
    "12345678-1234-1234-1234-123456789012",
    "d41d8cd98f00b204e9800998ecf8427e",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "43:51:43:a1:b5:fc:8b:b7:0a:3a:a9:b1:0f:66:73:a8",
    "08:00:2b:01:02:03",
    "08-00-2b-01-02-03",
    "00:1A:2B:3C:4D:5E:6F:70",
    "00-11-22-33-44-55",
    "01-11-22-33-44-55",
    "ORD-2024-000123",
    "order 1234567890",
    "2125550142",
    "4111111111111112",
    "1234567812345678",
    "0000000000000000",
    "9999 9999 9999 9999",
    "x4111111111111111",
    "4111111111111111x",
    "411111111111111111111111111111",
    "000-12-3456",
    "666-12-3456",
    "900-12-3456",
    "123-00-4567",
    "123-45-0000",
    "123456789",
    "3.141592653589793",
    "12345.678901",
    "-122.419416 37.774929",
    "1,234,567.89",
    "1e+12345678",
    "978-0-306-40615-7",
    "0-306-40615-2",
    "192.168.1.256",
    "256.1.1.1",
    "DE89370400440532013001",
    "DE8937040044053201300",
    "XX89370400440532013000",
    "std::dec",
    "a::b",
    "'5'::text",
    "a @ b.com",
    "@example.com",
    "ann@localhost",
    "user@",
    "50% off @ 3 shops",
    "aspect 16:9, ratio 4:3",
    "{1,2,3}",
    "room 101-202-303",
]


@pytest.mark.parametrize(("text", "wanted"), MASKED)
def test_values_of_the_default_types_are_masked(text: str, wanted: str) -> None:
    found = mask_text(ALL, text.encode(), Hits())
    assert found is not None
    assert found.decode() == wanted


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_text_that_resembles_a_value_stays_unchanged(text: str) -> None:
    assert mask_text(ALL, text.encode(), Hits()) is None


OF_EACH = {
    InfoType.EMAIL_ADDRESS: "ann@example.com",
    InfoType.CREDIT_CARD: "4111111111111111",
    InfoType.US_SSN: "123-45-6789",
    InfoType.PHONE_NUMBER: "212-555-0142",
    InfoType.IBAN_CODE: "DE89370400440532013000",
    InfoType.IP_ADDRESS: "192.168.1.17",
}


@pytest.mark.parametrize("kind", OF_EACH)
def test_only_the_requested_information_type_is_masked(kind: InfoType) -> None:
    text = ", ".join(OF_EACH.values())
    hits = Hits()
    found = mask_text(detectors_for(frozenset({kind})), text.encode(), hits)
    assert found is not None
    assert hits.counts == {kind: 1}
    assert hits.size == len(OF_EACH[kind])
    for other, value in OF_EACH.items():
        assert (value in found.decode()) == (other is not kind)
