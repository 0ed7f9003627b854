"""Building blocks of the kinds in this folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice

from postern.inspection.masking.detector import (
    BEHIND_EDGE,
    EDGE,
    NOT_BEFORE_WORD,
    Find,
    Judge,
    Span,
    ValueForm,
    compile_re2,
    found_form,
    spans_valid,
    starts_with,
)

MASK = b"****"

_SAMPLE = 2048
_DENSE = 128  # bytes per candidate
_LOOKS_BACK = rb"(?<![0-9A-Za-z_"
_PUNCTUATION = b" .-/+"
_NUMBER_ENDS = NOT_BEFORE_WORD + rb"(?![./-][0-9A-Za-z])"
_FIRST = re.compile(rb"\[[^]]*\]|\\d|[0-9A-Z]")
_PIECE = re.compile(rb"\\.|\{[^}]*\}|\[[^]]*\]|.")
_OF_DIGITS = re.compile(rb"[0-9]|\[[0-9-]+\]")


def number_form(shape: bytes, score: float, check: Callable[[bytes], bool] | None = None) -> ValueForm:
    """Return the form of a number, or of letters and digits, that is not part of a longer chain such as a version or a
    UUID.

    `shape` is an expression without capturing groups and look-around; it starts with a digit or a class of one
    character. `check` receives the value without blanks, dots, hyphens and slashes, in upper case.
    """
    first = _FIRST.match(shape)
    if first is None:
        raise ValueError(f"{shape!r} does not start with one character")
    head, rest = first.group(), shape[first.end() :]
    alone = rb"(?<![0-9A-Za-z][./-]" + head + rb")"
    pattern = re.compile(starts_with(head) + alone + rest + _NUMBER_ENDS)

    def judge(candidate: bytes) -> tuple[int, bytes] | None:
        if check is not None and not check(candidate.translate(None, _PUNCTUATION).upper()):
            return None
        return len(candidate), MASK

    return found_form(_add_edges(_any_digits(shape)), leaping(_add_edges(shape), pattern, judge), score, MASK)


def leaping(candidate: bytes, pattern: re.Pattern[bytes], judge: Judge) -> Find:
    """Return a finder as `spans_valid`, with two strategies: RE2 skips text without candidates, but is slower per
    candidate.

    Where the pattern matches, the candidate does too, perhaps after an escaped control character or earlier. It must
    not match more than a few hundred bytes.
    """
    leap = compile_re2(candidate)
    dense = spans_valid(pattern, judge)

    def find(text: bytes) -> list[Span]:
        if len(text) < _SAMPLE or _more_than(_SAMPLE // _DENSE, leap.finditer(text, 0, _SAMPLE)):
            return dense(text)
        spans: list[Span] = []
        at = 0
        while like := leap.search(text, at):
            start = like.start()
            if text[start : start + 1] == b"\\":
                start += 2
            close = pattern.match(text, start)
            verdict = judge(close.group()) if close is not None else None
            at = start + 1
            if verdict is not None:
                at = start + verdict[0]
                spans.append((start, at))
        return spans

    return find


def _more_than(count: int, matches: Iterable[object]) -> bool:
    return next(islice(matches, count, None), None) is not None


def _add_edges(shape: bytes) -> bytes:
    """Return the shape with edges for RE2: as in the close search, `_` and escaped control characters count as
    edges.
    """
    return EDGE + rb"(?:" + shape + rb")\b"


def _any_digits(shape: bytes) -> bytes:
    """Return the shape with any digit in place of specific ones.

    A combined search has a state for each possible start, and these are far fewer if only the positions of digits
    count.
    """
    return b"".join(rb"\d" if _OF_DIGITS.fullmatch(piece) else piece for piece in _PIECE.findall(shape))


def token_form(candidate: bytes, pattern: bytes, score: float = 0.95, *, group: int | None = None) -> ValueForm:
    """Return the form of values with a characteristic start. The pattern's first group is the value, unless `group` is
    0.

    `pattern` matches only where `candidate` does, which must match a few hundred bytes at most. `pattern` must not read
    text twice: both are tried at every position. After a look-behind for an edge, a pattern continues with a letter or
    digit.
    """
    compiled = re.compile(pattern)
    value = min(1, compiled.groups) if group is None else group
    leap = compile_re2(candidate)

    def find(text: bytes) -> list[Span]:
        if len(text) < _SAMPLE:
            return [match.span(value) for match in compiled.finditer(text)]
        spans: list[Span] = []
        at = 0
        while like := leap.search(text, at):
            start = like.start()
            match = compiled.match(text, start)
            at = start + 1
            if match is not None:
                at = max(at, match.end())
                spans.append(match.span(value))
        return spans

    if pattern.startswith((BEHIND_EDGE, _LOOKS_BACK)):
        candidate = EDGE + rb"(?:" + candidate + rb")"
    return found_form(candidate, find, score, MASK)
