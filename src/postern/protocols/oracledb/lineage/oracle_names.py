"""Comparison of names in Oracle Database: exact, after unquoted ones have been folded to upper case.

The upper case of letters beyond ASCII depends on the character set of the database, so that names with such letters may
be equal although they are spelled differently.
"""

from __future__ import annotations

from typing import Final

from postern.inspection.lineage.scope import NameRules
from postern.inspection.sql.identifier_folding import may_be
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind


def folded_name(token: SqlToken) -> str:
    """Return a name as the server folds it."""
    return token.text.upper() if token.kind is SqlTokenKind.WORD else token.text


RULES: Final = NameRules(may_be=may_be, rows=False, system_columns=frozenset({"ROWID", "ORA_ROWSCN"}), widest=4096)
