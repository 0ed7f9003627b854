"""What a detector is, and the pieces that several of them are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import re2

from postern.domain.rules.masking import InfoType

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
class MaskedText:
    """A text after one detector: `hits` values were replaced, `size` bytes of them."""

    text: bytes
    hits: int = 0
    size: int = 0


Mask = Callable[[bytes], MaskedText]


@dataclass(frozen=True, slots=True)
class Found:
    """A value in a text: its kind's name, the bytes from `start` up to `end`, and how sure it is, from 0 to 1."""

    type: str
    start: int
    end: int
    score: float


Span = tuple[int, int]
Find = Callable[[bytes], list[Span]]


@dataclass(frozen=True, slots=True)
class ValueForm:
    """One way to write a value.

    `candidate` is an RE2 expression without look-around that matches in every text in which `mask` would find
    something; it is fast, `mask` need not be. `mask` takes any bytes; no value it finds holds a zero byte, ends
    in front of a letter or digit, or leaves a text in which another form's candidate is found that was not before.

    `find` answers where the values are that `mask` replaces. `score` is how sure one is of them without a word that
    speaks for them: 0.9 and more by shape alone or by check digits that one in a hundred passes, 0.6 to 0.8 by shape
    and a check digit that one in ten passes, under 0.5 where other things look the same.

    `quick`, where there is one, is asked in the place of `candidate`.
    """

    candidate: bytes
    mask: Mask
    find: Find
    score: float
    quick: Callable[[bytes], bool] | None = None


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
    """A kind of information and its forms, in the order in which they are looked for.

    `words`, separated by commas, speak for a value where they name its column or stand before it.
    """

    type: InfoType
    forms: tuple[ValueForm, ...]
    whole: Whole | None = None
    words: str = ""


_PROBE = b"\x01\x02\x03"  # an expression, and a text that no other matches

# What the states of one search may take. With less than it needs, the engine falls back to a search fifteen times
# slower: a hundred and twenty forms at once need more than the eight megabytes that are usual.
FEW_MEMORY = 8 * 1024 * 1024
MANY_MEMORY = 32 * 1024 * 1024


def compile_linear(expression: bytes, memory: int = FEW_MEMORY) -> Searcher:
    """An RE2 pattern over plain bytes, for yes or no over large texts."""
    return Searcher(re2.compile(expression, _options(memory)))


def compile_set(expressions: Sequence[bytes], *, whole: bool = False) -> Callable[[bytes], list[int] | None]:
    """Answers which of several RE2 patterns match a text, somewhere in it or as a whole, in one pass; None: none.

    A set with too little memory for its states finds nothing, and does not say so. So a larger one is tried first with
    a text that it must find: RE2 begins only with room for twenty of the largest states, and clears them when all of it
    is used up, so that what works once does not run out later.
    """
    if _compile_set((*expressions, _PROBE), whole)(_PROBE) != [len(expressions)]:
        raise RuntimeError("there is too little memory for a quick look for so many expressions")
    return _compile_set(expressions, whole)


def _compile_set(expressions: Sequence[bytes], whole: bool) -> Callable[[bytes], list[int] | None]:
    options = _options(MANY_MEMORY)
    patterns = re2.Set.FullMatchSet(options) if whole else re2.Set.SearchSet(options)
    for expression in expressions:
        patterns.Add(expression)
    patterns.Compile()
    match: Callable[[bytes], list[int] | None] = patterns.Match
    return match


def _options(memory: int) -> re2.Options:
    options = re2.Options()
    options.max_mem = memory
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    return options


class Searcher:
    __slots__ = ("fullmatch", "search")

    def __init__(self, pattern: Any) -> None:
        self.search: Callable[[bytes], object | None] = pattern.search
        self.fullmatch: Callable[[bytes], object | None] = pattern.fullmatch


def compile_re2(expression: bytes) -> Any:
    """An RE2 pattern over plain bytes, which answers where it matches."""
    return re2.compile(expression, _options(FEW_MEMORY))


