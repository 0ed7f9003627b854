"""Custom types: an expression for a linear-time engine, or words."""

from __future__ import annotations

import codecs
from typing import Any

import re2

from postern.domain.rules.masking import CustomType
from postern.errors import Invalid
from postern.inspection.masking.detector import Found, Span, ValueForm, found_form
from postern.inspection.patterns import PATTERN_MEMORY, SEPARATOR, bound_to_edges, word_pattern

__all__ = ["Found", "check_custom", "custom_form"]

MASK = b"****"
# Checked for every non-empty text: what an expression can match is not known from outside.
_ANY = rb"(?s)."
_FLAGS = "(?ms)"
_UNREADABLE = "postern.unreadable"
_ZERO = b"\x00"
_ADDED = len(SEPARATOR) - len(_ZERO)


def _unreadable(error: UnicodeError) -> tuple[str, int]:
    """Replace each byte that is not UTF-8 by a question mark, so that positions stay the same."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?" * (error.end - error.start), error.end


codecs.register_error(_UNREADABLE, _unreadable)


def check_custom(custom: CustomType) -> None:
    """Check a custom type. Raises Invalid if it cannot be searched."""
    custom_form(custom)


def custom_form(custom: CustomType) -> ValueForm:
    """Return the form of a custom type. Raises Invalid."""
    expressions = [custom.pattern_regex] if custom.pattern_regex else [word_pattern(word) for word in custom.words]
    if not expressions:
        raise Invalid(f"the custom type {custom.name} needs an expression or words", field="custom_types")
    pattern = _compile(custom.name, "|".join(f"(?:{expression})" for expression in expressions))
    cells = _Cells(pattern, not any(bound_to_edges(expression) for expression in expressions))
    return found_form(_ANY, cells, custom.score, MASK, cells.may_hold)


def _compile(name: str, expression: str) -> Any:
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY
    options.log_errors = False
    options.never_capture = True
    options.longest_match = True
    try:
        return re2.compile((_FLAGS + expression).encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        raise Invalid(
            f"the expression of the custom type {name} does not compile: {error}", field="custom_types"
        ) from None


class _Cells:
    """Finder in each cell of joined texts on its own.

    `together`: cells can be searched jointly, because the expression does not look at the edges of the whole text.
    """

    def __init__(self, pattern: Any, together: bool) -> None:
        self._pattern = pattern
        self._together = together

    def may_hold(self, text: bytes) -> bool:
        """Return False if no cell can match, by one search over all cells."""
        if not self._together:
            return bool(text)
        return self._pattern.search(_readable(text).replace(_ZERO, SEPARATOR)) is not None

    def __call__(self, text: bytes) -> list[Span]:
        read = _readable(text)
        spans = self._in_all(read) if self._together else None
        if spans is not None:
            return spans
        spans = []
        at = 0
        for cell in read.split(_ZERO):
            spans += [
                (at + match.start(), at + match.end())
                for match in self._pattern.finditer(cell)
                if match.end() > match.start()
            ]
            at += len(cell) + 1
        return spans

    def _in_all(self, read: bytes) -> list[Span] | None:
        """Search all cells jointly. None if a match touches the separator: in its cell alone, it can be a different
        one.
        """
        joined = read.replace(_ZERO, SEPARATOR)
        spans: list[Span] = []
        at = added = 0  # bytes that are not in `read`, up to `at`
        for match in self._pattern.finditer(joined):
            start, end = match.span()
            if joined.find(_ZERO, max(0, start - 1), end + 1) >= 0:
                return None
            if end > start:
                added += _ADDED * joined.count(_ZERO, at, start)
                at = start
                spans.append((start - added, end - added))
        return spans


def _readable(text: bytes) -> bytes:
    return text if text.isascii() else text.decode("utf-8", _UNREADABLE).encode()
