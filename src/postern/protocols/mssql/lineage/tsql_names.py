"""Comparison of names in SQL Server, which a collation decides.

Names mostly ignore case, and with some collations accents and the width of letters. Two names are certainly equal only
if they differ at most in the case of ASCII letters, and in blanks at their end.
"""

from __future__ import annotations

from typing import Final

from postern.inspection.lineage.scope import NameRules
from postern.inspection.sql.identifier_folding import fold_identifier


def column_name(text: str) -> str:
    """Return the name in the form in which columns are compared."""
    return text.lower().rstrip() if text.isascii() else text


def may_be(column: str | None, name: str) -> bool:
    """Return whether some server may treat the two names as equal, although they are spelled differently."""
    if column is None:
        return True
    return (
        column != name
        and not (column.isascii() and name.isascii())
        and fold_identifier(column) == fold_identifier(name)
    )


RULES: Final = NameRules(fold=fold_identifier, may_be=may_be, rows=False, widest=4096)
