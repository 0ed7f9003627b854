"""PostgreSQL's styles of intervals, money, hardware addresses and bits; and the empty values of types."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Final

_POINT: Final = bytes(16)
_RANGES: Final = (3904, 3906, 3908, 3910, 3912, 3926)
_MULTIRANGES: Final = (4451, 4532, 4533, 4534, 4535, 4536)

# By type, in the text and in the binary format: the empty value, or the one at the origin.
EMPTIES: Mapping[int, tuple[bytes, bytes]] = {
    **dict.fromkeys(_RANGES, (b"empty", b"\x01")),
    **dict.fromkeys(_MULTIRANGES, (b"{}", bytes(4))),
    600: (b"(0,0)", _POINT),
    601: (b"[(0,0),(0,0)]", 2 * _POINT),
    602: (b"((0,0))", b"\x01" + struct.pack("!i", 1) + _POINT),
    603: (b"(0,0),(0,0)", 2 * _POINT),
    604: (b"((0,0))", struct.pack("!i", 1) + _POINT),
    628: (b"{0,-1,0}", struct.pack("!ddd", 0, -1, 0)),
    718: (b"<(0,0),0>", bytes(24)),
    3614: (b"", bytes(4)),  # tsvector
    4072: (b"$", b"\x01$"),  # jsonpath
}

# IntervalStyle postgres, which is the default.
_INTERVAL = re.compile(
    rb"(?:([+-]?\d+) years? ?)?(?:([+-]?\d+) mons? ?)?(?:([+-]?\d+) days? ?)?"
    rb"(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)
_SECOND = 1_000_000  # microseconds
_ENDLESS = frozenset({-(1 << 63), (1 << 63) - 1})
_HARDWARE = re.compile(rb"[0-9a-f]{2}(?::[0-9a-f]{2}){5}(?:(?::[0-9a-f]{2}){2})?")
_AMOUNT = re.compile(rb"\d(?:[^0-9]?\d)*")
_COINS = re.compile(rb"[.,'\xa0 ](\d\d)$")


def interval_of_text(cell: bytes) -> bytes:
    match = _INTERVAL.fullmatch(cell)
    if match is None or not cell:
        raise ValueError("an interval in another style than PostgreSQL's own")
    years, months, days, sign, hours, minutes, seconds, fraction = match.groups()
    micros = 0
    if hours is not None:
        whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
        micros = whole * _SECOND + int((fraction or b"").ljust(6, b"0"))
    return b"%d %d %d" % (
        int(years or 0) * 12 + int(months or 0),
        int(days or 0),
        -micros if sign == b"-" else micros,
    )


def interval_text(text: bytes) -> bytes:
    """Format an interval without months and days, which masking never produces."""
    months, days, micros = map(int, text.split())
    if months or days or micros < 0:
        raise ValueError("only times are made here")
    seconds, fraction = divmod(micros, _SECOND)
    hours, rest = divmod(seconds, 3600)
    data = b"%02d:%02d:%02d" % (hours, *divmod(rest, 60))
    return data + (b".%06d" % fraction).rstrip(b"0") if fraction else data


def interval_of_bytes(cell: bytes) -> bytes:
    micros, days, months = struct.unpack("!qii", cell)
    if micros in _ENDLESS:
        raise ValueError("an interval without end")
    return b"%d %d %d" % (months, days, micros)


def interval_bytes(text: bytes) -> bytes:
    months, days, micros = map(int, text.split())
    return struct.pack("!qii", micros, days, months)


def coins(cell: bytes) -> bytes:
    """Parse money in any lc_monetary: its digits are those of the stored number."""
    amounts = _AMOUNT.findall(cell)
    if len(amounts) != 1:
        raise ValueError("not an amount of money")
    digits = re.sub(rb"[^0-9]", b"", amounts[0])
    return b"%d" % (-int(digits) if b"-" in cell or b"(" in cell else int(digits))


def money_like(cell: bytes, text: bytes) -> bytes:
    """Format money with the currency and the decimal sign of another amount."""
    match = _AMOUNT.search(cell)
    if match is None:
        raise ValueError("not an amount of money")
    head = cell[: match.start()].replace(b"-", b"").replace(b"(", b"")
    tail = cell[match.end() :].replace(b"-", b"").replace(b")", b"")
    number = int(text)
    digits = b"%d" % abs(number)
    parted = _COINS.search(match[0])
    if parted is not None:
        digits = digits.rjust(3, b"0")
        digits = digits[:-2] + match[0][parted.start() : parted.start(1)] + digits[-2:]
    return (b"-" if number < 0 else b"") + head + digits + tail


def hardware_of_text(cell: bytes) -> bytes:
    if _HARDWARE.fullmatch(cell) is None:
        raise ValueError("not a hardware address")
    return cell.replace(b":", b"")


def hardware_text(text: bytes) -> bytes:
    return bytes.fromhex(text.decode()).hex(":").encode()


def bits_of_bytes(cell: bytes) -> bytes:
    """Encode bits: Int32 number of bits, then the bits, the first one highest."""
    (count,) = struct.unpack_from("!i", cell, 0)
    if count < 0 or len(cell) != 4 + (count + 7) // 8:
        raise ValueError("not a string of bits")
    return b"".join([b"%d" % (cell[4 + at // 8] >> (7 - at % 8) & 1) for at in range(count)])


def bits_bytes(text: bytes) -> bytes:
    size = (len(text) + 7) // 8
    packed = int(text.ljust(size * 8, b"0") or b"0", 2).to_bytes(size, "big")
    return struct.pack("!i", len(text)) + packed
