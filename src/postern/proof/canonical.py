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


def canonical(value: Mapping[str, Any]) -> bytes:
    """Raises Malformed."""
    try:
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
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


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
