"""Replacement of values by the strategy of a rule, as text and as a value of the column's type.

partial   An e-mail address keeps its first character and its domain, an account its country and last four, a network
          address its first half, a number its first digit, a date its year, a UUID its last four. Any other text of
          at least eight characters that ends with four digits keeps these, else its first character. Apart from the
          domain, at most half of a value is kept.
hash      HMAC-SHA256 by the key of the organisation. A text becomes `h_` and 32 letters; numbers, dates and UUIDs
          become other values of their type; see `masking_hashing`.

A value without a valid replacement of its type becomes NULL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from uuid import UUID

from postern.domain.rules.masking import InfoType, Strategy
from postern.inspection.masking.masking_hashing import FLOATS, NUMBERS, Hashes
from postern.interception.events import Fill, KindChange, Scalar

MASK = b"****"
_MEMO = 8192  # values
_MEMO_SIZE = 256  # bytes of one value
_MISSING: Final = bytes(32)  # compared by identity: no cached result
_LAST_FOUR = 8  # characters that a text needs to keep its last four digits
_SHORTEST_IBAN = 15  # Norway's

_EMAIL = re.compile(r"([^@\s]+)@([^@\s]+\.[^@\s]+)", re.DOTALL)
_FOUR_DIGITS = re.compile(r"[0-9]{4}")
_HALF = 2  # octets of version 4, and groups of version 6, that a partial address keeps

_CONSTANT: Mapping[Scalar, bytes] = {
    Scalar.TEXT: MASK,
    Scalar.SMALLINT: b"0",
    Scalar.INTEGER: b"0",
    Scalar.BIGINT: b"0",
    Scalar.DECIMAL: b"0",
    Scalar.REAL: b"0.0",
    Scalar.DOUBLE: b"0.0",
    Scalar.BOOLEAN: b"f",
    Scalar.DATE: b"1970-01-01",
    Scalar.TIME: b"00:00:00",
    Scalar.TIMESTAMP: b"1970-01-01 00:00:00",
    Scalar.MOMENT: b"1970-01-01 00:00:00",
    Scalar.INTERVAL: b"0 0 0",
    Scalar.MONEY: b"0",
    Scalar.UUID: str(UUID(int=0)).encode(),
    Scalar.BYTES: b"",
    Scalar.EMPTY: b"",
}
# Values of computed columns: one per type, so that no cell has to be read.
_COMPUTED: Mapping[Scalar, bytes] = {**_CONSTANT, Scalar.JSON: b'"****"', Scalar.ADDRESS: b"0.0.0.0"}
_STAMPS = frozenset({Scalar.TIMESTAMP, Scalar.MOMENT})
_AS_LONG = frozenset({Scalar.BITS, Scalar.HARDWARE})
_BY_VALUE = frozenset({Scalar.JSON, Scalar.ADDRESS, *_AS_LONG})  # their replacement depends on the value
_MAKER = 6  # digits of a hardware address that identify the manufacturer


class Substitutes(KindChange):
    """Replacements of values by one strategy. `key` is only needed for hashes.

    Caches replacements of repeated values, up to a limit.
    """

    def __init__(self, strategy: Strategy, key: bytes) -> None:
        if strategy is Strategy.HASH and not key:
            raise ValueError("hashing needs a key")
        self.strategy = strategy
        self._hashes = Hashes(key)
        self._memos: dict[Scalar, dict[bytes, bytes | None]] = {}
        self._kept = 0  # cached values in total
        self._found: dict[tuple[str, bytes], bytes] = {}
        makers: dict[Strategy, Callable[[Scalar, bytes], bytes | None]] = {
            Strategy.REPLACE: _replace,
            Strategy.PARTIAL: _mask_partly,
            Strategy.HASH: self._hashes.of,
            Strategy.NULL: lambda _scalar, _value: None,
        }
        self._make = makers[strategy]
        self.computed = Constant(is_null=strategy is Strategy.NULL)

    def change(self, scalar: Scalar, value: bytes) -> bytes | None:
        """Return the replacement of a value; works as a `Change`."""
        return self.of(scalar)(value)

    def __call__(self, scalar: Scalar, value: bytes) -> bytes | None:
        return self.of(scalar)(value)

    def of(self, scalar: Scalar) -> Callable[[bytes], bytes | None]:
        memo = self._memos.setdefault(scalar, {})

        def one(value: bytes) -> bytes | None:
            data = memo.get(value, _MISSING)
            if data is not _MISSING:
                return data
            new = self._replace_value(scalar, value)
            if len(value) <= _MEMO_SIZE:
                if self._kept >= _MEMO:
                    self._clear()
                self._kept += 1
                memo[value] = new
            return new

        return one

    def constant(self, scalar: Scalar) -> tuple[bytes | None] | None:
        if self.strategy is Strategy.NULL:
            return (None,)
        if self.strategy is not Strategy.REPLACE or scalar in _BY_VALUE:
            return None
        return (_CONSTANT.get(scalar),)

    def _clear(self) -> None:
        for memo in self._memos.values():
            memo.clear()
        self._kept = 0

    def with_names(self, names: frozenset[str]) -> KindChange:
        """Return a change that also masks the keys of documents, except these.

        If a statement builds a document, its keys can be values.
        """
        return self if self.strategy is Strategy.NULL else _Keeping(self, names)

    def document(self, document: bytes, names: frozenset[str] | None = None) -> bytes | None:
        """Replace all values in a document, and all keys except `names`; no key if that is None.

        Returns None for a document that cannot be parsed.
        """
        try:
            return json.dumps(self._leaf(json.loads(document), names), separators=(",", ":")).encode()
        except (ValueError, RecursionError):
            return None

    def _replace_value(self, scalar: Scalar, value: bytes) -> bytes | None:
        if scalar is Scalar.JSON and self.strategy is not Strategy.NULL:
            return self.document(value)
        return self._make(scalar, value)

    def replace_found(self, kind: str, value: bytes) -> bytes:
        """Return the replacement of a value of this kind that was found in a text; empty for NULL."""
        key = (kind, value)
        cached = self._found.get(key)
        if cached is not None:
            return cached
        if self.strategy is Strategy.PARTIAL:
            new = _mask_kind_partly(kind, value)
        elif self.strategy is Strategy.HASH:
            new = self._hashes.token(value)
        else:
            new = b"" if self.strategy is Strategy.NULL else MASK
        if len(value) <= _MEMO_SIZE:
            if len(self._found) >= _MEMO:
                self._found.clear()
            self._found[key] = new
        return new

    def _key(self, name: str, keys: Mapping[str, object], names: frozenset[str] | None) -> str:
        """Return the replacement of a key. Equal replacements are numbered, so that the number of keys stays."""
        if names is None or name in names:
            return name
        replacement = (self._make(Scalar.TEXT, name.encode("utf-8", "surrogatepass")) or b"").decode(
            "utf-8", "surrogatepass"
        )
        key, number = replacement, 1
        while key in keys:
            number += 1
            key = f"{replacement}{number}"
        return key

    def _leaf(self, node: object, names: frozenset[str] | None) -> object:
        """Replace the values of a node. Keys stay if `names` is None."""
        if isinstance(node, dict):
            replaced: dict[str, object] = {}
            for name, value in node.items():
                replaced[self._key(name, replaced, names)] = self._leaf(value, names)
            return replaced
        if isinstance(node, list):
            return [self._leaf(value, names) for value in node]
        if isinstance(node, bool):
            return False if self.strategy is not Strategy.HASH else None
        if isinstance(node, int | float):
            replacement = self._make(Scalar.DOUBLE, repr(node).encode())
            return None if replacement is None else int(float(replacement))
        if isinstance(node, str):
            replacement = self._make(Scalar.TEXT, node.encode("utf-8", "surrogatepass"))
            return None if replacement is None else replacement.decode("utf-8", "surrogatepass")
        return node


class Constant(Fill):
    """Constant for everything that is computed from masked values."""

    def __init__(self, *, is_null: bool) -> None:
        self._is_null = is_null

    def __call__(self, scalar: Scalar, value: bytes) -> bytes | None:
        return None if self._is_null else _COMPUTED.get(scalar)

    def of(self, scalar: Scalar) -> Callable[[bytes], bytes | None]:
        value = self(scalar, b"")
        return lambda _: value

    def constant(self, scalar: Scalar) -> tuple[bytes | None] | None:
        return (self(scalar, b""),)


class _Keeping(KindChange):
    """Change of `Substitutes.keeping`."""

    def __init__(self, substitutes: Substitutes, names: frozenset[str]) -> None:
        self._substitutes = substitutes
        self._names = names

    def __call__(self, scalar: Scalar, value: bytes) -> bytes | None:
        return self.of(scalar)(value)

    def of(self, scalar: Scalar) -> Callable[[bytes], bytes | None]:
        if scalar is not Scalar.JSON:
            return self._substitutes.of(scalar)
        return lambda value: self._substitutes.document(value, self._names)

    def constant(self, scalar: Scalar) -> tuple[bytes | None] | None:
        return self._substitutes.constant(scalar)


def _replace(scalar: Scalar, value: bytes) -> bytes | None:
    if scalar is Scalar.ADDRESS:
        return b"::" if b":" in value else b"0.0.0.0"
    if scalar in _AS_LONG:
        return b"0" * len(value)
    return _CONSTANT.get(scalar)


def _mask_partly(scalar: Scalar, value: bytes) -> bytes | None:
    if scalar is Scalar.TEXT:
        return _mask_text_partly(value)
    if scalar in NUMBERS:
        return _first_digit(value, is_float=scalar in FLOATS)
    if scalar is Scalar.DATE:
        return value[:4] + b"-01-01"
    if scalar in _STAMPS:
        return value[:4] + b"-01-01 00:00:00"
    if scalar is Scalar.TIME:
        return value[:2] + b":00:00"
    if scalar is Scalar.UUID:
        return str(UUID(int=int(value[-4:], 16))).encode()
    if scalar is Scalar.ADDRESS:
        return _half_address(value)
    if scalar is Scalar.HARDWARE:
        return value[:_MAKER] + b"0" * (len(value) - _MAKER)
    return _replace(scalar, value)


def _half_address(value: bytes) -> bytes:
    address = ip_address(value.decode())
    bits = address.max_prefixlen // 2
    half = int(address) >> bits << bits
    return str(IPv4Address(half) if address.version == 4 else IPv6Address(half)).encode()


def _first_digit(value: bytes, *, is_float: bool) -> bytes:
    """Return a number with its first digit, if it has at least two before the point, and zeros."""
    if value.isdigit() and not is_float:  # a faster path with the same result, for most numbers
        digits = value.lstrip(b"0")
        return b"0" if len(digits) <= 1 else digits[:1] + b"0" * (len(digits) - 1)
    number = Decimal(value.decode())
    if not number.is_finite():
        return b"0.0" if is_float else b"0"
    whole = str(abs(int(number)))
    sign = "-" if number < 0 else ""
    rounded = "0" if len(whole) == 1 else sign + whole[0] + "0" * (len(whole) - 1)
    return repr(float(rounded)).encode() if is_float else rounded.encode()


def _mask_text_partly(value: bytes) -> bytes:
    text = value.decode("utf-8", "surrogateescape")
    address = _EMAIL.fullmatch(text) if "@" in text else None
    if address is not None:
        new = f"{_first(address[1])}***@{address[2]}"
    elif len(text) >= _LAST_FOUR and _FOUR_DIGITS.fullmatch(text[-4:]):
        new = "****" + text[-4:]
    else:
        new = _first(text) + "****" if len(text) > 1 else "****"
    return new.encode("utf-8", "surrogateescape")


def _first(text: str) -> str:
    return "" if text[:1] == "*" or not text[:1].isprintable() or text[:1] in "\"'\\,;{}()<>[]|/" else text[:1]


def _mask_kind_partly(kind: str, value: bytes) -> bytes:
    digits = re.sub(rb"[^0-9]", b"", value)
    is_long = len(digits) >= _LAST_FOUR
    if kind == InfoType.CREDIT_CARD and is_long:
        return b"*" * 12 + digits[-4:]
    if kind == InfoType.US_SSN and is_long:
        return b"***-**-" + digits[-4:]
    if kind == InfoType.PHONE_NUMBER:
        return b"***-***-" + digits[-4:] if is_long else b"***-***-****"
    if kind == InfoType.IBAN_CODE and len(value) >= _SHORTEST_IBAN:
        return value[:2] + b"****" + value.replace(b" ", b"")[-4:]
    if kind == InfoType.IP_ADDRESS and _is_address(value):
        if b":" in value:
            return b":".join(value.split(b":")[:_HALF]) + b":****"
        return b".".join(value.split(b".")[:_HALF]) + b".*.*"
    return _mask_text_partly(value)


def _is_address(value: bytes) -> bool:
    try:
        ip_address(value.decode())
    except ValueError:
        return False
    return True
