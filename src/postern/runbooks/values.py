"""What expressions come to: texts, numbers, true and false, nil, the pieces of a text, and the inputs as a whole.

A text that a quoting function made remembers what it was made of, also within what print makes of it: where it goes
into the script decides whether its quotes hold there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias


class Inputs:
    """The inputs as a whole: what the dot is at the top."""


class Quoted(str):
    """`value` between two `quote`. As a text it is what stands where quotes mean what they do."""

    value: str
    quote: str


class Pieces(str):
    """A text with some that are Quoted in it."""

    parts: tuple[str, ...]


Value: TypeAlias = str | int | float | bool | list[str] | Inputs | None


def quoted_text(text: str, value: str, quote: str) -> Quoted:
    made = Quoted(text)
    made.value, made.quote = value, quote
    return made


def parts_of(text: str) -> tuple[str, ...]:
    return text.parts if isinstance(text, Pieces) else (text,)


def is_made(text: str) -> bool:
    """Whether quotes in it must stay what they are."""
    return isinstance(text, Quoted | Pieces)


def assembled(texts: Iterable[str]) -> str:
    parts = tuple(_flat(texts))
    whole = "".join(parts)
    if not any(isinstance(part, Quoted) for part in parts):
        return whole
    made = Pieces(whole)
    made.parts = parts
    return made


def _flat(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from parts_of(text)


def bare(text: str) -> str:
    """What was given, without the quotes around it."""
    return text.value if isinstance(text, Quoted) else text
