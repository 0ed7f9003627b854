"""Internet addresses, versions 4 and 6. A following prefix length or port stays."""

from __future__ import annotations

import ipaddress
import re

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import (
    BEHIND_EDGE,
    EDGE,
    EDGE_BEHIND,
    NOT_BEFORE_WORD,
    Detector,
    Whole,
    judged_form,
    pattern_form,
    replaced_by,
    starts_with,
)

MASK = b"***.***.***.***"

_OCTET = rb"(?:25[0-5]|2[0-4]\d|[01]?\d?\d)"
_V4 = re.compile(
    starts_with(rb"\d")
    + rb"(?<!\d\.\d)"  # five dotted numbers are a version or an object identifier
    + rb"(?:\d?|(?<=[01])\d\d|(?<=2)(?:[0-4]\d|5[0-5]))"
    + (rb"\." + _OCTET) * 3
    + rb"(?!\.?\d)"
    + NOT_BEFORE_WORD
)
_GROUP = rb"[0-9A-Fa-f]{1,4}"
# More than eight groups are a fingerprint.
_WHOLE_V6 = rb"(?<![0-9A-Fa-f]:)(?:" + _GROUP + rb":){7}" + _GROUP
_V6_TAIL = rb"(?:" + _GROUP + rb":){0,6}(?:(?:" + _OCTET + rb"\.){3}" + _OCTET + rb"|" + _GROUP + rb")"
_SHORT_V6 = rb"(?:(?:" + _GROUP + rb":){1,7}|:):(?:" + _V6_TAIL + rb")?"
_V6 = re.compile(BEHIND_EDGE + rb"(?:" + _WHOLE_V6 + rb"(?!:[0-9A-Fa-f])|" + _SHORT_V6 + rb")" + NOT_BEFORE_WORD)
_SHORT_WORDS = 8
HARDWARE = re.compile(rb"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,7}")  # EUI-48 and EUI-64


def _judge_v6(candidate: bytes) -> tuple[int, bytes] | None:
    text = candidate.decode("ascii")
    # `::` alone, and short names around it, are mostly an operator or a scope (a::b).
    if len(text) < _SHORT_WORDS and not any(character.isdigit() for character in text):
        return None
    if HARDWARE.fullmatch(candidate):
        return None
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return None
    return len(candidate), MASK


_V4_LIKE = EDGE + rb"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}" + EDGE_BEHIND

# Version 6 first: it can end with an address of version 4.
IP_ADDRESS = Detector(
    InfoType.IP_ADDRESS,
    (
        judged_form(rb"::|" + EDGE + rb"(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]", _V6, _judge_v6, 0.9, is_quoted=True),
        pattern_form(EDGE + rb"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d", _V4, MASK, 0.7, like=_V4_LIKE, is_quoted=True),
    ),
    Whole(_OCTET + (rb"\." + _OCTET) * 3, replaced_by(MASK)),
    "ip, ip address, ip addr, ipv4, ipv6, host, client ip, remote addr, address",
)
