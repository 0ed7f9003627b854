"""The tables that the views and synonyms of a SQL Server target read (see `inspection.sql.view_reach`).

The catalogue has the text of each view as its author wrote it, from CREATE on. A synonym is a view of everything in
its object.
"""

from __future__ import annotations

from typing import Final

from postern.domain.rules.statement import ObjectName
from postern.inspection.sql.sql_tokens import SqlToken, closing, key_at
from postern.inspection.sql.view_reach import DialectViews

SYSTEM_SCHEMAS: Final = frozenset({"information_schema", "sys"})


def _is_of_system(name: ObjectName) -> bool:
    return name.schema.lower() in SYSTEM_SCHEMAS or name.name.startswith("#")


VIEWS: Final = DialectViews(
    SYSTEM_SCHEMAS, _is_of_system, "if its definition is hidden, grant VIEW DEFINITION to the connection's user"
)


def query_of_view(tokens: list[SqlToken]) -> tuple[list[SqlToken], list[str]]:
    """Return the query of a definition and its list of column names, from `CREATE VIEW … AS` on or without it."""
    if key_at(tokens, 0) not in ("CREATE", "ALTER"):
        return tokens, []
    start = next((at for at, token in enumerate(tokens) if token.key == "AS" and at > 2), len(tokens))
    names: list[str] = []
    opening = next((at for at, token in enumerate(tokens[:start]) if token.key == "("), start)
    if opening < start:
        names = [token.text for token in tokens[opening : closing(tokens, opening)] if token.is_name]
    end = len(tokens)
    if [token.key for token in tokens[-3:]] == ["WITH", "CHECK", "OPTION"]:
        end -= 3
    return tokens[start + 1 : end], names
