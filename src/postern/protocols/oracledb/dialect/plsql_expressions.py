"""Names in an expression of PL/SQL that its block does not declare: functions, and values of packages.

A function needs no parentheses, so every name that is neither declared nor a function of the server counts as a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from postern.inspection.sql.sql_tokens import (
    SqlToken,
    SqlTokenKind,
    UnreadableSql,
    closing,
    dotted_name,
    key_at,
    symbol,
    words_of,
)
from postern.protocols.oracledb.dialect.plsql_names import SCALARS, LocalKind, LocalNames, local_name

BARE: Final = words_of(
    """
    SYSDATE SYSTIMESTAMP CURRENT_DATE CURRENT_TIMESTAMP LOCALTIMESTAMP SESSIONTIMEZONE DBTIMEZONE USER UID SQLCODE
    NULL TRUE FALSE
    """
)
_OPERATORS: Final = words_of(
    """
    AND OR NOT IS IN LIKE BETWEEN MOD CASE WHEN THEN ELSE END ALL ANY DISTINCT
    """
)
# Operators that can be names, too: they follow a value.
_SOFT_OPERATORS: Final = words_of("LIKEC LIKE2 LIKE4 ESCAPE AS MULTISET SUBMULTISET MEMBER OF A SET EMPTY")
# Words that a query has, and no expression.
_OF_QUERIES: Final = words_of("SELECT FROM WHERE INSERT UPDATE DELETE MERGE INTO BEGIN DECLARE LOOP IF EXISTS WITH")
_LITERALS: Final = frozenset({"DATE", "TIMESTAMP", "INTERVAL"})
_METHODS: Final = words_of("COUNT DELETE EXISTS EXTEND FIRST LAST LIMIT NEXT PRIOR TRIM")
_ATTRIBUTES: Final = words_of("FOUND NOTFOUND ISOPEN ROWCOUNT BULK_ROWCOUNT BULK_EXCEPTIONS")
_BIND: Final = SqlToken(SqlTokenKind.VARIABLE, ":b")


@dataclass(frozen=True, slots=True)
class ForeignName:
    """A name that is not declared. `tokens` are the name with its dots."""

    tokens: tuple[SqlToken, ...]
    is_called: bool

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(token.text.upper() for token in self.tokens if token.key != ".")


def foreign_names(tokens: Sequence[SqlToken], names: LocalNames) -> Iterator[ForeignName]:
    """Yield the names of an expression that its block does not declare. Raises UnreadableSql."""
    plain_ends: set[int] = set()  # closing parentheses of declared collections
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if not token.is_name:
            if token.key == "@":
                raise UnreadableSql("the effect of a call over a database link is unknown")
            place += 1
            continue
        _, end = dotted_name(tokens, place)
        found = _foreign(tokens, place, end, names, plain_ends)
        if found is not None:
            yield found
        place = max(end, place + 1)


def _foreign(
    tokens: Sequence[SqlToken], place: int, end: int, names: LocalNames, plain_ends: set[int]
) -> ForeignName | None:
    token, before, after = tokens[place], key_at(tokens, place - 1), key_at(tokens, end)
    name = ForeignName(tuple(tokens[place:end]), after == "(")
    count = len(name.parts)
    if before == "%":
        if token.key not in _ATTRIBUTES:
            raise UnreadableSql("an attribute is not understood")
        if after == "(":
            plain_ends.add(closing(tokens, end))
        return None
    if before == ".":
        is_plain = place - 2 in plain_ends and count == 1 and (after != "(" or token.key in _METHODS)
        return None if is_plain else name
    if count == 1 and token.kind is SqlTokenKind.WORD:
        if after == "=>" or token.key in _OPERATORS or (token.key == "SQL" and after == "%"):
            return None
        if token.key in _LITERALS and end < len(tokens) and tokens[end].kind is SqlTokenKind.STRING:
            return None
        if before == "AS" and token.key in SCALARS:
            return None
        if token.key in _SOFT_OPERATORS and _follows_value(tokens, place) and after != ".":
            return None
        if _is_unit(tokens, place):
            return None
    kind = names.kind(local_name(token))
    if kind is None and count == 2 and after != "(" and names.is_label(local_name(token)):
        return None if names.kind(local_name(name.tokens[-1])) is LocalKind.PLAIN else name
    if kind is None:
        if token.key in _OF_QUERIES and count == 1:
            raise UnreadableSql("a query in an expression is not understood")
        is_value = count == 1 and after != "(" and token.key in BARE
        return None if is_value else name
    if kind is LocalKind.PLAIN and after == "(" and count == 1:
        plain_ends.add(closing(tokens, end))
    if count == 1:
        return None
    method = name.tokens[-1].key
    is_field = kind is LocalKind.PLAIN and count == 2 and (after != "(" or method in _METHODS)
    return None if is_field or (count == 2 and method in _METHODS and kind is not LocalKind.CODE) else name


def _follows_value(tokens: Sequence[SqlToken], place: int) -> bool:
    """Return whether a word is after a value, so that it cannot be one itself."""
    before = tokens[place - 1] if place else None
    if before is None or before.key in _OPERATORS | _SOFT_OPERATORS:
        return False
    return before.kind is not SqlTokenKind.SYMBOL or before.key == ")"


def _is_unit(tokens: Sequence[SqlToken], place: int) -> bool:
    """Return whether a word is the unit of an interval, or a part of a date in EXTRACT."""
    key = tokens[place].key
    if key not in (
        "YEAR",
        "MONTH",
        "DAY",
        "HOUR",
        "MINUTE",
        "SECOND",
        "TO",
        "FROM",
        "TIMEZONE_HOUR",
        "TIMEZONE_MINUTE",
    ):
        return False
    before = tokens[place - 1] if place else None
    in_interval = before is not None and before.kind is SqlTokenKind.STRING and key_at(tokens, place - 2) == "INTERVAL"
    in_range = key == "TO" and key_at(tokens, place - 1) in ("YEAR", "DAY", "HOUR", "MINUTE")
    after_range = key_at(tokens, place - 1) == "TO"
    in_extract = key_at(tokens, place - 1) == "(" and key_at(tokens, place - 2) == "EXTRACT"
    is_from = key == "FROM" and (key_at(tokens, place - 2) == "(" or key_at(tokens, place - 3) == "(")
    return in_interval or in_range or after_range or in_extract or is_from


def called_tokens(name: ForeignName) -> list[SqlToken]:
    """Return the tokens of a call of a name without arguments, after a word."""
    return [SqlToken(SqlTokenKind.WORD, "RETURN", "RETURN"), *name.tokens, symbol("("), symbol(")")]


def with_bound_names(tokens: Sequence[SqlToken], names: LocalNames) -> list[SqlToken]:
    """Return a statement of SQL in a block with bind variables for declared names, where these cannot be columns:
    elements of collections, fields of records, and in conditions. So a condition without columns is seen as one. Names
    of tables stay."""
    aliases = {token.text.upper() for place, token in enumerate(tokens) if _may_be_alias(tokens, place)}
    tables = _table_places(tokens)
    replaced: list[SqlToken] = []
    is_condition = False
    place = 0
    while place < len(tokens):
        token = tokens[place]
        is_condition = is_condition or token.key in ("WHERE", "ON")
        is_own = token.is_name and place not in tables and key_at(tokens, place - 1) != "."
        kind = names.kind(local_name(token)) if is_own else None
        after = key_at(tokens, place + 1)
        if kind is LocalKind.PLAIN and after == "(" and names.is_collection(token):
            place = _behind_element(tokens, closing(tokens, place + 1) + 1)
            replaced.append(_BIND)
        elif kind is LocalKind.PLAIN and after == "." and local_name(token) not in aliases:
            place = min(place + 3, len(tokens))
            if key_at(tokens, place) in ("(", "."):
                raise UnreadableSql("a method in a statement of a block is not understood")
            replaced.append(_BIND)
        else:
            is_value = kind not in (None, LocalKind.CODE) and is_condition and after not in (".", "(")
            replaced.append(_BIND if is_value else token)
            place += 1
    return replaced


def _table_places(tokens: Sequence[SqlToken]) -> set[int]:
    """Return the places of names in clauses that list tables, outside of the parentheses in them."""
    places: set[int] = set()
    clauses = [""]
    for place, token in enumerate(tokens):
        key = token.key
        if key == "(":
            is_list = clauses[-1] in _OF_TABLES and key_at(tokens, place - 1) in (*_OF_TABLES, ",", "(")
            clauses.append(clauses[-1] if is_list else "")
        elif key == ")":
            if len(clauses) > 1:
                clauses.pop()
        elif key in _OF_TABLES or key in _OF_VALUES:
            clauses[-1] = key
        elif token.is_name and clauses[-1] in _OF_TABLES:
            places.add(place)
    return places


_OF_TABLES: Final = words_of("FROM JOIN INTO UPDATE DELETE MERGE USING TABLE")
_OF_VALUES: Final = words_of("SELECT WHERE SET VALUES ON GROUP ORDER HAVING CONNECT START RETURNING WHEN")


def _behind_element(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the place after the field of an element."""
    if key_at(tokens, place) != ".":
        return place
    if key_at(tokens, place + 2) in ("(", "."):
        raise UnreadableSql("a method in a statement of a block is not understood")
    return place + 2


def _may_be_alias(tokens: Sequence[SqlToken], place: int) -> bool:
    return tokens[place].is_name and key_at(tokens, place + 1) != "." and key_at(tokens, place - 1) != "."
