"""Web addresses and headers, and numbers of devices and vehicles."""

from __future__ import annotations

import re

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import BEHIND_EDGE, NOT_BEFORE_WORD, Detector, Span, found_form
from postern.inspection.masking.kinds.card import has_check_digit
from postern.inspection.masking.kinds.checksums import all_same
from postern.inspection.masking.kinds.making import MASK, number_form, token_form

_ADDRESS = re.compile(rb"(?i:https?|ftps?|wss?)://[^\s\"'<>\\{}|^`\x00]++")
_ENDS_SENTENCE = b".,;:!?)]"
_SIGNED = re.compile(
    rb"[?&](?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|sig|Signature|se|Expires|AWSAccessKeyId)=[^&]",
    re.IGNORECASE,
)


def _find_addresses(text: bytes) -> list[Span]:
    """Find addresses, without the punctuation of a sentence after them."""
    return [
        (match.start(), match.start() + len(match.group().rstrip(_ENDS_SENTENCE)))
        for match in _ADDRESS.finditer(text)
    ]  # fmt: skip


def _find_signed(text: bytes) -> list[Span]:
    return [(start, end) for start, end in _find_addresses(text) if len(_SIGNED.findall(text, start, end)) > 1]


def _is_vin(vin: bytes) -> bool:
    """Check the digit at position 9, as used in North America."""
    total = sum(_VIN_VALUES[code] * weight for code, weight in zip(vin, _VIN_WEIGHTS, strict=True))
    return not vin.isdigit() and not vin.isalpha() and vin[8] == b"0123456789X"[total % 11]


def _may_be_vin(vin: bytes) -> bool:
    return not vin.isdigit() and not vin.isalpha() and vin[-4:].isdigit()


_VIN_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
_VIN_VALUES = dict(
    zip(b"0123456789ABCDEFGHJKLMNPRSTUVWXYZ", map(int, "012345678912345678123457923456789"), strict=True)
)


def _is_imei(imei: bytes) -> bool:
    return has_check_digit(imei) and not all_same(imei)


URL = Detector(
    InfoType.URL,
    (found_form(rb"(?i:https?|ftps?|wss?)://[^\s\"'<>\\{}|^`\x00]", _find_addresses, 0.6, MASK),),
    words="url, uri, link, website, homepage",
)
STORAGE_SIGNED_URL = Detector(
    InfoType.STORAGE_SIGNED_URL,
    (found_form(rb"(?i:[?&](?:X-Amz-Signature|X-Goog-Signature|sig|Signature)=)", _find_signed, 1.0, MASK),),
    words="link, url, download",
)
HTTP_COOKIE = Detector(
    InfoType.HTTP_COOKIE,
    (
        token_form(
            rb"(?i:cookie: ?[^\s=;,\"\\*\x00])",
            rb"(?i:(?<![0-9A-Za-z_])cookie): ?([^\s=;,\"\\*\x00]{1,128}=[^\r\n\t\"\\\x00]*+)",
            label=rb"(?i:cookie)",
        ),
    ),
)
MAC_ADDRESS = Detector(
    InfoType.MAC_ADDRESS,
    (
        token_form(
            rb"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}",
            BEHIND_EDGE + rb"(?<![0-9A-Fa-f][:-])[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}"
            rb"(?![:-][0-9A-Fa-f])" + NOT_BEFORE_WORD, 0.8, group=0,
        ),
    ),
    words="mac, mac address, hardware address, hwaddr, ethernet",
)  # fmt: skip
IMEI = Detector(
    InfoType.IMEI,
    (
        number_form(rb"\d\d-\d{6}-\d{6}-\d", 0.7, _is_imei),
        number_form(rb"\d\d{14}", 0.4, _is_imei),
    ),
    words="imei, imeisv, equipment identity, device imei, handset",
)
VIN = Detector(
    InfoType.VIN,
    (
        number_form(rb"[1-57A-HJ-NPR-Z][0-9A-HJ-NPR-Z]{7}[0-9X][0-9A-HJ-NPR-Z]{8}", 0.7, _is_vin),
        number_form(rb"[1-57A-HJ-NPR-Z][0-9A-HJ-NPR-Z]{16}", 0.3, _may_be_vin),
    ),
    words="vin, vehicle, vehicle identification, chassis, fahrgestellnummer",
)
