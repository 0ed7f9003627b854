"""Personal identifiers of American countries, and medical numbers of the United States."""

from __future__ import annotations

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import Detector
from postern.inspection.masking.kinds.card import has_check_digit
from postern.inspection.masking.kinds.checksums import all_same, is_day, two_digits_mod_11, weighted_sum
from postern.inspection.masking.kinds.making import number_form

_ITIN_GROUPS = frozenset((*range(50, 66), *range(70, 89), *range(90, 93), *range(94, 100)))


def is_itin(digits: bytes) -> bool:
    return int(digits[3:5]) in _ITIN_GROUPS


def is_sin(digits: bytes) -> bool:
    return digits[:1] not in b"08" and has_check_digit(digits)


def is_cpf(digits: bytes) -> bool:
    return two_digits_mod_11(digits, 11) and not all_same(digits)


def is_cnpj(digits: bytes) -> bool:
    return two_digits_mod_11(digits, 14) and not all_same(digits)


def is_curp(curp: bytes) -> bool:
    """Check the date of birth, and the check digit over letters of the Spanish alphabet."""
    if not is_day(int(curp[4:6]), int(curp[6:8]), int(curp[8:10])):
        return False
    total = sum(_CURP.index(code) * (18 - place) for place, code in enumerate(curp[:17]))
    return -total % 10 == int(curp[17:])


def is_rut(rut: bytes) -> bool:
    total = sum((digit - 48) * (2 + place % 6) for place, digit in enumerate(reversed(rut[:-1])))
    return b"0K987654321"[total % 11] == rut[-1]


def is_cuit(digits: bytes) -> bool:
    check = 11 - weighted_sum(digits, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return b"012345678990"[check] == digits[10] and not all_same(digits)


def is_dea_number(number: bytes) -> bool:
    digits = number[2:]
    total = weighted_sum(digits[:6:2], (1, 1, 1)) + 2 * weighted_sum(digits[1:6:2], (1, 1, 1))
    return total % 10 == digits[6] - 48 and not all_same(digits)


def is_npi(digits: bytes) -> bool:
    return has_check_digit(b"80840" + digits)


_CURP = b"0123456789ABCDEFGHIJKLMN&OPQRSTUVWXYZ"

US_ITIN = Detector(
    InfoType.US_ITIN,
    (number_form(rb"9\d\d(?:-\d\d-| \d\d )\d{4}", 0.7, is_itin), number_form(rb"9\d{8}", 0.3, is_itin)),
    words="itin, taxpayer, tax id, tin, individual taxpayer",
)
US_PASSPORT = Detector(
    InfoType.US_PASSPORT,
    (
        number_form(rb"[A-Z]\d{8}", 0.3),
        number_form(rb"\d\d{8}", 0.15, lambda digits: not all_same(digits)),
    ),
    words="passport, passport no, passport number, passports, travel document",
)
US_DRIVER_LICENSE = Detector(
    InfoType.US_DRIVER_LICENSE,
    (
        number_form(rb"[A-Z](?:\d{3,14}|[A-Z]\d{3,7}|\d{3}-\d{4}-\d{4}|\d{3}-\d{3}-\d\d-\d{3}-\d)", 0.25),
        number_form(rb"\d\d{6,11}", 0.15),
    ),
    words=(
        "driver license, drivers license, driver's license, driver licence, driving licence, driving license, dl, "
        "dl no, dl number, license number, licence number, license no, driver lic"
    ),
)
CA_SIN = Detector(
    InfoType.CA_SIN,
    (
        number_form(rb"[1-79]\d\d-\d{3}-\d{3}", 0.5, is_sin),
        number_form(rb"[1-79]\d\d \d{3} \d{3}", 0.45, is_sin),
        number_form(rb"[1-79]\d{8}", 0.3, is_sin),
    ),
    words="sin, social insurance, sin number, assurance sociale",
)
BR_CPF = Detector(
    InfoType.BR_CPF,
    (number_form(rb"\d\d\d\.\d{3}\.\d{3}-\d\d", 0.95, is_cpf), number_form(rb"\d\d{10}", 0.4, is_cpf)),
    words="cpf, cadastro de pessoa",
)
BR_CNPJ = Detector(
    InfoType.BR_CNPJ,
    (number_form(rb"\d\d\.\d{3}\.\d{3}/\d{4}-\d\d", 0.95, is_cnpj), number_form(rb"\d\d{13}", 0.4, is_cnpj)),
    words="cnpj",
)
MX_CURP = Detector(
    InfoType.MX_CURP, (number_form(rb"[A-Z][A-Z]{3}\d{6}[HMX][A-Z]{5}[0-9A-Z]\d", 0.95, is_curp),), words="curp"
)
CL_RUT = Detector(
    InfoType.CL_RUT,
    (
        number_form(rb"\d\d?\.\d{3}\.\d{3}-[\dkK]", 0.8, is_rut),
        number_form(rb"\d\d{6,7}-[\dkK]", 0.45, is_rut),
    ),
    words="rut, run, rol unico",
)
AR_CUIT = Detector(
    InfoType.AR_CUIT,
    (
        number_form(rb"[23](?:[03]|4|7)-\d{8}-\d", 0.8, is_cuit),
        number_form(rb"[23](?:[03]|4|7)\d{9}", 0.4, is_cuit),
    ),
    words="cuit, cuil, clave unica",
)
MEDICAL_LICENSE = Detector(
    InfoType.MEDICAL_LICENSE,
    (number_form(rb"[ABCDEFGHJKLMPRSTUX][A-Z9]\d{7}", 0.5, is_dea_number),),
    words="dea, dea number, medical license, medical licence, prescriber",
)
FDA_CODE = Detector(
    InfoType.FDA_CODE,
    (number_form(rb"\d(?:\d{3}-\d{4}-\d\d|\d{4}-\d{3}-\d\d|\d{4}-\d{4}-\d{1,2})", 0.3),),
    words="ndc, fda, drug, drug code, national drug code, medication, fda code",
)
US_NPI = Detector(
    InfoType.US_NPI,
    (number_form(rb"[12]\d{9}", 0.3, is_npi),),
    words="npi, national provider, provider number, provider id",
)
