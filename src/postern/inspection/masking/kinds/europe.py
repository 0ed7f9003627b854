"""Personal identifiers of European countries."""

from __future__ import annotations

from collections import Counter

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import Detector
from postern.inspection.masking.kinds.card import has_check_digit
from postern.inspection.masking.kinds.checksums import all_same, is_day, mod_11_10, weighted_sum
from postern.inspection.masking.kinds.making import number_form

_ZERO = ord("0")
_SPAIN = b"TRWAGMYFPDXBNJZSQVHLCKE"
_FINLAND = b"0123456789ABCDEFHJKLMNPRSTUVWXY"
_ITALY_ODD = dict(
    zip(
        b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (
            1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 1, 0, 5, 7, 9, 13, 15, 17,
            19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23,
        ),
        strict=True,
    )
)  # fmt: skip
_ITALY_EVEN = {code: int(chr(code)) if code < 65 else code - 65 for code in _ITALY_ODD}
_ITALY_DIGITS = bytes.maketrans(b"LMNPQRSTUV", b"0123456789")  # stand for digits if two people would have the same code
_ITALY_MONTHS = b"ABCDEHLMPRST"


def _days(digits: bytes) -> bool:
    """Return whether YYMMDD is a date of some century."""
    return is_day(int(digits[:2]), int(digits[2:4]), int(digits[4:6]))


def is_nhs_number(digits: bytes) -> bool:
    check = 11 - weighted_sum(digits, (10, 9, 8, 7, 6, 5, 4, 3, 2)) % 11
    return check % 11 == digits[9] - _ZERO and not all_same(digits)


def is_nino(nino: bytes) -> bool:
    return nino[:2] not in (b"BG", b"GB", b"KN", b"NK", b"NT", b"TN", b"ZZ")


def is_nif(nif: bytes) -> bool:
    return _SPAIN[int(nif[:8]) % 23] == nif[8]


def is_nie(nie: bytes) -> bool:
    return _SPAIN[(b"XYZ".index(nie[0]) * 10_000_000 + int(nie[1:8])) % 23] == nie[8]


def is_fiscal_code(code: bytes) -> bool:
    """Check the letters of a name, the date of birth (40 days later for women), the place, and the check letter."""
    total = sum((_ITALY_EVEN if place % 2 else _ITALY_ODD)[sign] for place, sign in enumerate(code[:15]))
    if total % 26 != code[15] - 65:
        return False
    day = int(code[9:11].translate(_ITALY_DIGITS)) % 40
    year = int(code[6:8].translate(_ITALY_DIGITS))
    return is_day(year, _ITALY_MONTHS.index(code[8]) + 1, day)


def is_vat_code(digits: bytes) -> bool:
    return has_check_digit(digits[-11:]) and not all_same(digits[-11:])


