"""Where a search found its words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from postern.domain.sessions.words import Search, Term, holds, words_of
from postern.domain.text import one_line

MOST = 3  # of one session
_BEFORE, _AFTER = 60, 140  # characters around a word


@dataclass(frozen=True, slots=True)
class Match:
    milliseconds: float
    text: str


def matches_in(pieces: Sequence[tuple[float, str]], search: Search, most: int = MOST) -> list[Match]:
    """The first pieces, (milliseconds, text), in which one of the wanted terms is."""
    matches: list[Match] = []
    for at, text in pieces:
        words = words_of(text)
        term = next((term for term in search.wanted if holds(term, words)), None)
        if term is not None:
            matches.append(Match(at, _around(text, term)))
            if len(matches) == most:
                break
    return matches


def _around(text: str, term: Term) -> str:
    place = re.search(rf"(?<!\w){re.escape(term.words[0])}", text, re.IGNORECASE)
    at = place.start() if place else 0
    begin, end = max(0, at - _BEFORE), at + _AFTER
    excerpt = one_line(text[begin:end]).strip()
    return f"{'…' if begin else ''}{excerpt}{'…' if end < len(text) else ''}"
