"""What a detector is, and the pieces that several of them are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import re2

from postern.domain.masking import InfoType

# A value begins and ends where no letter, digit or `_` goes on: `x123-45-6789` is an identifier, not a number.
# An escaped control character (`\n4111…`, as COPY and logs write it) is an edge too, and `***` is not: what
# follows it is the rest of a value that was masked.
NOT_BEFORE_WORD = rb"(?![0-9A-Za-z_])"
BEHIND_EDGE = rb"(?:(?<![0-9A-Za-z_])(?<!\*\*\*)|(?<=\\[bfnrtv]))"
# The same, as far as RE2 can tell, around a letter or a digit.
EDGE = rb"(?:\b|\\[bfnrtv])"
EDGE_BEHIND = rb"\b"


def starts_with(first: bytes) -> bytes:
    """A value's first character, of class `first`, with `BEHIND_EDGE` checked behind it.

    The engine is fast at looking for a class, and slow at looking back from everywhere.
    """
    edge = rb"(?<![0-9A-Za-z_]" + first + rb")(?<!\*\*\*" + first + rb")"
    return first + rb"(?:" + edge + rb"|(?<=\\[bfnrtv]" + first + rb"))"


@dataclass(frozen=True, slots=True)
class Masked:
    """A text after one detector: `hits` values were replaced, `size` bytes of them."""

    text: bytes
    hits: int = 0
    size: int = 0


Mask = Callable[[bytes], Masked]


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a value.

    `candidate` is an RE2 expression without look-around that matches in every text in which `mask` would find
    something; it is fast, `mask` need not be. `mask` takes any bytes; no value it finds holds a zero byte, ends
    in front of a letter or digit, or leaves a text in which another form's candidate is found that was not before.
    """

    candidate: bytes
    mask: Mask


@dataclass(frozen=True, slots=True)
class Whole:
    """A text that is one value from end to end, as most texts of a column of them are: there is nothing to search.

    `value` is an RE2 expression. Of a text that it matches from end to end, the forms of this kind would replace all,
    and those of the kinds before it nothing. `mask` gives what replaces such texts, or None when one of them is no
    value after all.
    """

    value: bytes
    mask: Callable[[Sequence[bytes]], list[bytes] | None]


@dataclass(frozen=True, slots=True)
class Detector:
    """A kind of information and its forms, in the order in which they are looked for."""

    type: InfoType
    forms: tuple[Form, ...]
    whole: Whole


def compile_linear(expression: bytes) -> Searcher:
    """An RE2 pattern over plain bytes, for yes or no over large texts."""
    return Searcher(re2.compile(expression, _options()))


def compile_set(expressions: Sequence[bytes], *, whole: bool = False) -> Callable[[bytes], list[int] | None]:
    """Answers which of several RE2 patterns match a text, somewhere in it or as a whole, in one pass; None: none."""
    patterns = re2.Set.FullMatchSet(_options()) if whole else re2.Set.SearchSet(_options())
    for expression in expressions:
        patterns.Add(expression)
    patterns.Compile()
    match: Callable[[bytes], list[int] | None] = patterns.Match
    return match


def _options() -> re2.Options:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    return options


class Searcher:
    __slots__ = ("fullmatch", "search")

    def __init__(self, pattern: Any) -> None:
        self.search: Callable[[bytes], object | None] = pattern.search
        self.fullmatch: Callable[[bytes], object | None] = pattern.fullmatch


def narrowed(expression: bytes, mask: Mask) -> Mask:
    """`mask`, asked only about texts in which `expression` is found: RE2 sees edges and whole lengths in one more
    quick look, and spares the close search what is glued to letters, such as the digits of a hash."""
    search = compile_linear(expression).search

    def apply(text: bytes) -> Masked:
        return mask(text) if search(text) else Masked(text)

    return apply


def replaced_by(mask: bytes) -> Callable[[Sequence[bytes]], list[bytes]]:
    """For kinds that the expression of a `Whole` alone decides and one text replaces."""
    return lambda texts: [mask] * len(texts)


def substitute_all(pattern: re.Pattern[bytes], mask: bytes) -> Mask:
    """For kinds that the pattern alone decides and one text replaces. `mask` must hold no backslash."""

    def apply(text: bytes) -> Masked:
        changed, hits = pattern.subn(mask, text)
        return Masked(changed, hits, len(text) - len(changed) + hits * len(mask))

    return apply


def substitute_valid(pattern: re.Pattern[bytes], judge: Callable[[bytes], tuple[int, bytes] | None]) -> Mask:
    """For kinds whose candidates need a closer look.

    `judge(candidate)` answers how many of its bytes are the value and what replaces them, or None;
    then the search goes on inside the candidate, for a value may begin later in it.
    """

    def apply(text: bytes) -> Masked:
        parts: list[bytes] = []
        kept = at = hits = size = 0
        while found := pattern.search(text, at):
            start = found.start()
            verdict = judge(found.group())
            if verdict is None:
                at = start + 1
                continue
            length, mask = verdict
            parts += (text[kept:start], mask)
            kept = at = start + length
            hits += 1
            size += length
        if not hits:
            return Masked(text)
        parts.append(text[kept:])
        return Masked(b"".join(parts), hits, size)

    return apply
