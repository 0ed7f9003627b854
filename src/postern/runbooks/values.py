"""Values of expressions: texts, numbers, booleans, nil, the pieces of a text, and the inputs as a whole.

A text that a quoting function returned remembers its value, even inside the output of print: the position in the script
decides whether its quotes work there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias


class Inputs:
    """All inputs: the dot at the top level."""


class Quoted(str):
    """Quoted text: `value` between two `quote`, in its form where quotes have their normal meaning."""

    value: str
    quote: str


class Pieces(str):
    """Text that contains Quoted parts."""

    parts: tuple[str, ...]


Value: TypeAlias = str | int | float | bool | list[str] | Inputs | None


def quoted_text(text: str, value: str, quote: str) -> Quoted:
    quoted = Quoted(text)
    quoted.value, quoted.quote = value, quote
    return quoted


def parts_of(text: str) -> tuple[str, ...]:
    return text.parts if isinstance(text, Pieces) else (text,)


def is_made(text: str) -> bool:
    """Return whether it contains quotes that must stay unchanged."""
    return isinstance(text, Quoted | Pieces)


def assemble(texts: Iterable[str]) -> str:
    parts = tuple(_flat(texts))
    whole = "".join(parts)
    if not any(isinstance(part, Quoted) for part in parts):
        return whole
    pieces = Pieces(whole)
    pieces.parts = parts
    return pieces


def _flat(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from parts_of(text)


def bare(text: str) -> str:
    """Return the value without the quotes around it."""
    return text.value if isinstance(text, Quoted) else text
