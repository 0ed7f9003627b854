"""Building blocks of the kinds in this folder."""

from __future__ import annotations

import re
from collections.abc import Callable

from postern.inspection.masking.detector import (
    BEHIND_EDGE,
    EDGE,
    NOT_BEFORE_WORD,
    Span,
    ValueForm,
    compile_re2,
    found_form,
    leaping,
    starts_with,
)

MASK = b"****"

_SAMPLE = 2048  # bytes: shorter texts are searched at once
_LOOKS_BACK = rb"(?<![0-9A-Za-z_"
_PUNCTUATION = b" .-/+"
_NUMBER_ENDS = NOT_BEFORE_WORD + rb"(?![./-][0-9A-Za-z])"
_FIRST = re.compile(rb"\[[^]]*\]|\\d|[0-9A-Z]")
_PIECE = re.compile(rb"\\.|\{[^}]*\}|\[[^]]*\]|.")
_OF_DIGITS = re.compile(rb"[0-9]|\[[0-9-]+\]")


def number_form(
    shape: bytes, score: float, check: Callable[[bytes], bool] | None = None, *, is_quoted: bool = False
) -> ValueForm:
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

    find = leaping(_add_edges(shape), pattern, judge)
    return found_form(_add_edges(_any_digits(shape)), find, score, MASK, is_quoted=is_quoted)


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


def token_form(
    candidate: bytes,
    pattern: bytes,
    score: float = 0.95,
    *,
    group: int | None = None,
    label: bytes | None = None,
    is_quoted: bool = False,
) -> ValueForm:
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
    return found_form(candidate, find, score, MASK, label=label, is_quoted=is_quoted)
