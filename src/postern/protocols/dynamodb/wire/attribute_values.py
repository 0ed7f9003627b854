"""Typed attribute values: {"S": "text"}, {"N": "1.5"}, {"B": base64}, sets of these, {"M": {…}}, {"L": […]}.

A changed value stays valid for its type: a number is a number, a set has no element twice. What cannot become one is
{"NULL": true}.
"""

from __future__ import annotations

import base64
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from postern.interception.events import Change, Scalar, TextKind

TEXT: Final = "S"
NUMBER: Final = "N"
BINARY: Final = "B"
BOOLEAN: Final = "BOOL"
NULL: Final = "NULL"
MAP: Final = "M"
LIST: Final = "L"
SETS: Final = {"SS": TEXT, "NS": NUMBER, "BS": BINARY}
TAGS: Final = frozenset({TEXT, NUMBER, BINARY, BOOLEAN, NULL, MAP, LIST, *SETS})

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_MAX_DIGITS: Final = 38
_MAX_NUMBER_TEXT: Final = 200


class AttributeCell:
    """One value in an item: an element of a set, the name of a field (`tag` is NAME), or anything but M, L and sets.

    `holder[key]` is the value in the parsed body: of a set its list, else the object with the type.
    """

    __slots__ = ("holder", "is_changed", "key", "row", "tag", "value")

    def __init__(self, holder: Any, key: Any, tag: str, row: int, value: bytes | None) -> None:
        self.holder = holder
        self.key = key
        self.tag = tag
        self.row = row
        self.value = value  # as plain text; None is NULL
        self.is_changed = False


NAME: Final = "name"


def cell_value(tag: str, value: Any) -> bytes | None:
    """Return a value as plain text: of binary ones the content. Raises ValueError if it does not fit its type."""
    if tag == NULL:
        return None
    if tag == BOOLEAN:
        if isinstance(value, bool):
            return b"t" if value else b"f"
    elif isinstance(value, str):
        return _decode(value) if tag == BINARY else value.encode("utf-8", "surrogatepass")
    raise ValueError(f"an attribute of the type {tag[:8]} has another value")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError("a binary attribute is not base64") from None


def is_readable(value: bytes) -> bool:
    """Return whether binary content is text, in which values can be found."""
    try:
        return value.decode("utf-8").isprintable() and bool(value)
    except UnicodeDecodeError:
        return False


def kind_of(tag: str, value: bytes | None) -> TextKind:
    if tag in (TEXT, NAME):
        return TextKind.TEXT
    if tag == NUMBER:
        return TextKind.NUMBER
    if tag == BINARY and value is not None and is_readable(value):
        return TextKind.TEXT
    return TextKind.OPAQUE


_SCALARS: Final = {
    TEXT: Scalar.TEXT,
    NAME: Scalar.TEXT,
    NUMBER: Scalar.DECIMAL,
    BINARY: Scalar.BYTES,
    BOOLEAN: Scalar.BOOLEAN,
}


def changed_value(tag: str, value: bytes, by: Change) -> bytes | None:
    """Return the value that replaces one of this type; None is NULL."""
    new = by(_SCALARS[tag], value)
    return new if new is None or new == value else valid_value(tag, new)


def valid_value(tag: str, value: bytes) -> bytes | None:
    """Return a replacement that is valid for the type, or None."""
    if tag == NUMBER:
        return value if is_number(value) else None
    if tag == BOOLEAN:
        return value if value in (b"t", b"f") else None
    return value


def is_number(value: bytes) -> bool:
    """Return whether DynamoDB accepts the text as a number: at most 38 digits, from 1E-130 to 9.9…E+125."""
    text = value.decode("latin-1")
    if len(text) > _MAX_NUMBER_TEXT or _NUMBER.fullmatch(text) is None:
        return False
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    return len(digits) <= _MAX_DIGITS and (number == 0 or -130 <= number.adjusted() <= 125)


def json_value(tag: str, value: bytes) -> str | bool:
    """Return a plain text as the value of an attribute."""
    if tag == BOOLEAN:
        return value == b"t"
    return base64.b64encode(value).decode() if tag == BINARY else value.decode("utf-8", "replace")
