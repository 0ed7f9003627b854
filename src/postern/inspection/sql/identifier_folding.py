"""Comparison of names that servers compare by a collation, which may ignore case, accents and the width of letters."""

from __future__ import annotations

import unicodedata


def fold_identifier(text: str) -> str:
    """Fold a name, so that all names that some server may treat as equal are equal."""
    if text.isascii():
        return text.lower().rstrip()
    letters = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize(
        "NFKC", "".join(letter for letter in letters if not unicodedata.combining(letter))
    ).rstrip()


def may_be(column: str | None, name: str) -> bool:
    """Return whether some server may treat the two names as equal, although they are spelled differently.
    `column` is None if it is unknown."""
    if column is None:
        return True
    return (
        column != name
        and not (column.isascii() and name.isascii())
        and fold_identifier(column) == fold_identifier(name)
    )
