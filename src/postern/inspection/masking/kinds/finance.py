"""Numbers of securities, banks and cryptocurrencies, and magnetic tracks of cards."""

from __future__ import annotations

import hashlib
import re

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import (
    BEHIND_EDGE,
    NOT_BEFORE_WORD,
    Detector,
    found_form,
    leaping,
    starts_with,
)
from postern.inspection.masking.kinds.card import has_check_digit
from postern.inspection.masking.kinds.checksums import all_same, weighted_sum
from postern.inspection.masking.kinds.making import MASK, number_form, token_form

_CODES = (
    "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA "
    "CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA "
    "GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP "
    "KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS "
    "MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS "
    "RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW "
    "TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW"
)
COUNTRIES = frozenset(code.encode() for code in _CODES.split())


_BASE58 = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE58_VALUES = {code: value for value, code in enumerate(_BASE58)}
_BECH32 = {code: value for value, code in enumerate(b"qpzry9x8gf2tvdw0s3jn54khce6mua7l")}
_BECH32_POLYNOMIAL = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_BECH32_ENDS = (1, 0x2BC830A3)


def _is_base58_address(candidate: bytes) -> bool:
    """Check a version, a hash of twenty bytes, and the first bytes of a hash of both."""
    value = 0
    for code in candidate:
        value = value * 58 + _BASE58_VALUES[code]
    if value >= 1 << 200:
        return False
    data = value.to_bytes(25, "big")
    return hashlib.sha256(hashlib.sha256(data[:21]).digest()).digest()[:4] == data[21:]


def _is_bech32_address(candidate: bytes) -> bool:
    """Check an address by BIP 173 and 350."""
    check = 1
    values = [3, 3, 0, 2, 3, *(_BECH32.get(code, -1) for code in candidate.lower()[3:])]
    if -1 in values:
        return False
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, polynomial in enumerate(_BECH32_POLYNOMIAL):
            if top >> bit & 1:
                check ^= polynomial
    return check in _BECH32_ENDS


def _judge_base58(candidate: bytes) -> tuple[int, bytes] | None:
    return (len(candidate), MASK) if _is_base58_address(candidate) else None


def _judge_bech32(candidate: bytes) -> tuple[int, bytes] | None:
    return (len(candidate), MASK) if _is_bech32_address(candidate) else None


def is_routing_number(digits: bytes) -> bool:
    """Check a number of the American Bankers Association: district, and weights 3, 7, 1."""
    district = int(digits[:2])
    if not (1 <= district <= 12 or 21 <= district <= 32 or 61 <= district <= 72 or district == 80):
        return False
    return weighted_sum(digits, (3, 7, 1, 3, 7, 1, 3, 7, 1)) % 10 == 0 and not all_same(digits)


def is_cusip(cusip: bytes) -> bool:
    total = 0
    for place, code in enumerate(cusip[:8]):
        value = int(chr(code), 36) * (2 if place % 2 else 1)
        total += value // 10 + value % 10
    return (10 - total % 10) % 10 == int(cusip[8:9] if cusip[8:9].isdigit() else b"-1") and not all_same(cusip)


def is_isin(isin: bytes) -> bool:
    if isin[:2] not in COUNTRIES and isin[:2] not in (b"XS", b"EU", b"XA", b"XB", b"XC", b"XD"):
        return False
    return has_check_digit("".join(str(int(chr(code), 36)) for code in isin).encode()) and not isin[2:11].isalpha()


def is_bank_code(code: bytes) -> bool:
    """Check a code by ISO 9362: bank, country, location and optional branch."""
    return code[4:6] in COUNTRIES


_BASE58_LIKE = rb"(?:\b|\\[bfnrtv])[13][1-9A-HJ-NP-Za-km-z]{25,34}\b"
_BECH32_LIKE = rb"(?i:bc1[02-9ac-hj-np-z]{11})"

CREDIT_CARD_TRACK = Detector(
    InfoType.CREDIT_CARD_TRACK,
    (
        token_form(
            rb"%[Bb]\d{12,19}\^",
            rb"%[Bb]\d{12,19}\^[^\^?\x00\t\r\n]{2,40}\^\d{4}[^?\x00\t\r\n]{0,80}(?:\?|(?![^?\x00\t\r\n]))",
        ),
        token_form(rb";\d{12,19}=\d{7}", rb";\d{12,19}=\d{7}[0-9=]{0,40}\??"),
    ),
)
SWIFT_CODE = Detector(
    InfoType.SWIFT_CODE,
    (number_form(rb"[A-Z][A-Z]{5}[0-9A-Z]{2}(?:[0-9A-Z]{3})?", 0.3, is_bank_code),),
    words="swift, bic, swift code, bic code, swift bic, bank identifier",
)
CUSIP = Detector(
    InfoType.CUSIP,
    (number_form(rb"[0-9A-Z][0-9A-Z]{7}\d", 0.3, is_cusip),),
    words="cusip, security id, securities",
)
ISIN = Detector(
    InfoType.ISIN,
    (number_form(rb"[A-Z][A-Z][0-9A-Z]{9}\d", 0.6, is_isin),),
    words="isin, securities, security id, instrument, fund",
)
CRYPTO = Detector(
    InfoType.CRYPTO,
    (
        found_form(
            _BASE58_LIKE,
            leaping(
                _BASE58_LIKE,
                re.compile(starts_with(rb"[13]") + rb"[1-9A-HJ-NP-Za-km-z]{25,34}" + NOT_BEFORE_WORD), _judge_base58
            ),
            0.95, MASK,
        ),
        found_form(
            _BECH32_LIKE,
            leaping(
                _BECH32_LIKE,
                re.compile(
                    BEHIND_EDGE + rb"(?:bc1[02-9ac-hj-np-z]{11,87}|BC1[02-9AC-HJ-NP-Z]{11,87})" + NOT_BEFORE_WORD
                ),
                _judge_bech32,
            ),
            0.95, MASK,
        ),
        token_form(rb"0x[0-9A-Fa-f]{40}", BEHIND_EDGE + rb"0x[0-9A-Fa-f]{40}" + NOT_BEFORE_WORD, 0.7),
    ),
    words="wallet, bitcoin, btc, ethereum, eth, crypto",
)  # fmt: skip
US_BANK_ROUTING = Detector(
    InfoType.US_BANK_ROUTING,
    (number_form(rb"\d\d{8}", 0.3, is_routing_number),),
    words="routing, aba, rtn, routing number, routing transit, transit number, micr",
)
US_BANK_NUMBER = Detector(
    InfoType.US_BANK_NUMBER,
    (number_form(rb"\d\d{7,16}", 0.15, lambda digits: not all_same(digits)),),
    words="bank account, account number, account no, acct, acct no, checking, savings, bank number, debit account",
)