def narrowed(expression: bytes, mask: Mask) -> Mask:
    """`mask`, asked only about texts in which `expression` is found: RE2 sees edges and whole lengths in one more
    quick look, and spares the close search what is glued to letters, such as the digits of a hash."""
    search = compile_linear(expression).search

    def apply(text: bytes) -> MaskedText:
        return mask(text) if search(text) else MaskedText(text)

    return apply


def replaced_by(mask: bytes) -> Callable[[Sequence[bytes]], list[bytes]]:
    """For kinds that the expression of a `Whole` alone decides and one text replaces."""
    return lambda texts: [mask] * len(texts)


def substitute_all(pattern: re.Pattern[bytes], mask: bytes) -> Mask:
    """For kinds that the pattern alone decides and one text replaces. `mask` must hold no backslash."""

    def apply(text: bytes) -> MaskedText:
        changed, hits = pattern.subn(mask, text)
        return MaskedText(changed, hits, len(text) - len(changed) + hits * len(mask))

    return apply


def substitute_valid(pattern: re.Pattern[bytes], judge: Callable[[bytes], tuple[int, bytes] | None]) -> Mask:
    """For kinds whose candidates need a closer look.

    `judge(candidate)` answers how many of its bytes are the value and what replaces them, or None;
    then the search goes on inside the candidate, for a value may begin later in it.
    """

    def apply(text: bytes) -> MaskedText:
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
            return MaskedText(text)
        parts.append(text[kept:])
        return MaskedText(b"".join(parts), hits, size)

    return apply


def spans_all(pattern: re.Pattern[bytes]) -> Find:
    """Where `substitute_all` of the same pattern replaces."""
    return lambda text: [found.span() for found in pattern.finditer(text)]


def spans_valid(pattern: re.Pattern[bytes], judge: Callable[[bytes], tuple[int, bytes] | None]) -> Find:
    """Where `substitute_valid` of the same pattern and judge replaces."""

    def find(text: bytes) -> list[Span]:
        spans: list[Span] = []
        at = 0
        while found := pattern.search(text, at):
            start = found.start()
            verdict = judge(found.group())
            if verdict is None:
                at = start + 1
                continue
            at = start + verdict[0]
            spans.append((start, at))
        return spans

    return find


def narrowed_find(expression: bytes, find: Find) -> Find:
    """`narrowed`, of where the values are."""
    search = compile_linear(expression).search
    return lambda text: find(text) if search(text) else []


def pattern_form(
    candidate: bytes, pattern: re.Pattern[bytes], mask: bytes, score: float, *, like: bytes | None = None
) -> ValueForm:
    """Of a kind that the pattern alone decides and one text replaces."""
    substitute, find = substitute_all(pattern, mask), spans_all(pattern)
    if like is not None:
        substitute, find = narrowed(like, substitute), narrowed_find(like, find)
    return ValueForm(candidate, substitute, find, score)


Judge = Callable[[bytes], tuple[int, bytes] | None]


def judged_form(
    candidate: bytes, pattern: re.Pattern[bytes], judge: Judge, score: float, *, like: bytes | None = None
) -> ValueForm:
    """Of a kind whose candidates need a closer look."""
    substitute, find = substitute_valid(pattern, judge), spans_valid(pattern, judge)
    if like is not None:
        substitute, find = narrowed(like, substitute), narrowed_find(like, find)
    return ValueForm(candidate, substitute, find, score)


def masked_spans(text: bytes, spans: Sequence[Span], mask: bytes) -> MaskedText:
    """The text with `mask` in the place of each span; these are sorted and do not overlap."""
    if not spans:
        return MaskedText(text)
    parts: list[bytes] = []
    kept = size = 0
    for start, end in spans:
        parts += (text[kept:start], mask)
        kept = end
        size += end - start
    parts.append(text[kept:])
    return MaskedText(b"".join(parts), len(spans), size)


def found_form(
    candidate: bytes, find: Find, score: float, mask: bytes, quick: Callable[[bytes], bool] | None = None
) -> ValueForm:
    """Of a kind that one text replaces wherever `find` finds it."""
    return ValueForm(candidate, lambda text: masked_spans(text, find(text), mask), find, score, quick)
