"""Shapes of statements: what statements have in common that differ only in compared or assigned values.

A client that writes values into its statements hardly ever sends the same text twice, and parsing one costs 70 µs in
one dialect and a millisecond in another. A verdict on one statement holds for its whole shape, because none of the
literals in a shape can matter: each is a plain number or text, and stands alone next to a column (`id = 4711`, `set
total = total + 5`, `id between 1 and 9`, `id in (1, 2)`), after LIMIT, or in the VALUES of an INSERT.

Equal literals are equal in the shape, and different ones are different, so that `a = 1 or not a = 1` has another shape
than `a = 1 or not a = 2`. A text with any other literal, comment, backslash or second statement has no shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LONGEST: Final = 2 * 1024  # characters; longer texts have no shape
_FIRST: Final = 0xE000  # literals become characters of Unicode's private area
_MOST: Final = 256  # literals

_COMPARING: Final = r"(?:<=|>=|<>|!=|<|>|=(?:\s*{column}\s*[+-])?)"
_ALONE: Final = (
    r"(?=\s*(?:[;),]|\Z|(?:and|or|then|from|where|group|having|order|limit|offset|for|union|returning|"
    r"join|inner|left)\b))"
)
_BEHIND: Final = r"(?:(?<=[(,])\s*|(?<=\s)(?:where|and|or|not|on|set|when|having)\s+)"
_LIMITED: Final = rf"(?P<limits>(?<=\s)(?:limit|offset)\s+)(?P<limit>[1-9][0-9]{{0,17}}|0){_ALONE}"
_LEFT_OVER: Final = re.compile(r"['0-9](?<![a-zA-Z0-9_][0-9])")


@dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes of one dialect.

    A text with a match of `refused` has no shape; neither has one whose shape matches `odd`. Literals are equal if
    `seen` makes them equal.
    """

    refused: re.Pattern[str]
    odd: re.Pattern[str]
    beginning: re.Pattern[str]
    site: re.Pattern[str]
    literal: re.Pattern[str]
    inserted: re.Pattern[str]
    seen: Callable[[str], str]

    def of(self, text: str) -> str | None:
        """Return the shape of a text. None if it has none, and for a text without literals, which is its own shape."""
        if len(text) > LONGEST or self.refused.search(text) is not None or self.beginning.match(text) is None:
            return None
        inserted = self.inserted.fullmatch(text)
        if inserted is not None:
            return inserted[1] + ("()" if "now()" in text.lower() else "")
        places: dict[str, str] = {}

        def place_of(literal: str) -> str:
            return places.setdefault(self.seen(literal), chr(_FIRST + len(places)))

        def replace_site(site: re.Match[str]) -> str:
            if site["list"]:
                return site[1] + site["member"] + self.literal.sub(lambda match: place_of(match[0]), site["list"])
            literal = site["value"] or site["limit"]
            if literal is None:
                return site[0]
            text = site[1] + (site["column"] or site["limits"]) + place_of(literal)
            return text + site["and"] + place_of(site["highest"]) if site["between"] else text

        shape = self.site.sub(replace_site, text)
        if not places or len(places) > _MOST or _LEFT_OVER.search(shape) is not None or self.odd.search(shape):
            return None
        return shape


def shapes_of(quote: str, verbs: str, word: str, refused: str, odd: str, seen: Callable[[str], str]) -> Shapes:
    """Create the shapes of one dialect.

    `quote` is the quote of names, and `word` a character that a literal must not touch. `verbs` start an INSERT.
    `refused` and `odd` should end with NEVER.
    """
    # Only texts with a unique spelling: numbers without leading zeros, strings without prefix or continuation.
    literal = rf"(?:-?[1-9][0-9]{{0,17}}|0|'(?:[^']|'')*')(?!{word})(?!\s*')"
    name = rf"(?:[a-z_][a-z0-9_]*|{quote}[^{quote}]+{quote})"
    column = rf"{name}(?:\.{name}){{0,3}}"
    comparing = rf"(?:\s*{_COMPARING.format(column=column)}|(?P<between>\s+between\s))\s*"
    upto = rf"(?(between)(?P<and>\s+and\s+)(?P<highest>{literal}))"
    compared = rf"(?P<column>{_BEHIND}{column}{comparing})(?P<value>{literal}){upto}{_ALONE}"
    listed = rf"(?P<list>\s*{literal}(?:\s*,\s*{literal})*\s*\)){_ALONE}"
    member = rf"(?P<member>{_BEHIND}{column}\s+(?:not\s+)?in\s*\(){listed}"
    quoted = rf"(?<={quote})[^{quote}]*{quote}|(?<=')(?:[^']|'')*'"
    value = rf"\s*(?:{literal}|-?[0-9]{{1,18}}\.[0-9]{{1,18}}|null|default|true|false|current_timestamp|now\(\))\s*"
    row = rf"\({value}(?:,{value})*\)"
    flags = re.IGNORECASE | re.ASCII if quote == "`" else re.IGNORECASE
    return Shapes(
        re.compile(refused),
        re.compile(odd),
        re.compile(rf"\s*(?:{verbs}|update|delete|with|select)\b", flags),
        re.compile(rf"([\s(,'{quote}])(?:{compared}|{member}|{_LIMITED}|{quoted})", flags),
        re.compile(literal),
        re.compile(
            rf"(\s*(?:{verbs})\s+into\s+{column}\s*(?:\((?:\s*{name}\s*,)*\s*{name}\s*\))?\s*values\s*)"
            rf"{row}(?:\s*,\s*{row})*\s*;?\s*",
            flags,
        ),
        seen,
    )


# Alternatives start with a common set of characters, each with a condition after it: this is fastest in `re`.
NEVER: Final = r";/-](?:(?<=[^;/-])|(?<=-)-|(?<=/)\*|(?<=;)\s*[^\s;])"
