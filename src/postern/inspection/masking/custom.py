"""Kinds of the customer's own: an expression for a linear-time engine, or words."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import re2

from postern.domain.masking import CustomType
from postern.errors import Invalid
from postern.inspection.masking.detector import Form, Found, Span, found_form
from postern.inspection.patterns import PATTERN_MEMORY, word_pattern

__all__ = ["Found", "check_custom", "custom_form"]

MASK = b"****"
# Asked about every text that is not empty: what an expression looks for cannot be told from outside of it.
_ANY = rb"(?s)."
_FLAGS = "(?ms)"
_UNREADABLE = "postern.unreadable"


def _unreadable(error: UnicodeError) -> tuple[str, int]:
    """A question mark for each byte that is no UTF-8, so that places stay the same."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?" * (error.end - error.start), error.end


codecs.register_error(_UNREADABLE, _unreadable)


def check_custom(custom: CustomType) -> None:
    """Raises Invalid for a kind that cannot be looked for."""
    custom_form(custom)


def custom_form(custom: CustomType) -> Form:
    """Raises Invalid."""
    expressions = [custom.pattern_regex] if custom.pattern_regex else [word_pattern(word) for word in custom.words]
    if not expressions:
        raise Invalid(f"the custom type {custom.name} has neither an expression nor words", field="custom_types")
    pattern = _compile(custom.name, "|".join(f"(?:{one})" for one in expressions))
    return found_form(_ANY, _Cells(pattern), custom.score, MASK)


def _compile(name: str, expression: str) -> object:
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
    """Finds in each cell of joined texts on its own, as `^` and `$` see no edge at what joins them."""

    def __init__(self, pattern: object) -> None:
        self._pattern = pattern

    def __call__(self, text: bytes) -> list[Span]:
        read = text if text.isascii() else text.decode("utf-8", _UNREADABLE).encode()
        spans: list[Span] = []
        at = 0
        for cell in read.split(b"\x00"):
            spans += self._in_cell(cell, at)
            at += len(cell) + 1
        return spans

    def _in_cell(self, cell: bytes, at: int) -> Sequence[Span]:
        found = self._pattern.finditer(cell)  # type: ignore[attr-defined]
        return [(at + one.start(), at + one.end()) for one in found if one.end() > one.start()]
