"""Words that say what a value is: the name of its column, and what stands right before it in a text.

A word speaks for the first value behind it, in the same line and cell, with neither digit nor `*` between: what a
mask put there is one as well as the digits before, so that masking twice is masking once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from postern.inspection.masking.detector import compile_re2

# How far before a value, in bytes, a word may stand.
REACH = 64
BOOST = 0.4
DOUBT = 0.3

_ENDS = re.compile(rb"[0-9*\x00\n\t]")
_CELL_ENDS = re.compile(rb"[\x00\n\t]")
_TOKENS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LONG_ENOUGH = 5  # letters of a word that tells even where it is glued to others (`passportno`)

# Names of columns whose values are made to look like numbers of something.
_NAMES = (
    "order invoice tracking shipment sku isbn ean upc hash sha git commit version build uuid guid checksum etag "
    "timestamp created updated epoch price amount total quantity latitude longitude lat lon lng revision ticket"
)
_OTHER_THINGS = frozenset(_NAMES.split())


class Words:
    """The words that speak for one kind; each in lower case, a blank for anything that is no letter."""

    __slots__ = ("_leap", "_near", "candidate", "named")

    def __init__(self, words: str) -> None:
        phrases = [" ".join(one.split()) for one in words.split(",")]
        spelled = [re.escape(one).replace(r"\ ", "[ _-]?") for one in phrases]
        glued = (one.replace(" ", "") for one in phrases)
        names = [*(f" {one} " for one in phrases), *(one for one in glued if len(one) >= _LONG_ENOUGH)]
        # An RE2 expression found in `spelled_out` of a column's name that holds one of them.
        self.named = "|".join(re.escape(one) for one in names).encode()
        either = "|".join(sorted(spelled, key=len, reverse=True))
        self._near = re.compile(rf"(?<![A-Za-z])(?:{either})(?![A-Za-z])".encode(), re.IGNORECASE)
        # An RE2 expression found in every text that holds one of them.
        self.candidate = rf"(?:\b|[0-9_])(?i:{either})(?:\b|[0-9_])".encode()
        self._leap = compile_re2(self.candidate)

    def speak_for(self, text: bytes, start: int) -> bool:
        """Whether one of them stands before what begins at `start`."""
        before = text[max(0, start - REACH) : start]
        return self._near.search(_behind_last_end(before)) is not None

    def find_near(self, text: bytes, find: Callable[[bytes], list[tuple[int, int]]]) -> list[tuple[int, int]]:
        """What `find` finds in the cells and lines, from the first word that speaks on, in which one speaks."""
        found: list[tuple[int, int]] = []
        at = 0
        while word := self._leap.search(text, at):
            end = _CELL_ENDS.search(text, word.start() + 2)
            at = end.start() if end is not None else len(text)
            start = word.start()
            found += [(start + first, start + last) for first, last in find(text[start:at])]
        return found


def _behind_last_end(before: bytes) -> bytes:
    last = 0
    for end in _ENDS.finditer(before):
        last = end.end()
    return before[last:]


@lru_cache(maxsize=1024)
def tokens_of(column: str) -> tuple[str, ...]:
    """`customerSSN_no` is `customer`, `ssn`, `no`."""
    return tuple(token.lower() for token in _TOKENS.findall(column[:256]))


def spelled_out(tokens: tuple[str, ...]) -> bytes:
    """What the words that name a column are looked for in: its tokens apart, and glued together."""
    return f" {' '.join(tokens)} \n{''.join(tokens)}".encode()


def names_another_thing(tokens: tuple[str, ...]) -> bool:
    return not _OTHER_THINGS.isdisjoint(tokens)
