"""Canonical JSON: one value, one row of bytes (RFC 8785).

Of RFC 8785 everything but fractions: objects, arrays, strings, booleans, null, and integers of at most 2^53 - 1 either
way. Names are sorted by their UTF-16 code units, nothing is escaped that need not be, no blanks, UTF-8. A fraction, a
larger integer or a lone surrogate raises Malformed: nothing in a ledger needs them, and they are where writers differ.
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
    """Raises Malformed."""
    try:
        if _is_plain(value):
            return _SORTING.encode(value).encode()
        return _dumped(_sorted(value))
    except (UnicodeEncodeError, RecursionError) as error:
        raise Malformed(f"this has no canonical form: {error}") from None


def parse(data: bytes) -> dict[str, Any]:
    """The object. Raises Malformed when it is none, or `data` is not its canonical form to the byte."""
    try:
        value = json.loads(data.decode(), parse_float=_refused, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Malformed("it is not a JSON object")
    if canonical(value) != data:
        raise Malformed("it is not in canonical form")
    return value


def _dumped(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()


def _is_plain(value: object) -> bool:
    """Whether Python's own encoder writes the canonical form, several times as fast: names are ASCII, so that their
    order by code point is that by UTF-16 code unit, and nothing has to be refused."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return -LARGEST <= value <= LARGEST  # type: ignore[operator]
    if kind is dict:
        for name, one in value.items():  # type: ignore[attr-defined]
            if type(name) is not str or not name.isascii() or not (type(one) is str or _is_plain(one)):
                return False
        return True
    return kind is list and all(map(_is_plain, value))  # type: ignore[call-overload]


def _sorted(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        if not -LARGEST <= value <= LARGEST:
            raise Malformed(f"the integer {value} has no canonical form")
        return int(value)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise Malformed("a name that is not a text has no canonical form")
        return {name: _sorted(value[name]) for name in sorted(value, key=_units)}
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in value]
    raise Malformed(f"{type(value).__name__} has no canonical form")


def _units(name: str) -> bytes:
    return name.encode("utf-16-be")


def _refused(text: str) -> NoReturn:
    raise ValueError(f"the number {text} has no canonical form")
