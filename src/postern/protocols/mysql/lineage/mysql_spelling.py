"""Spelling of a query for sqlglot: the tokens from `mysql_readings`, in words with one meaning only.

Functions are recognised by their written names, before sqlglot could take them for those of other dialects. A function
whose result depends on its arguments becomes `PLAIN(...)`, any other `FOREIGN(...)`. Variables get numbers. Every name
of the text must be in the tree: if a lenient parser leaves one out, the query is unreadable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from postern.inspection.lineage.tree_translation import FOREIGN, PLAIN, unknown_function_name
from postern.inspection.sql.sql_calls import called_at
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, key_at, word
from postern.inspection.sql.sqlglot_tree import tree_of
from postern.protocols.mysql.dialect import mysql_words as words
from postern.protocols.mysql.dialect.mysql_parser import without_extras
from postern.protocols.mysql.dialect.mysql_texts import is_user_variable, variable_name
from postern.protocols.mysql.lineage.mysql_builtins import CALLS, GRAMMAR, ONLY_NAMES, SPECIAL

LAST: Final = "postern_last_id"

Pure = Callable[[tuple[str, ...]], bool]

_JOINED: Final = frozenset({"INNER", "CROSS", "LEFT", "RIGHT", "OUTER", "NATURAL"})


@dataclass(frozen=True, slots=True)
class SpelledQuery:
    """A spelled query. `variables` are the real names behind those in the tree; `doubtful` are column names that were
    written as strings and lost characters. `assigns`: it may assign a variable."""

    tree: exp.Expr
    variables: dict[str, str]
    doubtful: frozenset[str]
    assigns: bool


def spell_query(tokens: Sequence[SqlToken], verb: str, pure: Pure) -> SpelledQuery:
    """Spell a query. Raises Unreadable."""
    variables: dict[str, str] = {}
    plain: list[SqlToken] = []
    names: Counter[str] = Counter()
    calls = dict(called_at(tokens, CALLS))
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if place in calls:
            plain.append(_replace_function_name(tokens, place, calls[place], pure))
            place = calls[place]
            continue
        before = key_at(tokens, place - 1)
        place += 1
        if token.key == "PROCEDURE":
            raise UnreadableSql("it uses PROCEDURE ANALYSE")
        if token.key == "JOIN" and before not in _JOINED:
            plain.append(word("INNER"))
        elif token.key in ONLY_NAMES:
            token = SqlToken(SqlTokenKind.NAME, token.text)
        elif is_user_variable(token):
            number = f"v{len(variables)}"
            variables[number] = variable_name(token)
            token = SqlToken(SqlTokenKind.VARIABLE, f"@{number}")
        if token.is_name and token.key not in GRAMMAR:
            names[token.text.lower()] += 1
        plain.append(token)
    tree, nodes = tree_of(without_extras(plain, verb), "INSERT" if verb == "REPLACE" else verb, words.GRAMMAR)
    _check_names(names, nodes)
    strings = {token.text for token in tokens if token.kind is SqlTokenKind.STRING}
    assigns = any(isinstance(node, exp.PropertyEQ) or unknown_function_name(node) == LAST for node in nodes)
    return SpelledQuery(tree, variables, frozenset(text for text in strings if "_" in text), assigns)


def _replace_function_name(tokens: Sequence[SqlToken], start: int, bracket: int, pure: Pure) -> SqlToken:
    """Return the replacement name of the function that begins there."""
    parts = tuple(each.text for each in tokens[start:bracket] if each.key != ".")
    last = tokens[bracket - 1]
    if len(parts) == 1 and last.key == "LAST_INSERT_ID" and pure(("ROW_COUNT",)):
        return word(LAST)
    if (last.kind is SqlTokenKind.NAME and len(parts) == 1) or not pure(parts):
        return word(FOREIGN)
    return last if last.key in SPECIAL else word(PLAIN)


def _check_names(names: Counter[str], nodes: Sequence[exp.Expr]) -> None:
    counter: Counter[str] = Counter()
    for node in nodes:
        counter.update(value.lower() for value in node.args.values() if isinstance(value, str))
    for name, count in names.items():
        if count > counter[name]:
            raise UnreadableSql("a name in it is not understood")
