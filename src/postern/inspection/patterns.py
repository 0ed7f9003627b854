"""User-written words and patterns, matched in time that is linear in the text.

The engine is RE2. These rules are repeated in the documentation of guardrails:

pattern   RE2 syntax, as written. It can match anywhere in a text. `.` also matches line breaks, `^` and `$` also
          match at them (as with a leading `(?ms)`; `(?-s)` and `(?-m)` undo it). Case-sensitive unless the pattern
          says `(?i)`.
word      Case-insensitive unless the rule is `case_sensitive`. White space at its ends is dropped; white space inside
          matches any run of white space. If the word begins (ends) with one of `[0-9A-Za-z_]`, the character before
          (after) the match must not be one of those: `drop` matches `DROP table` and `x;drop`, but not `dropped`. If
          it begins (ends) with another character, or `whole_words` is false, it matches inside of words too.

Texts are bytes. Invalid UTF-8 sequences count as one unknown character each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import re2

from postern.errors import Invalid
from postern.inspection.required_literals import required_literals

# Memory limit of one compiled pattern. It bounds the program's size, and thereby the time per byte of text.
PATTERN_MEMORY = 1024 * 1024
# Memory limit of a look-up over many rules, including its cache of states.
LOOKUP_MEMORY = 8 * 1024 * 1024

# Beyond this number of literals, a search takes less time than looking for each of them.
MOST_LITERALS = 24

# Limit of bytes read to find all matches in one text: a pattern such as `a(?:[^z]*z)?` reads the rest of the text for
# each of them. Beyond it, the whole text counts as a match. Patterns without endless repetition do not read on.
MOST_READ = 1 << 30
_ENDLESS = re.compile(r"[*+]|,\s*\}")

SEPARATOR = b"\n\x00\n"  # `\s` does not cross it; `^`, `$` and `\b` match at it
_FLAGS = "(?ms)"
_WORD_CHARACTER = re.compile(r"[0-9A-Za-z_]")
# Constructs that look at the edges of the whole text, or that swallow what follows the pattern.
_BOUND_TO_EDGES = re.compile(r"\\[Az]|\(\?[A-Za-z]*-")
_QUOTES_THE_REST = "\\Q"


class Compiled(Protocol):
    """Used part of a compiled RE2 pattern."""

    def search(self, text: bytes) -> object | None: ...

    def finditer(self, text: bytes) -> Iterable[Any]: ...


def compiles(pattern: str) -> str | None:
    """Return None if the pattern can be enforced, else why not, for its author."""
    try:
        _compile(_FLAGS + pattern, PATTERN_MEMORY)
    except re2.error as error:
        return _reason(error)
    return None


def word_pattern(word: str, *, whole: bool = True, case_sensitive: bool = False) -> str:
    """Return the pattern of a deny word. Raises Invalid for a word of white space only."""
    parts = word.split()
    if not parts:
        raise Invalid("a deny word must contain more than white space", field="words")
    before = r"\b" if whole and _WORD_CHARACTER.match(parts[0]) else ""
    after = r"\b" if whole and _WORD_CHARACTER.match(parts[-1][-1]) else ""
    return ("" if case_sensitive else "(?i)") + before + r"[\s\v]+".join(re2.escape(part) for part in parts) + after


def readable(text: bytes) -> bytes:
    """Return the text as valid UTF-8. In RE2 nothing matches an invalid byte, not even `.`."""
    if text.isascii():
        return text
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace").encode()
    return text


class Lookup:
    """Look-up of several patterns, in one pass if possible. Raises Invalid if a pattern does not compile."""

    __slots__ = ("_anywhere", "_by_text", "_literals", "_reads_on")

    def __init__(self, patterns: Sequence[str]) -> None:
        self._reads_on = any(_ENDLESS.search(pattern) for pattern in patterns)
        apart = [pattern for pattern in patterns if bound_to_edges(pattern)]
        self._by_text = tuple(_load(_FLAGS + pattern) for pattern in apart)
        self._anywhere = tuple(_alternations([pattern for pattern in patterns if not bound_to_edges(pattern)]))
        self._literals = _literals_of(patterns)

    def hits(self, text: bytes) -> bool:
        """Return whether a pattern matches. `text` must be readable."""
        return not self._lacks_literals(text) and (_search(self._anywhere, text) or _search(self._by_text, text))

    def spans(self, text: bytes) -> list[tuple[int, int]]:
        """Return the matches as sorted, disjoint (start, end) spans. `text` must be readable.

        An empty match counts as the whole text, and so do more matches than can be found in reasonable time.
        """
        matches: list[tuple[int, int]] = []
        most = MOST_READ // (len(text) + 1) if self._reads_on else len(text) + 1
        for compiled in (*self._anywhere, *self._by_text):
            for match in compiled.finditer(text):
                start, end = match.span()
                if start == end or len(matches) >= most:
                    return [(0, len(text))]
                matches.append((start, end))
        matches.sort()
        apart: list[tuple[int, int]] = []
        for start, end in matches:
            if apart and start <= apart[-1][1]:
                apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
            else:
                apart.append((start, end))
        return apart

    def first_hit(self, texts: Sequence[bytes]) -> int | None:
        """Return the index of the first text that matches, each judged on its own."""
        if not self._may_hit(texts):
            return None
        for index, text in enumerate(texts):
            if self.hits(readable(text)):
                return index
        return None

    def _may_hit(self, texts: Sequence[bytes]) -> bool:
        """Return False if no text can match. One search over all texts replaces one search per text."""
        joined = readable(texts[0] if len(texts) == 1 else SEPARATOR.join(texts))
        if self._lacks_literals(joined):
            return False
        return bool(self._by_text) or _search(self._anywhere, joined)

    def _lacks_literals(self, text: bytes) -> bool:
        """Return True if the text contains nothing that a match would contain. Letters beyond ASCII can match ASCII
        ones, so texts with some are searched."""
        if not self._literals or not text.isascii():
            return False
        folded = text.lower()
        return all(folded.find(literal) < 0 for literal in self._literals)


def _search(patterns: tuple[Compiled, ...], text: bytes) -> bool:
    return any(compiled.search(text) is not None for compiled in patterns)


def _literals_of(patterns: Sequence[str]) -> tuple[bytes, ...]:
    """Return literals of which every match of a pattern contains one, or nothing if that is not known or no help."""
    literals: set[bytes] = set()
    for pattern in patterns:
        required = required_literals(pattern)
        if not required:
            return ()
        literals.update(required)
    return tuple(sorted(literals)) if len(literals) <= MOST_LITERALS else ()


def bound_to_edges(pattern: str) -> bool:
    """Return whether the pattern behaves differently between separators, or as one alternative of many."""
    return _QUOTES_THE_REST in pattern or _BOUND_TO_EDGES.search(pattern) is not None


def _alternations(patterns: Sequence[str]) -> list[Compiled]:
    """Return as few compiled alternations as the engine's memory limit allows."""
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
        raise re2.error("it contains characters that are not valid text") from None
    compiled: Compiled = re2.compile(data, options)
    return compiled


def _reason(error: Exception) -> str:
    detail = error.args[0] if error.args else ""
    text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
    return text.replace(_FLAGS, "", 1)
