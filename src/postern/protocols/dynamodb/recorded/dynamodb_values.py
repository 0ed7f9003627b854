"""Attribute values as plain JSON and as cells of tables. Not known to the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_NAMES: Final = {
    "S": "string",
    "N": "number",
    "B": "binary",
    "SS": "string set",
    "NS": "number set",
    "BS": "binary set",
    "M": "map",
    "L": "list",
    "BOOL": "boolean",
}
_MAX_DEPTH: Final = 100


def plain_value(attribute: object, depth: int = 0) -> Any:
    """Return a typed value as JSON without types. Numbers stay texts where JSON would lose digits."""
    tag, value = _split_type(attribute)
    if tag == "NULL" or depth > _MAX_DEPTH:
        return None
    if tag == "N":
        return _number(str(value))
    if tag == "NS" and isinstance(value, list):
        return [_number(str(each)) for each in value]
    if tag == "M" and isinstance(value, Mapping):
        return {name: plain_value(inner, depth + 1) for name, inner in value.items()}
    if tag == "L" and isinstance(value, list):
        return [plain_value(inner, depth + 1) for inner in value]
    return value if tag else attribute


def plain_item(item: object) -> Any:
    """Return an item as JSON without types."""
    if not isinstance(item, Mapping):
        return item
    return {name: plain_value(attribute) for name, attribute in item.items()}


def cell_of(attribute: object) -> str | None:
    """Return a value as a cell: texts, numbers and base64 as they are, the rest as JSON."""
    tag, value = _split_type(attribute)
    if tag == "NULL":
        return None
    if tag in ("S", "N", "B") and isinstance(value, str):
        return value
    return json_text(plain_value(attribute))


def type_name(attribute: object) -> str | None:
    """Return the name of a value's type; None for NULL."""
    return _NAMES.get(_split_type(attribute)[0])


def json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _split_type(attribute: object) -> tuple[str, Any]:
    if isinstance(attribute, Mapping) and len(attribute) == 1:
        tag, value = next(iter(attribute.items()))
        if tag in _NAMES or tag == "NULL":
            return tag, value
    return "", attribute


def _number(text: str) -> int | float | str:
    try:
        whole = int(text)
        return whole if abs(whole) < 1 << 53 else text
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return number if repr(number) == text or f"{number:g}" == text else text
