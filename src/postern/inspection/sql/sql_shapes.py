"""What statements have in common that differ only in the values that columns are compared with or set to.

A client that writes its values into its statements hardly ever sends a text twice, and reading one costs some 70 µs in
one dialect, and a millisecond in another. What is known of one such statement holds for all of its shape, as
none of their literals can matter: each is a plain number or text, and stands alone beside a column (`id = 4711`,
`set total = total + 5`, `id between 1 and 9`, `id in (1, 2)`), behind LIMIT, or in the VALUES of an INSERT. Equal
literals are equal in the shape, and others are not, so that `a = 1 or not a = 1` is another shape than
`a = 1 or not a = 2`. A text with any other literal, comment, backslash or second statement has no shape.
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
    """Of one dialect. `refused` and `odd` are in no text, and in no shape of one, that has a shape; literals are one
    where `seen` makes them one."""

    refused: re.Pattern[str]
    odd: re.Pattern[str]
    beginning: re.Pattern[str]
    site: re.Pattern[str]
    literal: re.Pattern[str]
    inserted: re.Pattern[str]
    seen: Callable[[str], str]

    def of(self, text: str) -> str | None:
        """None for a text that has none, and for one without literals, which is its own."""
        if len(text) > LONGEST or self.refused.search(text) is not None or self.beginning.match(text) is None:
            return None
        inserted = self.inserted.fullmatch(text)
        if inserted is not None:
            return inserted[1] + ("()" if "now()" in text.lower() else "")
        places: dict[str, str] = {}

        def place_of(literal: str) -> str:
            return places.setdefault(self.seen(literal), chr(_FIRST + len(places)))

        def placed(site: re.Match[str]) -> str:
            if site["list"]:
                return site[1] + site["member"] + self.literal.sub(lambda one: place_of(one[0]), site["list"])
            literal = site["value"] or site["limit"]
            if literal is None:
                return site[0]
            found = site[1] + (site["column"] or site["limits"]) + place_of(literal)
            return found + site["and"] + place_of(site["highest"]) if site["between"] else found

        shape = self.site.sub(placed, text)
        if not places or len(places) > _MOST or _LEFT_OVER.search(shape) is not None or self.odd.search(shape):
            return None
        return shape


def shapes_of(quote: str, verbs: str, word: str, refused: str, odd: str, seen: Callable[[str], str]) -> Shapes:
    """Make the shapes of one dialect. `quote` is that of names, `word` what a literal may not touch. `verbs` begin an
    INSERT. `refused` and `odd` should end with NEVER."""
    # Texts written one way only: numbers without leading zeros, strings without prefix or continuation.
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


# What is searched for begins with a set of characters, each with a condition behind it: `re` is quickest so.
NEVER: Final = r";/-](?:(?<=[^;/-])|(?<=-)-|(?<=/)\*|(?<=;)\s*[^\s;])"
