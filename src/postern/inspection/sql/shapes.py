"""What statements have in common that differ only in the values that columns are compared with or set to.

A client that writes its values into its statements hardly ever sends a text twice, and reading one costs some 70 µs.
What is known of one such statement holds for all of its shape, as none of their literals can matter: each is a plain
number or text, and stands alone beside a column (`id = 4711`, `set total = total + 5`), behind LIMIT, or in the VALUES
of an INSERT. Equal literals are equal in the shape, and others are not, so that `a = 1 or not a = 1` is another shape
than `a = 1 or not a = 2`. A text with any other literal, comment, backslash or second statement has no shape.
"""

from __future__ import annotations

import re
from typing import Final

DIALECT: Final = "postgres"
LONGEST: Final = 2 * 1024  # characters; longer texts have no shape
_FIRST: Final = 0xE000  # literals become characters of Unicode's private area
_MOST: Final = 256  # literals

# Those that are searched for begin with a set of characters, each with a condition behind it: `re` is quickest so.
_REFUSED: Final = re.compile(r"[\\$\0\ue000-\uf8ff;/-](?:(?<=[^;/-])|(?<=-)-|(?<=/)\*|(?<=;)\s*[^\s;])")
_BEGINNING: Final = re.compile(r"\s*(?:select|insert|update|delete|with)\b", re.IGNORECASE)

# Texts written one way only: numbers without leading zeros, strings without prefix or continuation.
_LITERAL: Final = r"(?:-?[1-9][0-9]{0,17}|0|'(?:[^']|'')*')(?![\w.'])(?!\s*')"
_NAME: Final = r'(?:[a-z_][a-z0-9_]*|"[^"]+")'
_COLUMN: Final = rf"{_NAME}(?:\.{_NAME}){{0,3}}"
_ALONE: Final = (
    r"(?=\s*(?:[;),]|\Z|(?:and|or|then|from|where|group|having|order|limit|offset|for|union|returning|"
    r"join|inner|left)\b))"
)
_BEHIND: Final = r"(?:(?<=[(,])\s*|(?<=\s)(?:where|and|or|not|on|set|when|having)\s+)"
_COMPARED: Final = rf"({_BEHIND}{_COLUMN}\s*(?:<=|>=|<>|!=|<|>|=(?:\s*{_COLUMN}\s*[+-])?)\s*)({_LITERAL}){_ALONE}"
_LIMITED: Final = rf"((?<=\s)(?:limit|offset)\s+)([1-9][0-9]{{0,17}}|0){_ALONE}"
_QUOTED: Final = r"""(?<=")[^"]*"|(?<=')(?:[^']|'')*'"""
_SITE: Final = re.compile(rf"""([\s(,"'])(?:{_COMPARED}|{_LIMITED}|{_QUOTED})""", re.IGNORECASE)
_LEFT_OVER: Final = re.compile(r"['0-9](?<![a-zA-Z0-9_][0-9])")

_VALUE: Final = (
    rf"\s*(?:{_LITERAL}|-?[0-9]{{1,18}}\.[0-9]{{1,18}}|null|default|true|false|current_timestamp|now\(\))\s*"
)
_INSERT: Final = re.compile(
    rf"(\s*insert\s+into\s+{_COLUMN}\s*(?:\((?:\s*{_NAME}\s*,)*\s*{_NAME}\s*\))?\s*values\s*)"
    rf"\({_VALUE}(?:,{_VALUE})*\)(?:\s*,\s*\({_VALUE}(?:,{_VALUE})*\))*\s*;?\s*",
    re.IGNORECASE,
)


def shape_of(text: str) -> str | None:
    """For PostgreSQL's dialect. None for a text that has none, and for one without literals, which is its own."""
    if len(text) > LONGEST or _REFUSED.search(text) is not None or _BEGINNING.match(text) is None:
        return None
    inserted = _INSERT.fullmatch(text)
    if inserted is not None:
        return inserted[1] + ("()" if "now()" in text.lower() else "")
    places: dict[str, str] = {}

    def placed(site: re.Match[str]) -> str:
        literal = site[3] or site[5]
        if literal is None:
            return site[0]
        return site[1] + (site[2] or site[4]) + places.setdefault(literal, chr(_FIRST + len(places)))

    shape = _SITE.sub(placed, text)
    if not places or len(places) > _MOST or _LEFT_OVER.search(shape) is not None:
        return None
    return shape
