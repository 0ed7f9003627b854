"""Identifiers of people and companies in Asia, Africa and the Pacific."""

from __future__ import annotations

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import Detector
from postern.inspection.masking.kinds.card import has_check_digit
from postern.inspection.masking.kinds.checksums import all_same, is_day, verhoeff, weighted_sum
from postern.inspection.masking.kinds.making import number_form

_ZERO = ord("0")
_NRIC = {b"S": (0, b"JZIHGFEDCBA"), b"T": (4, b"JZIHGFEDCBA"), b"F": (0, b"XWUTRQPNMLK"), b"G": (4, b"XWUTRQPNMLK"),
         b"M": (3, b"XWUTRQPNJLK")}  # fmt: skip
_UEN = b"ABCDEFGHJKLMNPQRSTUVWX0123456789"
_STATES = (
    "AN AP AR AS BH BR CG CH DD DL DN GA GJ HP HR JH JK KA KL LA LD MH ML MN MP MZ NL OD OR PB PY RJ SK TN TR TS UA UK "
    "UP WB"
)
_INDIA = frozenset(code.encode() for code in _STATES.split())


def is_nric(nric: bytes) -> bool:
    offset, letters = _NRIC[nric[:1]]
    return letters[(weighted_sum(nric[1:8], (2, 7, 6, 5, 4, 3, 2)) + offset) % 11] == nric[8]


def is_uen(uen: bytes) -> bool:
    """Check the number of a business, of a company (year first), or of another entity (type in letters)."""
    if len(uen) == 9:
        return b"XMKECAWLJDB"[weighted_sum(uen[:8], (10, 4, 9, 3, 8, 2, 7, 1)) % 11] == uen[8]
    if uen[:1].isdigit():
        return b"ZKCMDNERGWH"[weighted_sum(uen[:9], (10, 8, 6, 4, 9, 7, 5, 3, 1)) % 11] == uen[9]
    total = sum(_UEN.index(code) * weight for code, weight in zip(uen[:9], (4, 3, 5, 3, 10, 2, 2, 5, 7), strict=True))
    return _UEN[(total - 5) % 11] == uen[9]


def is_abn(digits: bytes) -> bool:
    return (weighted_sum(digits, (10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19)) - 10) % 89 == 0


def is_acn(digits: bytes) -> bool:
    return weighted_sum(digits, (8, 7, 6, 5, 4, 3, 2, 1, 1)) % 10 == 0 and not all_same(digits)


