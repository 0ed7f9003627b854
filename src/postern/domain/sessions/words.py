"""Words of texts, and searches for them, the same on every engine.

A word is a run of letters and digits, in lower case; each character of Chinese, Japanese or Korean is a word, since
there are no blanks between them. Everything else only separates words: no character of a search has a meaning to an
engine.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from postern.errors import Invalid

MAX_TERMS = 32
MAX_SEARCH = 1_000  # characters
MIN_PREFIX = 2  # characters
MAX_WORD = 64  # characters; longer ones are cut, in texts and in searches

# A word of its own between two statements, so that no phrase reaches over the border. No search can contain it: it is
# from a private use area, and not a letter.
BORDER = "\ue000"

_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(f"[{_IDEOGRAPHS}]|[^\\W_{_IDEOGRAPHS}]+")
_TERM = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')


@dataclass(frozen=True, slots=True)
class Term:
    """Words that follow each other; of the last one only the beginning where `is_prefix`."""

    words: tuple[str, ...]
    is_prefix: bool = False
    is_wanted: bool = True


@dataclass(frozen=True, slots=True)
class Search:
    """A search; all of its terms must match."""

    terms: tuple[Term, ...]

    @property
    def wanted(self) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if term.is_wanted)

    @property
    def unwanted(self) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if not term.is_wanted)


def words_of(text: str) -> list[str]:
    """Return the words in order. Compatible forms are the same: a full-width letter is a letter."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return [word[:MAX_WORD] for word in _WORD.findall(text.lower())]


def fold_text(pieces: Sequence[str]) -> str:
    """Return the words of all pieces, each surrounded by blanks."""
    return f" {f' {BORDER} '.join(' '.join(words_of(piece)) for piece in pieces)} "


def parse_search(text: str) -> Search:
    """Parse `drop table` (both words), `"drop table"` (one after the other), `cust*` (prefix), `-audit` (absent).

    Raises Invalid when it has no terms, or too many. No other text is an error: a quote that is not closed ends with
    the text.
    """
    if len(text) > MAX_SEARCH:
        raise Invalid(f"search: at most {MAX_SEARCH} characters, {len(text)} given", field="search")
    terms: list[Term] = []
    for minus, phrase, word in _TERM.findall(text):
        words = words_of(phrase or word)
        if not words:
            continue
        is_prefix = word.endswith("*")
        if is_prefix and len(words[-1]) < MIN_PREFIX and words[-1].isascii():
            raise Invalid(
                f"search: {word!r} needs at least {MIN_PREFIX} characters before the asterisk", field="search"
            )
        terms.append(Term(tuple(words), is_prefix, not minus))
    if len(terms) > MAX_TERMS:
        raise Invalid(f"search: at most {MAX_TERMS} words and phrases, {len(terms)} given", field="search")
    if not any(term.is_wanted for term in terms):
        raise Invalid("search: needs a word or phrase to search for, without '-' before it", field="search")
    return Search(tuple(dict.fromkeys(terms)))


def holds(term: Term, words: Sequence[str]) -> bool:
    """Return whether these words, in order, contain the term."""
    length = len(term.words)
    *first, last = term.words
    for at in range(len(words) - length + 1):
        end = words[at + length - 1]
        if (end.startswith(last) if term.is_prefix else end == last) and list(words[at : at + length - 1]) == first:
            return True
    return False
