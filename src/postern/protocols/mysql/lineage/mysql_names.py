"""Comparison of names in MySQL and MariaDB.

Names of columns ignore case. Names of tables, databases and table aliases do so if the server's
`lower_case_table_names` says so, which is unknown here: an exact match wins if both exist, otherwise either may be
meant. Some servers ignore accents of letters beyond ASCII, so such names are certainly equal only if spelled alike.
"""

from __future__ import annotations

from typing import Final

from postern.inspection.lineage.scope import NameRules
from postern.inspection.sql.identifier_folding import fold_identifier, may_be


def column_name(text: str) -> str:
    """Return the name in the form in which columns are compared."""
    return text.lower() if text.isascii() else text


RULES: Final = NameRules(fold=fold_identifier, may_be=may_be, hides=False, rows=False, sees_aliases=True, widest=4096)
