"""Names as MySQL and MariaDB compare them.

Those of columns are the same in any case. Those of tables, of databases and of aliases of tables are so where the
server was told to (`lower_case_table_names`), which nobody here knows: what is spelled alike wins where both are there,
else either may be meant. Some servers compare letters beyond ASCII without their accents, so such names are the same
for certain only when they are spelled alike.
"""

from __future__ import annotations

from typing import Final

from postern.inspection.lineage.scope import NameRules
from postern.protocols.mysql.dialect.mysql_texts import folded


def column_name(text: str) -> str:
    """As columns are compared."""
    return text.lower() if text.isascii() else text


def may_be(one: str | None, name: str) -> bool:
    """Whether some server may take the first for the second, where they are not spelled alike."""
    if one is None:
        return True
    return one != name and not (one.isascii() and name.isascii()) and folded(one) == folded(name)


RULES: Final = NameRules(fold=folded, may_be=may_be, hides=False, rows=False, sees_aliases=True, widest=4096)