def is_pesel(digits: bytes) -> bool:
    """Check the date, whose month includes the century in steps of 20, and the check digit."""
    if weighted_sum(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10:
        return False
    return is_day(int(digits[:2]), int(digits[2:4]) % 20, int(digits[4:6]))


def is_finnish_code(code: bytes) -> bool:
    """Check `131052-308T` without its hyphen, or with another century sign."""
    digits, check = code[:6] + code[-4:-1], code[-1]
    return is_day(int(code[4:6]), int(code[2:4]), int(code[:2])) and _FINLAND[int(digits) % 31] == check


def is_personnummer(digits: bytes) -> bool:
    """Check a personal number. Those of temporary residents have days that are 60 later."""
    ten = digits[-10:]
    day = int(ten[4:6])
    return has_check_digit(ten) and is_day(int(ten[:2]), int(ten[2:4]), day - 60 if day > 60 else day)


def is_fodselsnummer(digits: bytes) -> bool:
    """Check a birth number. Those of temporary residents have days that are 40 later."""
    day, month = int(digits[:2]), int(digits[2:4])
    if not is_day(int(digits[4:6]), month, day - 40 if day > 40 else day):
        return False
    first = weighted_sum(digits, (3, 7, 6, 1, 8, 9, 4, 5, 2, 1)) % 11
    return first == 0 and weighted_sum(digits, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0


def is_german_tax_id(digits: bytes) -> bool:
    """Check the digits: one of the first ten occurs two or three times, the others at most once."""
    times = sorted(Counter(digits[:10]).values(), reverse=True)
    return times[0] in (2, 3) and times[1] == 1 and mod_11_10(digits)


def is_nir(nir: bytes) -> bool:
    """Check sex, year, month, department, commune, order, and the key by mod 97. Corsica's letters count as 19 and
    18.
    """
    month = int(nir[3:5])
    if not (1 <= month <= 12 or 20 <= month <= 42 or 50 <= month <= 99):
        return False
    number = nir[:13].replace(b"2A", b"19").replace(b"2B", b"18")
    return number.isdigit() and 97 - int(number) % 97 == int(nir[13:])


def is_bsn(digits: bytes) -> bool:
    return weighted_sum(digits, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0 and not all_same(digits)


def is_belgian_number(digits: bytes) -> bool:
    """Check the key by mod 97, with a leading 2 for births since 2000. Months of temporary residents are 20 or 40
    later.
    """
    month, key = int(digits[2:4]) % 20, int(digits[9:])
    if not is_day(int(digits[:2]), month, int(digits[4:6])):
        return False
    return key in (97 - int(digits[:9]) % 97, 97 - int(b"2" + digits[:9]) % 97)


def is_ahv(digits: bytes) -> bool:
    return weighted_sum(digits, (1, 3) * 6 + (1,)) % 10 == 0


def is_turkish_number(digits: bytes) -> bool:
    tenth = weighted_sum(digits, (7, -1, 7, -1, 7, -1, 7, -1, 7)) % 10
    return tenth == digits[9] - _ZERO and weighted_sum(digits, (1,) * 10) % 10 == digits[10] - _ZERO


UK_NHS = Detector(
    InfoType.UK_NHS,
    (
        number_form(rb"\d\d\d \d{3} \d{4}", 0.65, is_nhs_number),
        number_form(rb"\d\d\d-\d{3}-\d{4}", 0.4, is_nhs_number),
        number_form(rb"\d\d{9}", 0.3, is_nhs_number),
    ),
    words="nhs, nhs number, nhs no, national health, health service, patient number",
)
UK_NINO = Detector(
    InfoType.UK_NINO,
    (number_form(rb"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D]", 0.8, is_nino),),
    words="nino, national insurance, ni number, ni no, insurance number",
)
ES_NIF = Detector(
    InfoType.ES_NIF,
    (number_form(rb"\d\d{7}-?[A-HJ-NP-TV-Z]", 0.8, is_nif),),
    words="nif, dni, documento nacional, identificacion fiscal",
)
ES_NIE = Detector(
    InfoType.ES_NIE,
    (number_form(rb"[XYZ]-?\d{7}-?[A-HJ-NP-TV-Z]", 0.85, is_nie),),
    words="nie, extranjero, identificacion de extranjero",
)
_CF_DIGIT = rb"[0-9LMNP-V]"
IT_FISCAL_CODE = Detector(
    InfoType.IT_FISCAL_CODE,
    (
        number_form(
            rb"[A-Z][A-Z]{5}" + _CF_DIGIT * 2 + rb"[ABCDEHLMPRST]" + _CF_DIGIT * 2 + rb"[A-Z]" + _CF_DIGIT * 3
            + rb"[A-Z]", 0.95, is_fiscal_code,
        ),
    ),
    words="codice fiscale, fiscal code, cf, tax code",
)  # fmt: skip
IT_DRIVER_LICENSE = Detector(
    InfoType.IT_DRIVER_LICENSE,
    (number_form(rb"[A-Z](?:[A-Z]\d{7}|1[0-9A-Z]\d{6})[A-Z]", 0.3),),
    words="patente, patente di guida, driver license, drivers license, driving licence, licenza",
)
IT_VAT_CODE = Detector(
    InfoType.IT_VAT_CODE,
    (number_form(rb"[I]T ?\d{11}", 0.8, is_vat_code), number_form(rb"\d\d{10}", 0.3, is_vat_code)),
    words="partita iva, p iva, piva, vat, vat number, vat code",
)
IT_PASSPORT = Detector(
    InfoType.IT_PASSPORT, (number_form(rb"[A-Z][A-Z] ?\d{7}", 0.2),), words="passaporto, passport, passport number"
)
IT_IDENTITY_CARD = Detector(
    InfoType.IT_IDENTITY_CARD,
    (number_form(rb"[A-Z][A-Z] ?\d{5} ?[A-Z]{2}", 0.3), number_form(rb"[A-Z][A-Z] ?\d{7}", 0.2)),
    words="carta d'identita, carta identita, carta di identita, identity card, cie, id card",
)
PL_PESEL = Detector(InfoType.PL_PESEL, (number_form(rb"\d\d{10}", 0.4, is_pesel),), words="pesel")
FI_PERSONAL_IDENTITY_CODE = Detector(
    InfoType.FI_PERSONAL_IDENTITY_CODE,
    (number_form(rb"[0-3]\d{5}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y]", 0.9, is_finnish_code),),
    words="hetu, henkilotunnus, personal identity code, personbeteckning",
)
SE_PERSONNUMMER = Detector(
    InfoType.SE_PERSONNUMMER,
    (
        number_form(rb"\d\d(?:\d\d)?[01]\d[0-9]\d[-+]\d{4}", 0.7, is_personnummer),
        number_form(rb"[12][90]\d\d[01]\d[0-9]\d{5}", 0.45, is_personnummer),
        number_form(rb"\d\d[01]\d[0-9]\d{5}", 0.3, is_personnummer),
    ),
    words="personnummer, pnr, personnr, samordningsnummer",
)
NO_FODSELSNUMMER = Detector(
    InfoType.NO_FODSELSNUMMER,
    (number_form(rb"[0-7]\d{5} \d{5}", 0.8, is_fodselsnummer), number_form(rb"[0-7]\d{10}", 0.6, is_fodselsnummer)),
    words="fodselsnummer, fnr, personnummer, d nummer",
)
DE_TAX_ID = Detector(
    InfoType.DE_TAX_ID,
    (
        number_form(rb"[1-9]\d \d{3} \d{3} \d{3}", 0.75, is_german_tax_id),
        number_form(rb"[1-9]\d{10}", 0.4, is_german_tax_id),
    ),
    words="steuer id, steuerid, idnr, steuernummer, steueridentifikationsnummer, tax id, tin, identifikationsnummer",
)
_NIR_PARTS = (rb"[1-478]", rb"\d\d", rb"\d\d", rb"(?:\d\d|2[AB])", rb"\d{3}", rb"\d{3}", rb"\d\d")
FR_NIR = Detector(
    InfoType.FR_NIR,
    (number_form(b" ".join(_NIR_PARTS), 0.95, is_nir), number_form(b"".join(_NIR_PARTS), 0.8, is_nir)),
    words="nir, securite sociale, insee, numero de securite sociale, secu",
)
NL_BSN = Detector(
    InfoType.NL_BSN,
    (number_form(rb"\d\d{8}", 0.3, is_bsn), number_form(rb"\d\d{3}[.]\d\d[.]\d{3}", 0.6, is_bsn)),
    words="bsn, burgerservicenummer, sofinummer, citizen service number",
)
BE_NATIONAL_NUMBER = Detector(
    InfoType.BE_NATIONAL_NUMBER,
    (
        number_form(rb"\d\d\.\d\d\.\d\d-\d{3}\.\d\d", 0.95, is_belgian_number),
        number_form(rb"\d\d\d{9}", 0.45, is_belgian_number),
    ),
    words="rijksregisternummer, registre national, rrn, niss, insz, national number",
)
CH_AHV = Detector(
    InfoType.CH_AHV,
    (number_form(rb"[7]56\.\d{4}\.\d{4}\.\d\d", 0.95, is_ahv), number_form(rb"[7]56\d{10}", 0.7, is_ahv)),
    words="ahv, avs, ahv nummer, sozialversicherungsnummer",
)
TR_ID_NUMBER = Detector(
    InfoType.TR_ID_NUMBER,
    (number_form(rb"[1-9]\d{10}", 0.45, is_turkish_number),),
    words="tckn, tc kimlik, kimlik, tc no, kimlik no",
)
