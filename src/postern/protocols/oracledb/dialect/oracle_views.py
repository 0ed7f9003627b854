"""The tables that the views and synonyms of an Oracle target read (see `inspection.sql.view_reach`).

The catalogue has the query of each view as its author wrote it, with or without CREATE. A synonym is a view of
everything in its object. A name without a schema is looked up in that of the session, then among public synonyms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postern.domain.rules.statement import ObjectName
from postern.inspection.sql.sql_tokens import SqlToken, closing, key_at
from postern.inspection.sql.view_reach import DialectViews

SYSTEM_SCHEMAS: Final = frozenset({"sys", "system"})
_PREFIXES: Final = ("ALL_", "USER_", "DBA_", "CDB_", "V$", "GV$", "V_$", "NLS_", "SESSION_", "ROLE_")
_OTHERS: Final = frozenset({"DUAL", "TAB", "CAT", "DICT", "DICTIONARY", "DICT_COLUMNS", "PRODUCT_COMPONENT_VERSION"})


def _is_of_system(name: ObjectName) -> bool:
    """Return whether a name is one of the data dictionary, which every schema has under this name."""
    if name.schema and name.schema.lower() not in SYSTEM_SCHEMAS:
        return False
    return name.schema != "" or name.name in _OTHERS or name.name.startswith(_PREFIXES)


VIEWS: Final = DialectViews(
    SYSTEM_SCHEMAS, _is_of_system, "if its definition is hidden, grant SELECT_CATALOG_ROLE to the connection's user"
)


def query_of_view(tokens: Sequence[SqlToken]) -> tuple[list[SqlToken], list[str]]:
    """Return the query of a definition and its list of column names, if it has one."""
    start, names = 0, list[str]()
    if key_at(tokens, 0) in ("CREATE", "ALTER"):
        start = _query_after_as(tokens)
        opening = next((at for at, token in enumerate(tokens[:start]) if token.key == "("), start)
        if opening < start:
            names = [token.text for token in tokens[opening : closing(tokens, opening)] if token.is_name]
    query = [token for token in tokens[start:] if token.key != ";"]
    listed = [token.key for token in query]
    for place in range(max(0, len(query) - 5), len(query) - 2):
        if listed[place : place + 3] in (["WITH", "CHECK", "OPTION"], ["WITH", "READ", "ONLY"]):
            return query[:place], names
    return query, names


def _query_after_as(tokens: Sequence[SqlToken]) -> int:
    for place in range(2, len(tokens) - 1):
        if tokens[place].key == "AS" and tokens[place + 1].key in ("SELECT", "WITH", "("):
            return place + 1
    return len(tokens)