def is_tfn(digits: bytes) -> bool:
    return weighted_sum(digits, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0 and not all_same(digits)


def is_medicare(digits: bytes) -> bool:
    return weighted_sum(digits, (1, 3, 7, 9, 1, 3, 7, 9)) % 10 == digits[8] - _ZERO and digits[9:10] != b"0"


def is_aadhaar(digits: bytes) -> bool:
    return verhoeff(digits) and digits != digits[::-1]


def is_registration(plate: bytes) -> bool:
    return plate[:2] in _INDIA


def is_resident_id(number: bytes) -> bool:
    """Check the place, the date of birth, and the check digit by ISO 7064, mod 11-2."""
    if not is_day(int(number[8:10]), int(number[10:12]), int(number[12:14])):
        return False
    total = weighted_sum(number[:17], (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2))
    return b"10X98765432"[total % 11] == number[17]


def is_rrn(digits: bytes) -> bool:
    if not is_day(int(digits[:2]), int(digits[2:4]), int(digits[4:6])):
        return False
    return (11 - weighted_sum(digits, (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)) % 11) % 10 == digits[12] - _ZERO


def begins_with_day(digits: bytes) -> bool:
    return is_day(int(digits[:2]), int(digits[2:4]), int(digits[4:6]))


def is_south_african(digits: bytes) -> bool:
    return begins_with_day(digits) and has_check_digit(digits)


SG_NRIC_FIN = Detector(
    InfoType.SG_NRIC_FIN, (number_form(rb"[STFGM]\d{7}[A-Z]", 0.8, is_nric),), words="nric, fin, nric fin, singpass"
)
SG_UEN = Detector(
    InfoType.SG_UEN,
    (
        number_form(rb"[RST]\d\d[A-Z]{2}\d{4}[A-Z]", 0.8, is_uen),
        number_form(rb"[12][089]\d{7}[A-Z]", 0.6, is_uen),
        number_form(rb"\d\d{7}[A-Z]", 0.45, is_uen),
    ),
    words="uen, unique entity, acra",
)
AU_ABN = Detector(
    InfoType.AU_ABN,
    (number_form(rb"[1-9]\d \d{3} \d{3} \d{3}", 0.8, is_abn), number_form(rb"[1-9]\d{10}", 0.45, is_abn)),
    words="abn, australian business",
)
AU_ACN = Detector(
    InfoType.AU_ACN,
    (number_form(rb"\d\d\d \d{3} \d{3}", 0.45, is_acn), number_form(rb"\d\d{8}", 0.3, is_acn)),
    words="acn, australian company",
)
AU_TFN = Detector(
    InfoType.AU_TFN,
    (number_form(rb"\d\d\d \d{3} \d{3}", 0.45, is_tfn), number_form(rb"\d\d{8}", 0.3, is_tfn)),
    words="tfn, tax file, tax file number",
)
AU_MEDICARE = Detector(
    InfoType.AU_MEDICARE,
    (number_form(rb"[2-6]\d{3} \d{5} \d", 0.65, is_medicare), number_form(rb"[2-6]\d{9}", 0.3, is_medicare)),
    words="medicare, medicare number, medicare card",
)
IN_PAN = Detector(
    InfoType.IN_PAN,
    (number_form(rb"[A-Z][A-Z]{2}[ABCFGHJLPT][A-Z]\d{4}[A-Z]", 0.8),),
    words="pan, pan no, pan card, permanent account",
)
IN_AADHAAR = Detector(
    InfoType.IN_AADHAAR,
    (
        number_form(rb"[2-9]\d{3}(?: \d{4} |-\d{4}-)\d{4}", 0.8, is_aadhaar),
        number_form(rb"[2-9]\d{11}", 0.4, is_aadhaar),
    ),
    words="aadhaar, aadhar, adhaar, uidai, uid number",
)
IN_VEHICLE_REGISTRATION = Detector(
    InfoType.IN_VEHICLE_REGISTRATION,
    (number_form(rb"[A-Z][A-Z][ -]?\d{1,2}[ -]?[A-Z]{1,3}[ -]?\d{4}", 0.55, is_registration),),
    words="vehicle, registration, number plate, license plate, licence plate, plate, rto, vehicle registration",
)
IN_VOTER = Detector(
    InfoType.IN_VOTER,
    (number_form(rb"[A-Z][A-Z]{2}\d{7}", 0.3),),
    words="voter, voter id, epic, epic no, elector, election",
)
IN_PASSPORT = Detector(
    InfoType.IN_PASSPORT,
    (number_form(rb"[A-PR-WY][1-9]\d ?\d{4}[1-9]", 0.3),),
    words="passport, passport no, passport number",
)
CN_RESIDENT_ID = Detector(
    InfoType.CN_RESIDENT_ID,
    (number_form(rb"[1-8]\d{5}(?:19|20)\d{9}[0-9Xx]", 0.9, is_resident_id),),
    words="resident id, shenfenzheng, id card, identity card",
)
KR_RRN = Detector(
    InfoType.KR_RRN,
    (
        number_form(rb"\d\d[01]\d[0-3]\d-[1-8]\d{6}", 0.8, is_rrn),
        number_form(rb"\d\d[01]\d[0-3]\d-[1-8]\d{6}", 0.45, begins_with_day),  # since 2020 without check digit
        number_form(rb"\d\d[01]\d[0-3]\d[1-8]\d{6}", 0.4, is_rrn),
    ),
    words="rrn, resident registration, jumin",
)
ZA_ID_NUMBER = Detector(
    InfoType.ZA_ID_NUMBER,
    (number_form(rb"\d\d[01]\d[0-3]\d{5}[0-2][89]\d", 0.7, is_south_african),),
    words="south african id, sa id, id number, identity number, id no",
)
