"""Queries in a plainer spelling, for the parts of T-SQL that sqlglot does not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, closing, key_at, symbol, word

ASSIGNMENTS: Final = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="})
# Methods of the type XML. Their names are case-sensitive, and their first argument is a literal.
_METHODS: Final = frozenset({"exist", "nodes", "query", "value"})
_FUNCTION: Final = word("STRING_SPLIT")  # stands for a method: its result depends on its arguments alone


def plain_query(tokens: Sequence[SqlToken], schema: TargetSchema | None) -> list[SqlToken]:
    """Remove or replace TOP (n) in changes, MERGE in MERGE JOIN, `+=`, methods of XML values, and `'key':value`."""
    plain: list[SqlToken] = []
    place = 0
    while place < len(tokens):
        token, before, after = tokens[place], key_at(tokens, place - 1), key_at(tokens, place + 1)
        if token.key == "TOP" and before in ("UPDATE", "DELETE", "INSERT", "MERGE") and after == "(":
            place = _behind_top(tokens, place + 1)
            continue
        if _is_method(tokens, place, schema):
            place = _replace_method(plain, tokens, place)
            continue
        if token.key in ("NULL", "ABSENT") and after == "ON" and key_at(tokens, place + 2) == "NULL":
            place += 3  # of JSON_OBJECT and JSON_ARRAY
            continue
        if token.key in ASSIGNMENTS:
            plain.append(symbol("="))
        elif token.key == ":":
            plain.append(symbol(","))
        elif token.text.startswith("#") and token.kind is SqlTokenKind.WORD:
            plain.append(SqlToken(SqlTokenKind.NAME, token.text))
        elif token.key != "MERGE" or after != "JOIN":
            plain.append(token)
        place += 1
    return plain


def _behind_top(tokens: Sequence[SqlToken], opening: int) -> int:
    place = closing(tokens, opening) + 1
    if any(token.key in ("(", "SELECT") for token in tokens[opening + 1 : place]):
        raise UnreadableSql("the number of rows in its TOP is unknown")
    return place + (key_at(tokens, place) == "PERCENT")


def _is_method(tokens: Sequence[SqlToken], place: int, schema: TargetSchema | None) -> bool:
    """Return whether a method of an XML value is called here, and no function of that name."""
    if place < 2 or tokens[place].text not in _METHODS or key_at(tokens, place - 1) != ".":
        return False
    argument = tokens[place + 2] if key_at(tokens, place + 1) == "(" and place + 2 < len(tokens) else None
    if argument is None or argument.kind is not SqlTokenKind.STRING:
        return False
    owner = tokens[place - 2].text.lower()
    if tokens[place - 2].key == ")" or tokens[place - 2].kind is SqlTokenKind.VARIABLE:
        return True
    is_function = schema is not None and any(
        (key[0].lower(), key[1].lower()) == (owner, tokens[place].text) for key in schema.functions
    )
    return tokens[place - 2].is_name and owner not in ("dbo", "sys") and not is_function


def _replace_method(plain: list[SqlToken], tokens: Sequence[SqlToken], place: int) -> int:
    """Spell `a.b.value('…')` as `STRING_SPLIT(a.b, '…')`, and `(…).value('…')` as `(…) + STRING_SPLIT('…')`."""
    plain.pop()  # the dot
    if plain[-1].key == ")":
        plain += [symbol("+"), _FUNCTION, tokens[place + 1]]
        return place + 2
    start = len(plain) - 1
    while start >= 2 and plain[start - 1].key == "." and plain[start - 2].is_name:
        start -= 2
    plain[start:] = [_FUNCTION, symbol("("), *plain[start:], symbol(",")]
    return place + 2
