"""The OUTPUT clause of a change, which sqlglot does not know everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql, closing, dotted_name, key_at

_ENDS: Final = frozenset(
    {"DEFAULT", "EXEC", "EXECUTE", "FROM", "INTO", "OPTION", "OUTPUT", "SELECT", "VALUES", "WHERE", "WITH", "("}
)


@dataclass(frozen=True, slots=True)
class OutputClause:
    """The columns that a change returns, and the table into which it puts them instead, if any."""

    columns: tuple[SqlToken, ...]
    into: str = ""
    into_columns: tuple[str, ...] = ()


def without_output(tokens: Sequence[SqlToken], verb: str) -> tuple[list[SqlToken], OutputClause | None]:
    """Return a change without its OUTPUT, and that. Raises UnreadableSql if it has several."""
    depth, start = 0, len(tokens)
    for place, token in enumerate(tokens):
        depth += (token.key == "(") - (token.key == ")")
        if token.key in ("EXEC", "EXECUTE") and verb == "INSERT":
            break  # its own OUTPUT marks arguments
        if token.key == "OUTPUT":
            if depth or verb == "SELECT" or start < len(tokens):
                raise UnreadableSql("its OUTPUT clause is not understood")
            start = place
    if start == len(tokens):
        return list(tokens), None
    end = _end_of_list(tokens, start + 1)
    columns, into, after = tuple(tokens[start + 1 : end]), "", end
    names: tuple[str, ...] = ()
    if key_at(tokens, end) == "INTO":
        parts, after = dotted_name(tokens, end + 1)
        into = parts[-1] if parts else tokens[end + 1].text if end + 1 < len(tokens) else ""
        after = after if parts else end + 2
        if key_at(tokens, after) == "(" and key_at(tokens, after + 1) != "SELECT":
            close = closing(tokens, after)
            names = tuple([each.text for each in tokens[after:close] if each.is_name])
            after = close + 1
    return [*tokens[:start], *tokens[after:]], OutputClause(columns, into, names)


def _end_of_list(tokens: Sequence[SqlToken], place: int) -> int:
    depth = 0
    for at in range(place, len(tokens)):
        key = tokens[at].key
        is_inner_query = key == "(" and key_at(tokens, at + 1) in ("SELECT", "WITH", "VALUES") and depth == 0
        if depth == 0 and ((key in _ENDS and key != "(") or is_inner_query):
            return at
        depth += (key == "(") - (key == ")")
    return len(tokens)
