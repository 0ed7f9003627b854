"""DBMS_SQL in a block, in a plainer spelling: a text that it parses is one that the block runs.

    DBMS_SQL.PARSE(c, 'DELETE …', DBMS_SQL.NATIVE);      EXECUTE IMMEDIATE 'DELETE …';
    n := DBMS_SQL.EXECUTE(c);                             n := COALESCE(c);

A cursor is a number that the session keeps, so another block could run again what an earlier one has parsed. Only
cursors that a block has opened itself are understood: each is a declared variable that has no other value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, closing, key_at, split_at_commas, word, words_of
from postern.protocols.oracledb.dialect.plsql_names import local_name

_PACKAGE: Final = "DBMS_SQL"
_OPEN_CURSOR: Final = "OPEN_CURSOR"
_PARSE: Final = "PARSE"
# Members whose first argument is a cursor, and that run nothing but what was parsed for it.
_MEMBERS: Final = words_of(
    """
    BIND_ARRAY BIND_VARIABLE BIND_VARIABLE_CHAR BIND_VARIABLE_RAW BIND_VARIABLE_ROWID CLOSE_CURSOR COLUMN_VALUE
    COLUMN_VALUE_CHAR COLUMN_VALUE_LONG COLUMN_VALUE_RAW COLUMN_VALUE_ROWID DEFINE_ARRAY DEFINE_COLUMN
    DEFINE_COLUMN_CHAR DEFINE_COLUMN_LONG DEFINE_COLUMN_RAW DEFINE_COLUMN_ROWID EXECUTE EXECUTE_AND_FETCH FETCH_ROWS
    IS_OPEN RETURN_RESULT VARIABLE_VALUE VARIABLE_VALUE_CHAR VARIABLE_VALUE_RAW VARIABLE_VALUE_ROWID
    """
)
_VALUES: Final = frozenset({"LAST_ERROR_POSITION", "LAST_ROW_COUNT", "LAST_ROW_ID", "LAST_SQL_FUNCTION_CODE"})
_FLAGS: Final = frozenset({"NATIVE", "V6", "V7"})
_NUMBERS: Final = frozenset({"INTEGER", "INT", "NUMBER", "PLS_INTEGER", "BINARY_INTEGER"})
_COALESCE: Final = word("COALESCE")
_ZERO: Final = SqlToken(SqlTokenKind.NUMBER, "0")
_RUN: Final = (word("EXECUTE"), word("IMMEDIATE"))


def with_plain_cursors(tokens: Sequence[SqlToken]) -> Sequence[SqlToken]:
    """Return a block without DBMS_SQL, or as it is if it uses that in another way."""
    if not any(token.key == _PACKAGE for token in tokens):
        return tokens
    cursors = _opened_cursors(tokens)
    plain: list[SqlToken] = []
    place = used = 0
    while place < len(tokens):
        token = tokens[place]
        is_member = token.key == _PACKAGE and key_at(tokens, place + 1) == "." and key_at(tokens, place - 1) != "."
        member = key_at(tokens, place + 2) if is_member else ""
        if member == _OPEN_CURSOR and _is_assigned(tokens, place - 1) and tokens[place - 2].is_name:
            place = _behind_opening(tokens, place)
            plain.append(_ZERO)
        elif member == _PARSE:
            end = closing(tokens, place + 3)
            arguments = split_at_commas(tokens[place + 4 : end])
            if key_at(tokens, end + 1) != ";" or not _is_parse(arguments, cursors):
                return tokens
            plain += [*_RUN, *arguments[1]]
            used += 1
            place = end + 1
        elif member == "RETURN_RESULT" and _first_is_cursor(tokens, place + 3, cursors):
            plain += tokens[place : place + 4]  # the result has another meaning than its value
            used += 1
            place += 5
            plain.append(tokens[place - 1])
        elif member in _MEMBERS and _first_is_cursor(tokens, place + 3, cursors):
            used += 1
            plain.append(_COALESCE)
            place += 3
        elif member in _VALUES and key_at(tokens, place + 3) != "(":
            plain.append(_ZERO)
            place += 3
        elif token.key == _PACKAGE:
            return tokens
        else:
            plain.append(token)
            place += 1
    return plain if used == _uses(tokens, cursors) else tokens


def _behind_opening(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the place after OPEN_CURSOR, which can have empty parentheses."""
    place += 3
    return place + 2 if key_at(tokens, place) == "(" and key_at(tokens, place + 1) == ")" else place


def _opened_cursors(tokens: Sequence[SqlToken]) -> frozenset[str]:
    """Return the variables that are assigned a new cursor."""
    return frozenset(
        local_name(tokens[place])
        for place in range(len(tokens) - 4)
        if tokens[place].is_name
        and key_at(tokens, place - 1) != "."
        and _is_assigned(tokens, place + 1 + (key_at(tokens, place + 1) in _NUMBERS))
    )


def _is_assigned(tokens: Sequence[SqlToken], place: int) -> bool:
    """Return whether `:= DBMS_SQL.OPEN_CURSOR;` is here."""
    if [key_at(tokens, place + at) for at in range(4)] != [":=", _PACKAGE, ".", _OPEN_CURSOR]:
        return False
    return key_at(tokens, _behind_opening(tokens, place + 1)) == ";"


def _is_parse(arguments: list[list[SqlToken]], cursors: frozenset[str]) -> bool:
    if len(arguments) != 3 or len(arguments[0]) != 1 or local_name(arguments[0][0]) not in cursors:
        return False
    flag = arguments[2]
    is_number = len(flag) == 1 and flag[0].kind is SqlTokenKind.NUMBER
    is_named = [token.key for token in flag[:2]] == [_PACKAGE, "."] and len(flag) == 3 and flag[2].key in _FLAGS
    return arguments[1] != [] and (is_number or is_named)


def _first_is_cursor(tokens: Sequence[SqlToken], opening: int, cursors: frozenset[str]) -> bool:
    if key_at(tokens, opening) != "(" or opening + 2 >= len(tokens) or not tokens[opening + 1].is_name:
        return False
    return local_name(tokens[opening + 1]) in cursors and tokens[opening + 2].key in (",", ")")


def _uses(tokens: Sequence[SqlToken], cursors: frozenset[str]) -> int:
    """Return how often the cursors stand anywhere but where they are declared and opened."""
    count = 0
    for place, token in enumerate(tokens):
        if token.is_name and local_name(token) in cursors:
            is_declared = key_at(tokens, place + 1) in _NUMBERS and (
                key_at(tokens, place + 2) == ";" or _is_assigned(tokens, place + 2)
            )
            count += not (is_declared or _is_assigned(tokens, place + 1))
    return count
