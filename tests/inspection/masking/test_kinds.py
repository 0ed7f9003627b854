"""Check digits compared with python-stdnum, and values of each information type found by a column name."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType

import pytest
from bench.labelled.maker import Maker
from bench.labelled.names import TELLING
from bench.labelled.values import MAKERS
from stdnum import cusip, isin, luhn, verhoeff
from stdnum.ar import cuit
from stdnum.au import abn, acn, tfn
from stdnum.be import nn
from stdnum.br import cnpj, cpf
from stdnum.ca import sin
from stdnum.ch import ssn
from stdnum.cl import rut
from stdnum.de import idnr
from stdnum.es import dni, nie
from stdnum.fi import hetu
from stdnum.fr import nir
from stdnum.gb import nhs
from stdnum.iso7064 import mod_11_10
from stdnum.it import codicefiscale, iva
from stdnum.kr import rrn
from stdnum.mx import curp
from stdnum.nl import bsn
from stdnum.no import fodselsnummer
from stdnum.pl import pesel
from stdnum.sg import uen
from stdnum.tr import tckimlik
from stdnum.us import itin, rtn

from postern.domain.rules.masking import MODEL_TYPES, InfoType
from postern.inspection.masking.catalogue import ORDER
from postern.inspection.masking.detectors import detectors_for
from postern.inspection.masking.kinds import americas, asia_pacific, europe, finance
from postern.inspection.masking.kinds.checksums import verhoeff as is_verhoeff

Check = Callable[[bytes], bool]

# Where both judge the same: a kind to make values of, our check, the other's.
BESIDE: list[tuple[InfoType, Check, ModuleType]] = [
    (InfoType.AR_CUIT, americas.is_cuit, cuit),
    (InfoType.AU_ABN, asia_pacific.is_abn, abn),
    (InfoType.AU_ACN, asia_pacific.is_acn, acn),
    (InfoType.AU_TFN, asia_pacific.is_tfn, tfn),
    (InfoType.BE_NATIONAL_NUMBER, europe.is_belgian_number, nn),
    (InfoType.BR_CNPJ, americas.is_cnpj, cnpj),
    (InfoType.BR_CPF, americas.is_cpf, cpf),
    (InfoType.CA_SIN, americas.is_sin, sin),
    (InfoType.CH_AHV, europe.is_ahv, ssn),
    (InfoType.CL_RUT, americas.is_rut, rut),
    (InfoType.CUSIP, finance.is_cusip, cusip),
    (InfoType.DE_TAX_ID, europe.is_german_tax_id, idnr),
    (InfoType.ES_NIE, europe.is_nie, nie),
    (InfoType.ES_NIF, europe.is_nif, dni),
    (InfoType.FI_PERSONAL_IDENTITY_CODE, europe.is_finnish_code, hetu),
    (InfoType.FR_NIR, europe.is_nir, nir),
    (InfoType.ISIN, finance.is_isin, isin),
    (InfoType.IT_FISCAL_CODE, europe.is_fiscal_code, codicefiscale),
    (InfoType.IT_VAT_CODE, europe.is_vat_code, iva),
    (InfoType.KR_RRN, asia_pacific.is_rrn, rrn),
    (InfoType.MX_CURP, americas.is_curp, curp),
    (InfoType.NL_BSN, europe.is_bsn, bsn),
    (InfoType.NO_FODSELSNUMMER, europe.is_fodselsnummer, fodselsnummer),
    (InfoType.PL_PESEL, europe.is_pesel, pesel),
    (InfoType.SG_UEN, asia_pacific.is_uen, uen),
    (InfoType.TR_ID_NUMBER, europe.is_turkish_number, tckimlik),
    (InfoType.UK_NHS, europe.is_nhs_number, nhs),
    (InfoType.US_BANK_ROUTING, finance.is_routing_number, rtn),
    (InfoType.US_ITIN, americas.is_itin, itin),
]
SEPARATORS = str.maketrans("", "", " .-/")


def with_another_digit(chance: random.Random, value: str) -> str:
    places = [place for place, one in enumerate(value) if one.isdigit()]
    place = chance.choice(places)
    return value[:place] + chance.choice("0123456789") + value[place + 1 :]


@pytest.mark.parametrize(("kind", "check", "other"), BESIDE, ids=[str(kind) for kind, _, _ in BESIDE])
def test_check_accepts_valid_numbers_and_rejects_most_changed_digits(
    kind: InfoType, check: Check, other: ModuleType
) -> None:
    maker, passed = Maker(11), 0
    for _ in range(300):
        written = MAKERS[kind](maker)
        bare = written.translate(SEPARATORS)
        assert check(bare.encode()), written
        wrong = with_another_digit(maker.random, written)
        ours = check(wrong.translate(SEPARATORS).encode())
        # What the other also looks at, such as a day in the future, may only make it stricter.
        assert ours or not other.is_valid(wrong), wrong
        passed += ours and wrong != written
    assert passed < (300 if kind is InfoType.US_ITIN else 75)  # an ITIN has groups, and no check digit


@pytest.mark.parametrize(
    ("repeats", "is_valid"),
    [((), False), ((2,), True), ((3,), True), ((4,), False), ((2, 2), False), ((3, 2), False), ((3, 3), False)],
    ids=str,
)
def test_german_tax_id_repeats_exactly_one_digit(repeats: tuple[int, ...], is_valid: bool) -> None:
    """`repeats` lists the counts of the digits that occur more than once among the first ten."""
    chance = random.Random(7)
    for _ in range(100):
        digits = chance.sample("0123456789", 10)
        several = [digit for digit, count in zip(digits, repeats, strict=False) for _ in range(count)]
        first = several + digits[len(repeats) : len(repeats) + 10 - len(several)]
        chance.shuffle(first)
        if first[0] == "0":
            continue
        number = "".join(first) + mod_11_10.calc_check_digit("".join(first))
        assert europe.is_german_tax_id(number.encode()) == is_valid, number
        assert idnr.is_valid(number) == is_valid, number


def test_verhoeff_check_agrees_with_python_stdnum() -> None:
    chance = random.Random(3)
    for _ in range(300):
        number = "".join(chance.choices("0123456789", k=12))
        assert is_verhoeff(number.encode()) == verhoeff.is_valid(number)


def test_npi_check_is_the_luhn_check_with_prefix_80840() -> None:
    assert americas.is_npi(b"1234567893") == luhn.is_valid("808401234567893")


@pytest.mark.parametrize("kind", sorted(frozenset(InfoType) - MODEL_TYPES))
def test_whole_value_is_found_in_a_column_that_is_named_like_its_type(kind: InfoType) -> None:
    maker = Maker(5)
    around = {
        InfoType.URL_PASSWORD: "mysql://app:{}@db/x",
        InfoType.AUTHORIZATION_HEADER: "authorization: Bearer {}",
        InfoType.HTTP_COOKIE: "Cookie: {}",
    }
    for name in TELLING[kind][0]:
        detectors = detectors_for(frozenset({kind}), column=name)
        for _ in range(20):
            value = MAKERS[kind](maker)
            text = around.get(kind, "{}").format(value).encode()
            found = detectors.find(text)
            assert [text[one.start : one.end].decode() for one in found] == [value], name


def test_every_type_except_those_of_language_models_has_one_detector() -> None:
    assert sorted(detector.type for detector in ORDER) == sorted(frozenset(InfoType) - MODEL_TYPES)
    assert len(ORDER) >= 40


NEVER = [
    ("GB12 3456 78A", "UK_NINO"),  # no letters that are given out
    ("BG123456A", "UK_NINO"),
    ("123456789", "US_PASSPORT"),  # nothing tells it
    ("00-00-00", "DATE_TIME"),
    ("eyJub3QgYSB0b2tlbg", "JSON_WEB_TOKEN"),
    ("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "PRIVATE_KEY"),
    ("https://host:8080/path@here", "URL_PASSWORD"),
    ("https://example.com/?sig=1", "STORAGE_SIGNED_URL"),
    ("the bearer of this letter", "AUTHORIZATION_HEADER"),
    ("PASSWORD", "SWIFT_CODE"),
    ("1BoatSLRHtKNngkdXEeobR76b53LETtpyU", "CRYPTO"),
    ("550e8400-e29b-41d4-a716-446655440000", "US_BANK_NUMBER"),
    ("12.345.678/0001-00", "BR_CNPJ"),
    ("v1.23.45.67-890.12", "BE_NATIONAL_NUMBER"),
]


@pytest.mark.parametrize(("text", "kind"), NEVER)
def test_text_that_resembles_a_value_is_not_found(text: str, kind: str) -> None:
    assert detectors_for(frozenset({kind})).find(text.encode()) == []


def test_truncated_private_key_is_found_to_the_end_of_its_cell() -> None:
    text = b"-----BEGIN RSA PRIVATE KEY-----\nMIIEow0\nIBAAKC"
    found = detectors_for(frozenset({"PRIVATE_KEY"})).find(text + b"\x00next cell")
    assert [(one.start, one.end) for one in found] == [(0, len(text))]


def test_personnummer_of_a_person_over_100_is_found() -> None:
    detectors = detectors_for(frozenset({"SE_PERSONNUMMER"}))
    assert [(one.start, one.end) for one in detectors.find(b"born 121212+1212")] == [(5, 16)]
    assert detectors.find(b"born 121212+1213") == []


def test_detectors_do_not_raise_for_values_with_a_changed_character() -> None:
    """An error in one cell would deny the whole answer."""
    maker = Maker(11)
    types = frozenset(InfoType) - MODEL_TYPES
    for kind, make in MAKERS.items():
        detectors = detectors_for(types, column=TELLING[kind][0][0])
        value = make(maker)[:40]
        for place in range(len(value)):
            for other in "0A+ ":
                text = (value[:place] + other + value[place + 1 :]).encode()
                for one in detectors.find(text):
                    assert 0 <= one.start < one.end <= len(text)
