"""Detectors and the parts of which they are built."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import re2

from postern.domain.rules.masking import InfoType

# A value starts and ends where no letter, digit or `_` is adjacent: `x123-45-6789` is an identifier, not a number. An
# escaped control character (`\n4111…`, as COPY and logs write it) is an edge too. `***` is not an edge: after it comes
# the rest of a masked value.
NOT_BEFORE_WORD = rb"(?![0-9A-Za-z_])"
BEHIND_EDGE = rb"(?:(?<![0-9A-Za-z_])(?<!\*\*\*)|(?<=\\[bfnrtv]))"
# The same around a letter or a digit, as far as RE2 can express it.
EDGE = rb"(?:\b|\\[bfnrtv])"
EDGE_BEHIND = rb"\b"
# Between joined texts: no value contains it, and all treat it as an edge.
SEPARATOR = b"\x00"


def starts_with(first: bytes) -> bytes:
    """Return the pattern of a value's first character, of class `first`, with `BEHIND_EDGE` checked after it.

    The engine searches for a class fast, but is slow at looking back from every position.
    """
    edge = rb"(?<![0-9A-Za-z_]" + first + rb")(?<!\*\*\*" + first + rb")"
    return first + rb"(?:" + edge + rb"|(?<=\\[bfnrtv]" + first + rb"))"


@dataclass(frozen=True, slots=True)
class MaskedText:
    """Text after one detector: `hits` values were replaced, `size` bytes of them."""

    text: bytes
    hits: int = 0
    size: int = 0


Mask = Callable[[bytes], MaskedText]


@dataclass(frozen=True, slots=True)
class Found:
    """Value in a text: its kind, the bytes from `start` up to `end`, and its score from 0 to 1."""

    type: str
    start: int
    end: int
    score: float


Span = tuple[int, int]
Find = Callable[[bytes], list[Span]]
Judge = Callable[[bytes], tuple[int, bytes] | None]
Value = tuple[int, int, bytes]  # where it begins and ends, and its replacement


@dataclass(frozen=True, slots=True)
class ValueForm:
    """One way to write a value.

    `candidate` is an RE2 expression without look-around. It matches in every text in which `mask` finds something. It
    is fast; `mask` need not be. `mask` accepts any bytes. No value that it finds contains a zero byte or ends before a
    letter or digit, and masking never creates a match of another form's candidate.

    `find` returns the positions that `mask` replaces. `score` is the certainty without a context word: 0.9 and more by
    shape alone or by check digits that one in a hundred random numbers passes; 0.6 to 0.8 by shape and a check digit
    that one in ten passes; under 0.5 if other things look the same. `quick`, if set, replaces `candidate`.

    `is_quoted`: in a JSON document without escapes, all values are inside of strings, and what is outside of its string
    does not matter for a value. `label`, if set, is an RE2 expression that matches in every key that makes another text
    a value, if it is written before it with a colon.
    """

    candidate: bytes
    mask: Mask
    find: Find
    score: float
    quick: Callable[[bytes], bool] | None = None
    is_quoted: bool = False
    label: bytes | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """Text that is one value from end to end, as most texts in a column of such values are: no search is needed.

    `value` is an RE2 expression. If it matches a whole text, the forms of this kind would replace all of it, and those
    of earlier kinds nothing. `mask` returns the replacements of such texts, or None if one of them is not a value after
    all.
    """

    value: bytes
    mask: Callable[[Sequence[bytes]], list[bytes] | None]


@dataclass(frozen=True, slots=True)
class Detector:
    """Kind of information, with its forms in search order.

    `words`, separated by commas, are context words: they support a value if they are in its column's name or before it.
    """

    type: InfoType
    forms: tuple[ValueForm, ...]
    whole: Whole | None = None
    words: str = ""


_PROBE = b"\x01\x02\x03"  # an expression, and a text that matches no other expression

# Memory for the states of a search. With too little, the engine falls back to a search fifteen times slower. A hundred
# and twenty forms at once need more than the usual eight megabytes.
FEW_MEMORY = 8 * 1024 * 1024
MANY_MEMORY = 32 * 1024 * 1024


def compile_linear(expression: bytes, memory: int = FEW_MEMORY) -> Searcher:
    """Return an RE2 pattern over plain bytes, for yes or no over large texts."""
    return Searcher(re2.compile(expression, _options(memory)))


def compile_set(expressions: Sequence[bytes], *, whole: bool = False) -> Callable[[bytes], list[int] | None]:
    """Return a function that lists which RE2 patterns match a text, partly or as a whole, in one pass; None for no
    match.

    A set with too little memory for its states finds nothing, and does not report it. A larger set is therefore tested
    first with a text that it must find. RE2 reserves room for twenty of the largest states at the start, and clears
    them when all is used, so that a set that works once does not run out later.
    """
    if _compile_set((*expressions, _PROBE), whole)(_PROBE) != [len(expressions)]:
        raise RuntimeError("there is too little memory for a combined search of so many expressions")
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


def compile_re2(expression: bytes, memory: int = FEW_MEMORY) -> Any:
    """Return an RE2 pattern over plain bytes, which reports the positions of matches."""
    return re2.compile(expression, _options(memory))


def narrow(expression: bytes, mask: Mask) -> Mask:
    """Return `mask`, applied only to texts in which `expression` matches.

    RE2 checks edges and whole lengths in one more fast search. This saves the slow search of text that touches letters,
    such as the digits of a hash.
    """
    search = compile_linear(expression).search

    def apply(text: bytes) -> MaskedText:
        return mask(text) if search(text) else MaskedText(text)

    return apply


def replaced_by(mask: bytes) -> Callable[[Sequence[bytes]], list[bytes]]:
    """Return the function for kinds that a `Whole` alone decides, with a fixed replacement."""
    return lambda texts: [mask] * len(texts)


def substitute_all(pattern: re.Pattern[bytes], mask: bytes) -> Mask:
    """Return the function for kinds that the pattern alone decides, with a fixed replacement without backslashes."""

    def apply(text: bytes) -> MaskedText:
        changed, hits = pattern.subn(mask, text)
        return MaskedText(changed, hits, len(text) - len(changed) + hits * len(mask))

    return apply


def substitute_valid(pattern: re.Pattern[bytes], judge: Judge) -> Mask:
    """Return the function for kinds whose candidates need a closer check.

    `judge(candidate)` returns how many of its bytes are the value, and the replacement, or None. In that case the
    search continues inside of the candidate, because a value can start later in it.
    """

    return lambda text: _replace_values(text, _judged_values(pattern, judge, text))


def _judged_values(pattern: re.Pattern[bytes], judge: Judge, text: bytes) -> Iterator[Value]:
    at = 0
    while match := pattern.search(text, at):
        start = match.start()
        verdict = judge(match.group())
        if verdict is None:
            at = start + 1
            continue
        at = start + verdict[0]
        yield start, at, verdict[1]


def _replace_values(text: bytes, values: Iterable[Value]) -> MaskedText:
    """Replace values, which are sorted and do not overlap."""
    parts: list[bytes] = []
    copied = hits = size = 0
    for start, end, mask in values:
        parts += (text[copied:start], mask)
        copied = end
        hits += 1
        size += end - start
    if not hits:
        return MaskedText(text)
    parts.append(text[copied:])
    return MaskedText(b"".join(parts), hits, size)


def spans_all(pattern: re.Pattern[bytes]) -> Find:
    """Return the finder of the positions that `substitute_all` of the same pattern replaces."""
    return lambda text: [match.span() for match in pattern.finditer(text)]


def spans_valid(pattern: re.Pattern[bytes], judge: Judge) -> Find:
    """Return the finder of the positions that `substitute_valid` of the same pattern and judge replaces."""

    return lambda text: [(start, end) for start, end, _ in _judged_values(pattern, judge, text)]


def narrow_find(expression: bytes, find: Find) -> Find:
    """Return `find`, applied only to texts in which `expression` matches."""
    search = compile_linear(expression).search
    return lambda text: find(text) if search(text) else []


_SAMPLE = 2048  # bytes
_DENSE = 128  # bytes per candidate


class Leap:
    """Search of a pattern at the candidates that RE2 finds: it skips text without candidates fast, but is slower per
    candidate. For texts with few candidates.

    Wherever the pattern matches and the judge accepts, the expression `like` matches, at the same position or at an
    escaped control character before. It must not match more than a few hundred bytes.
    """

    def __init__(self, like: bytes, pattern: re.Pattern[bytes], judge: Judge) -> None:
        self._like = compile_re2(like)
        self._pattern = pattern
        self._judge = judge

    def is_sparse(self, text: bytes) -> bool:
        """Return whether a text is long, and has few candidates at its start."""
        if len(text) < _SAMPLE:
            return False
        return not _more_than(_SAMPLE // _DENSE, self._like.finditer(text, 0, _SAMPLE))

    def find(self, text: bytes) -> list[Span]:
        return [(start, end) for start, end, _ in self._values(text)]

    def mask(self, text: bytes) -> MaskedText:
        return _replace_values(text, self._values(text))

    def or_mask(self, dense: Mask) -> Mask:
        """Return a mask that leaps in texts with few candidates, and else is `dense`."""
        return lambda text: self.mask(text) if self.is_sparse(text) else dense(text)

    def or_find(self, dense: Find) -> Find:
        """Return a finder that leaps in texts with few candidates, and else is `dense`."""
        return lambda text: self.find(text) if self.is_sparse(text) else dense(text)

    def _values(self, text: bytes) -> Iterator[Value]:
        at = 0
        while like := self._like.search(text, at):
            start = like.start()
            if text[start : start + 1] == b"\\":
                start += 2
            close = self._pattern.match(text, start)
            verdict = self._judge(close.group()) if close is not None else None
            at = start + 1
            if verdict is not None:
                at = start + verdict[0]
                yield start, at, verdict[1]


def _more_than(count: int, matches: Iterable[object]) -> bool:
    return next(islice(matches, count, None), None) is not None


def leaping(candidate: bytes, pattern: re.Pattern[bytes], judge: Judge) -> Find:
    """Return a finder as `spans_valid`, which leaps to candidates in texts with few of them."""
    return Leap(candidate, pattern, judge).or_find(spans_valid(pattern, judge))


def pattern_form(
    candidate: bytes,
    pattern: re.Pattern[bytes],
    mask: bytes,
    score: float,
    *,
    like: bytes | None = None,
    is_quoted: bool = False,
) -> ValueForm:
    """Return the form of a kind that the pattern alone decides, with a fixed replacement. `like` is as in `Leap`."""
    substitute, find = substitute_all(pattern, mask), spans_all(pattern)
    if like is not None:
        substitute, find = _add_leap(Leap(like, pattern, lambda value: (len(value), mask)), like, substitute, find)
    return ValueForm(candidate, substitute, find, score, is_quoted=is_quoted)


def judged_form(
    candidate: bytes,
    pattern: re.Pattern[bytes],
    judge: Judge,
    score: float,
    *,
    like: bytes | None = None,
    is_quoted: bool = False,
) -> ValueForm:
    """Return the form of a kind whose candidates need a closer check. `like` is as in `Leap`."""
    substitute, find = substitute_valid(pattern, judge), spans_valid(pattern, judge)
    if like is not None:
        substitute, find = _add_leap(Leap(like, pattern, judge), like, substitute, find)
    return ValueForm(candidate, substitute, find, score, is_quoted=is_quoted)


def _add_leap(leap: Leap, like: bytes, substitute: Mask, find: Find) -> tuple[Mask, Find]:
    return leap.or_mask(narrow(like, substitute)), leap.or_find(narrow_find(like, find))


def masked_spans(text: bytes, spans: Sequence[Span], mask: bytes) -> MaskedText:
    """Replace each span by `mask`. Spans are sorted and do not overlap."""
    return _replace_values(text, [(start, end, mask) for start, end in spans])


def found_form(
    candidate: bytes,
    find: Find,
    score: float,
    mask: bytes,
    quick: Callable[[bytes], bool] | None = None,
    is_quoted: bool = False,
    label: bytes | None = None,
) -> ValueForm:
    """Return the form of a kind with a fixed replacement wherever `find` finds it."""
    return ValueForm(candidate, lambda text: masked_spans(text, find(text), mask), find, score, quick, is_quoted, label)
