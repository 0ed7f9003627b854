"""Canonical JSON (RFC 8785): each value has exactly one encoding.

All of RFC 8785 except fractions: objects, arrays, strings, booleans, null, and integers from -(2^53 - 1) to 2^53 - 1.
Names are sorted by their UTF-16 code units, only necessary characters are escaped, there is no white space, and the
encoding is UTF-8. Fractions, larger integers and lone surrogates raise Malformed: no ledger needs them, and encoders
disagree about them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from postern.errors import Malformed

LARGEST = 2**53 - 1
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_SORTING = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True)


def canonical(value: Mapping[str, Any]) -> bytes:
    """Encode a value. Raises Malformed if it has no canonical form."""
    try:
        if _is_plain(value):
            return _SORTING.encode(value).encode()
        return _dump(_sort(value))
    except (UnicodeEncodeError, RecursionError) as error:
        raise Malformed(f"this has no canonical form: {error}") from None


def parse(data: bytes) -> dict[str, Any]:
    """Return the object. Raises Malformed if `data` is not the canonical form of an object, byte for byte."""
    try:
        value = json.loads(data.decode(), parse_float=_reject_number, parse_constant=_reject_number)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Malformed("it is not a JSON object")
    if canonical(value) != data:
        raise Malformed("it is not in canonical form")
    return value


def _dump(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()


def _is_plain(value: object) -> bool:
    """Return whether Python's own encoder writes the canonical form. It is several times faster.

    Requires ASCII names, whose order by code point equals that by UTF-16 code unit, and no value that must be rejected.
    """
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return -LARGEST <= value <= LARGEST  # type: ignore[operator]
    if kind is dict:
        for name, item in value.items():  # type: ignore[attr-defined]
            if type(name) is not str or not name.isascii() or not (type(item) is str or _is_plain(item)):
                return False
        return True
    return kind is list and all(map(_is_plain, value))  # type: ignore[call-overload]


def _sort(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        if not -LARGEST <= value <= LARGEST:
            raise Malformed(f"the integer {value} has no canonical form; it must be from -{LARGEST} to {LARGEST}")
        return int(value)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise Malformed("an object with a name that is not a string has no canonical form")
        return {name: _sort(value[name]) for name in sorted(value, key=_units)}
    if isinstance(value, (list, tuple)):
        return [_sort(item) for item in value]
    raise Malformed(f"{type(value).__name__} has no canonical form")


def _units(name: str) -> bytes:
    return name.encode("utf-16-be")


def _reject_number(text: str) -> NoReturn:
    raise ValueError(f"the number {text} has no canonical form")
