"""Rules written by people: words and patterns, matched in linear time whatever they say.

The engine is RE2. Its rules here, which the documentation of guard rails repeats:

pattern   RE2 syntax, as written. It may hit anywhere in a text. `.` also matches line breaks, `^` and `$` also
          match at them (as if `(?ms)` stood in front; `(?-s)` and `(?-m)` undo it). Letter case matters unless the
          pattern says `(?i)`.
word      Letter case does not matter unless the rule is `case_sensitive`. White space at its ends is dropped; white
          space inside stands for any run of white space. Where the word begins (ends) with one of `[0-9A-Za-z_]`, the
          character before (after) it must not be one of those: `drop` hits `DROP table` and `x;drop`, but not
          `dropped`. Where it begins or ends with any other character it hits as a part of whatever stands around it.
          With `whole_words` false it hits as a part of anything.

Texts are bytes. Where they are not UTF-8, what cannot be read counts as one unknown character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import re2

from postern.errors import Invalid

# What one pattern may cost. It bounds the compiled program, and thereby the time for each byte of text.
PATTERN_MEMORY = 1024 * 1024
# What a look-up over many rules may use, its cache of states included.
LOOKUP_MEMORY = 8 * 1024 * 1024

# Bytes that looking for all places in one text may read: a pattern such as `a(?:[^z]*z)?` reads the rest of the text
# for each of them. Behind that the whole text is hit. What repeats nothing without end does not read on.
MOST_READ = 1 << 30
_ENDLESS = re.compile(r"[*+]|,\s*\}")

SEPARATOR = b"\n\x00\n"  # no `\s` crosses it, and `^`, `$` and `\b` see an edge at it
_FLAGS = "(?ms)"
_WORD_CHARACTER = re.compile(r"[0-9A-Za-z_]")
# What makes a pattern look at the edges of the whole text, or swallow what is written behind it.
_BOUND_TO_EDGES = re.compile(r"\\[Az]|\(\?[A-Za-z]*-")
_QUOTES_THE_REST = "\\Q"


class Compiled(Protocol):
    """What is used of a compiled RE2 pattern."""

    def search(self, text: bytes) -> object | None: ...

    def finditer(self, text: bytes) -> Iterable[Any]: ...


def compiles(pattern: str) -> str | None:
    """None when the pattern can be enforced, else why not, for the person who wrote it."""
    try:
        _compile(_FLAGS + pattern, PATTERN_MEMORY)
    except re2.error as error:
        return _reason(error)
    return None


def word_pattern(word: str, *, whole: bool = True, case_sensitive: bool = False) -> str:
    """The pattern of a deny word. Raises Invalid for a word of white space only."""
    parts = word.split()
    if not parts:
        raise Invalid("a deny word must hold more than white space", field="words")
    before = r"\b" if whole and _WORD_CHARACTER.match(parts[0]) else ""
    after = r"\b" if whole and _WORD_CHARACTER.match(parts[-1][-1]) else ""
    return ("" if case_sensitive else "(?i)") + before + r"[\s\v]+".join(re2.escape(part) for part in parts) + after


def readable(text: bytes) -> bytes:
    """The text as UTF-8: RE2 would let a byte that is not UTF-8 match nothing, not even `.`."""
    if text.isascii():
        return text
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace").encode()
    return text


class Lookup:
    """Whether any of several patterns hits, in one pass where possible. Raises Invalid if one does not compile."""

    __slots__ = ("_anywhere", "_by_text", "_reads_on")

    def __init__(self, patterns: Sequence[str]) -> None:
        self._reads_on = any(_ENDLESS.search(pattern) for pattern in patterns)
        apart = [pattern for pattern in patterns if bound_to_edges(pattern)]
        self._by_text = tuple(_load(_FLAGS + pattern) for pattern in apart)
        self._anywhere = tuple(_alternations([pattern for pattern in patterns if not bound_to_edges(pattern)]))

    def hits(self, text: bytes) -> bool:
        """`text` must be readable."""
        return any(one.search(text) for one in self._anywhere) or any(one.search(text) for one in self._by_text)

    def spans(self, text: bytes) -> list[tuple[int, int]]:
        """(start, end) of what is hit, in order and apart from each other; an empty hit is the whole text, and so are
        more hits than can be told apart in time. `text` must be readable."""
        found: list[tuple[int, int]] = []
        most = MOST_READ // (len(text) + 1) if self._reads_on else len(text) + 1
        for one in (*self._anywhere, *self._by_text):
            for hit in one.finditer(text):
                start, end = hit.span()
                if start == end or len(found) >= most:
                    return [(0, len(text))]
                found.append((start, end))
        found.sort()
        apart: list[tuple[int, int]] = []
        for start, end in found:
            if apart and start <= apart[-1][1]:
                apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
            else:
                apart.append((start, end))
        return apart

    def first_hit(self, texts: Sequence[bytes]) -> int | None:
        """The index of the first text that is hit, judged each on its own."""
        if not self._may_hit(texts):
            return None
        for index, text in enumerate(texts):
            if self.hits(readable(text)):
                return index
        return None

    def _may_hit(self, texts: Sequence[bytes]) -> bool:
        """False when no text can be hit: one look over all of them, instead of one each."""
        if self._by_text:
            return True
        joined = readable(texts[0] if len(texts) == 1 else SEPARATOR.join(texts))
        return any(one.search(joined) for one in self._anywhere)


def bound_to_edges(pattern: str) -> bool:
    """Whether it can tell a text alone from the same text between two separators, or in an alternative with others."""
    return _QUOTES_THE_REST in pattern or _BOUND_TO_EDGES.search(pattern) is not None


def _alternations(patterns: Sequence[str]) -> list[Compiled]:
    """As few compiled alternatives as the engine's memory allows."""
    if not patterns:
        return []
    if len(patterns) == 1:
        return [_load(_FLAGS + patterns[0])]
    try:
        return [_compile("|".join(f"{_FLAGS[:-1]}:{pattern})" for pattern in patterns), LOOKUP_MEMORY)]
    except re2.error:
        middle = len(patterns) // 2
        return _alternations(patterns[:middle]) + _alternations(patterns[middle:])


def _load(pattern: str) -> Compiled:
    try:
        return _compile(pattern, LOOKUP_MEMORY)
    except re2.error as error:
        raise Invalid(f"a rule's pattern does not compile: {_reason(error)}", field="pattern_regex") from None


def _compile(pattern: str, memory: int) -> Compiled:
    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False
    options.never_capture = True
    try:
        data = pattern.encode()
    except UnicodeEncodeError:
        raise re2.error("it holds characters that are no text") from None
    compiled: Compiled = re2.compile(data, options)
    return compiled


def _reason(error: Exception) -> str:
    detail = error.args[0] if error.args else ""
    text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
    return text.replace(_FLAGS, "", 1)
