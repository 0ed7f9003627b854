"""Keyed hashes that are valid values of their type.

A reader can tell them from most values: numbers near the lower end of their type, dates and timestamps of the years
3000 to 8999, UUIDs of version 8, private addresses, hardware addresses that start with `fe`. The gateway does not rely
on that: it hashes every value, whatever it looks like, because a client can move values into these ranges. If a type
has enough room (texts, bytes, UUIDs, addresses, times, intervals), the hash contains a check value by the same key, so
that the owner of the key can recognise it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv6Address, ip_address
from typing import Final
from uuid import UUID

from postern.interception.events import Scalar

TOKEN_START: Final = b"h_"
_LETTERS: Final = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")
_HASHED, _CHECKED = 12, 4  # bytes

# Bits of a hash. It counts from -2^(bits + 1), the lower end of the type.
_BITS: Mapping[Scalar, int] = {
    Scalar.SMALLINT: 14,
    Scalar.INTEGER: 30,
    Scalar.BIGINT: 62,
    Scalar.MONEY: 62,
    Scalar.DECIMAL: 62,
    Scalar.DOUBLE: 52,  # all integers of that size are exact, also in JSON
}
_FEW_DIGITS: Final = 300
_REAL_BITS: Final = 23
_REAL_UNIT: Final = 1 << 40  # far from usual counts and measurements
NUMBERS: Final = frozenset({*_BITS, Scalar.REAL})
FLOATS: Final = frozenset({Scalar.REAL, Scalar.DOUBLE})

_FIRST_DATE: Final = date(3000, 1, 1)
_FIRST_STAMP: Final = datetime.combine(_FIRST_DATE, time())
_DAYS: Final = (date(9000, 1, 1) - _FIRST_DATE).days
_DAY: Final = 86_400
_MILLION: Final = 1_000_000
_INTERVAL_SECONDS: Final = 36_000_000  # 10,000 hours


class Hashes:
    """Hashes by one key. `of` returns None for a type without room for hashes."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._makers: Mapping[Scalar, Callable[[bytes], bytes]] = {
            Scalar.TEXT: self.token,
            Scalar.DATE: self._date,
            Scalar.TIMESTAMP: self._stamp,
            Scalar.MOMENT: self._moment,
            Scalar.TIME: self._time,
            Scalar.INTERVAL: self._interval,
            Scalar.UUID: self._uuid,
            Scalar.BYTES: self._bytes,
            Scalar.ADDRESS: self._address,
            Scalar.HARDWARE: self._hardware,
        }

    def of(self, scalar: Scalar, value: bytes) -> bytes | None:
        if scalar in NUMBERS:
            return self._number(scalar, value)
        maker = self._makers.get(scalar)
        return None if maker is None else maker(value)

    def token(self, value: bytes) -> bytes:
        """Return the hash of a text."""
        return TOKEN_START + self._hash_with_check(b"text", value, _HASHED, _CHECKED).hex().encode().translate(_LETTERS)

    def _mac(self, purpose: bytes, value: bytes) -> bytes:
        return hmac.digest(self._key, purpose + b"\0" + value, "sha256")

    def _hash_with_check(self, purpose: bytes, value: bytes, hashed: int, checked: int) -> bytes:
        """Return a hash and its check, with so many bytes each."""
        mac = self._mac(purpose, value)[:hashed]
        return mac + self._mac(b"check", mac)[:checked]

    def _number(self, scalar: Scalar, value: bytes) -> bytes:
        """Hash a number. Equal numbers have equal hashes in all types of the same width."""
        # a faster path with the same result, for most numbers
        if value.isdigit() and len(value) <= _FEW_DIGITS and scalar not in FLOATS:
            return self._hash_number(scalar, b"%d" % int(value))
        number = Decimal(float(value)) if scalar in FLOATS else Decimal(value.decode())
        whole = number.is_finite() and abs(number.adjusted()) < 400 and number == number.to_integral_value()
        return self._hash_number(scalar, b"%d" % int(number) if whole else str(number.normalize()).encode())

    def _hash_number(self, scalar: Scalar, plain: bytes) -> bytes:
        """Return the hash of a number in plain form."""
        bits = _REAL_BITS if scalar is Scalar.REAL else _BITS[scalar]
        unit = _REAL_UNIT if scalar is Scalar.REAL else 1
        least = -(2 << bits)
        hashed = (least + (int.from_bytes(self._mac(b"number", plain), "big") >> (256 - bits))) * unit
        return repr(float(hashed)).encode() if scalar in FLOATS else b"%d" % hashed

    def _below(self, purpose: bytes, value: bytes, most: int) -> int:
        return int.from_bytes(self._mac(purpose, value)[:16], "big") % most

    def _date(self, value: bytes) -> bytes:
        return (_FIRST_DATE + timedelta(days=self._below(b"date", value, _DAYS))).isoformat().encode()

    def _stamp(self, value: bytes, purpose: bytes = b"timestamp") -> bytes:
        seconds = timedelta(seconds=self._below(purpose, value, _DAYS * _DAY))
        return (_FIRST_STAMP + seconds).isoformat(" ").encode()

    def _moment(self, value: bytes) -> bytes:
        return self._stamp(value, b"moment")

    def _fraction(self, seconds: int) -> int:
        """Return microseconds that check a hash."""
        return 1 + self._below(b"check", b"%d" % seconds, _MILLION - 1)

    def _time(self, value: bytes) -> bytes:
        seconds = self._below(b"time", value, _DAY)
        moment = _FIRST_STAMP + timedelta(seconds=seconds, microseconds=self._fraction(seconds))
        return moment.time().isoformat().encode()

    def _interval(self, value: bytes) -> bytes:
        seconds = self._below(b"interval", value, _INTERVAL_SECONDS)
        return b"0 0 %d" % (seconds * _MILLION + self._fraction(seconds))

    def _uuid(self, value: bytes) -> bytes:
        """Return a UUID of version 8, which is for private use (RFC 9562, 5.8)."""
        new = self._hash_with_check(b"uuid", value, 11, _CHECKED).hex()
        return str(UUID(f"{new[:12]}8{new[12:15]}8{new[15:]}")).encode()

    def _bytes(self, value: bytes) -> bytes:
        return self._hash_with_check(b"bytes", value, _HASHED, _CHECKED)

    def _address(self, value: bytes) -> bytes:
        """Return a private address of version 6."""
        packed = ip_address(value.decode()).packed
        return str(IPv6Address(b"\xfd" + self._hash_with_check(b"address", packed, 11, _CHECKED))).encode()

    def _hardware(self, value: bytes) -> bytes:
        """Return a locally administered hardware address, which no manufacturer assigns."""
        raw = bytes.fromhex(value.decode())
        checked = len(raw) - 4
        return (b"\xfe" + self._hash_with_check(b"hardware", raw, 3, checked)).hex().encode()
