"""Comparison of names in SQL Server, which a collation decides.

Names mostly ignore case, and with some collations accents and the width of letters. Two names are certainly equal only
if they differ at most in the case of ASCII letters, and in blanks at their end.
"""

from __future__ import annotations

from typing import Final

from postern.inspection.lineage.scope import NameRules
from postern.inspection.sql.identifier_folding import fold_identifier, may_be


def column_name(text: str) -> str:
    """Return the name in the form in which columns are compared."""
    return text.lower().rstrip() if text.isascii() else text


RULES: Final = NameRules(fold=fold_identifier, may_be=may_be, rows=False, widest=4096)
