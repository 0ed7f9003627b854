"""Facts about responses that follow from the texts of MySQL's and MariaDB's statements, besides column lineage.

They are derived from words, as the server may read them, without a tree. Whatever is not understood counts as the
unsafe case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from postern.inspection.masking.error_messages import SIGNAL_NUMBER
from postern.inspection.masking.statement_facts import StatementFacts
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, key_at, statements_of
from postern.protocols.mysql.dialect.mysql_readings import readings

_LONGEST: Final = 16 * 1024  # characters that are tokenised on the event loop, when a response arrives

# Statements that can contain code, or run it.
_BLOCKS: Final = frozenset({"CASE", "DECLARE", "FOR", "IF", "LOOP", "REPEAT", "WHILE"})
_SPEAKS: Final = frozenset({"CALL", "EXECUTE", "RESIGNAL", "SIGNAL"})

# Statements whose column names can be those of a table.
_TABLES: Final = frozenset({"HANDLER", "TABLE"})

_BEGINS_QUERY: Final = frozenset({"SELECT", "TABLE", "VALUES", "WITH"})
_BEGINS_LIST: Final = frozenset({"RETURNING", "SELECT", "VALUES"})
_ENDS_LIST: Final = frozenset({"FROM", "GROUP", "HAVING", "INTO", "LIMIT", "ORDER", "WHERE", "WITH"})
_VARIES: Final = frozenset({"EXECUTE", "CALL", "BEGIN", "LAST_INSERT_ID"})


# Errors about names and grammar, which occur before any row is read.
_NAME_ERRORS: Final = frozenset(
    {1007, 1008, 1044, 1045, 1046, 1049, 1050, 1051, 1052, 1054, 1055, 1060, 1061, 1064, 1066, 1072, 1091, 1109, 1115,
     1128, 1142, 1143, 1144, 1146, 1193, 1227, 1243, 1273, 1286, 1304, 1305, 1347, 1359, 1360, 1370, 1630}
)  # fmt: skip
# Errors of these about character sets, collations and engines, which SET may take from a value.
_SETTING_ERRORS: Final = frozenset({1115, 1273, 1286})


class MysqlStatementFacts(StatementFacts):
    def varies(self, statements: Sequence[str]) -> bool:
        return varies(statements)

    def spells_names(self, statements: Sequence[str]) -> bool:
        return spells_names(statements)

    def chooses_insert_id(self, statements: Sequence[str]) -> bool:
        return chooses_insert_id(statements)

    def quotes_no_values(self, parts: Mapping[str, bytes], statements: Sequence[str]) -> bool:
        return "errno" in parts and is_about_names(parts["errno"], statements)

    def is_in_own_words(self, texts: Sequence[bytes], labels: Sequence[str], statements: Sequence[str]) -> bool:
        """Return True for an error whose text the statements contain, unless it may come from data.

        `signal … set message_text = @a` may. A text prepared from values is quoted without quotes: FUNCTION shop.Doe
        does not exist, or a syntax error near the value. A function or trigger that signals has its own error number,
        unless it chooses another.
        """
        return "errno" in labels and (SIGNAL_NUMBER in texts or runs_code(statements))


def is_about_names(errno: bytes, statements: Sequence[str]) -> bool:
    """Return True if an error quotes only names that a statement contains."""
    number = int(errno) if errno.isdigit() else 0
    return number in _NAME_ERRORS and not (number in _SETTING_ERRORS and sets_something(statements))


def runs_code(statements: Sequence[str]) -> bool:
    """Return True if a statement is code, runs stored code, or prepares a text made from values.

    Errors of these quote values without quotes, and their column names may be values.
    """
    return any(map(_runs_code, statements))


def spells_names(statements: Sequence[str]) -> bool:
    """Return True if the statements contain the names of their result columns. Names from a table may be values,
    because a prepared text can create a table."""
    return not any(map(_takes_names, statements))


def sets_something(statements: Sequence[str]) -> bool:
    """Return True if a statement may change a setting, or is unknown."""
    return not statements or any(map(_sets_something, statements))


def chooses_insert_id(statements: Sequence[str]) -> bool:
    """Return True if a statement may choose the number that the target reports as a generated one."""
    return any(map(_chooses_insert_id, statements))


def varies(statements: Sequence[str]) -> bool:
    """Return True if the description of a computed column may depend on values.

    A server treats user variables, parameters of EXECUTE and queries within a list of columns as constants. It derives
    lengths, numbers of decimals and types from constants.
    """
    return any(map(_varies, statements))


@lru_cache(maxsize=256)
def _runs_code(text: str) -> bool:
    return any(map(_is_code, _statements(text)))


@lru_cache(maxsize=256)
def _takes_names(text: str) -> bool:
    return any(map(_takes_names_of_tables, _statements(text)))


def _takes_names_of_tables(tokens: Sequence[SqlToken]) -> bool:
    if _is_code(tokens) or not {token.key for token in tokens}.isdisjoint(_TABLES):
        return True
    return any(token.key == "*" and key_at(tokens, place - 1) != "(" for place, token in enumerate(tokens))


def _is_code(tokens: Sequence[SqlToken]) -> bool:
    if not tokens:
        return False
    keys = {token.key for token in tokens}
    first = key_at(tokens, 0)
    if keys & _SPEAKS or first in _BLOCKS or key_at(tokens, 1) == ":" or first in ("<", "<<"):
        return True
    if first == "BEGIN":
        return len(tokens) > 1 and key_at(tokens, 1) != "WORK"
    return "PREPARE" in keys and not _prepares_literal(tokens)


def _prepares_literal(tokens: Sequence[SqlToken]) -> bool:
    """Return True for PREPARE … FROM 'text' (a name where double quotes quote names), or DROP PREPARE."""
    place = next(place for place, token in enumerate(tokens) if token.key == "PREPARE")
    rest = tokens[place + 2 :]
    return not rest or (
        len(rest) == 2 and rest[0].key == "FROM" and rest[1].kind in (SqlTokenKind.STRING, SqlTokenKind.NAME)
    )


@lru_cache(maxsize=256)
def _sets_something(text: str) -> bool:
    return any("SET" in {token.key for token in tokens} for tokens in _statements(text))


@lru_cache(maxsize=256)
def _chooses_insert_id(text: str) -> bool:
    folded = text.lower()
    return "last_insert_id" in folded or "execute" in folded or "call" in folded


@lru_cache(maxsize=256)
def _varies(text: str) -> bool:
    return any(map(_may_vary, _statements(text)))


def _may_vary(tokens: Sequence[SqlToken]) -> bool:
    if any((token.kind is SqlTokenKind.VARIABLE and token.text != "?") or token.key in _VARIES for token in tokens):
        return True
    return _queries_in_list(tokens)


def _queries_in_list(tokens: Sequence[SqlToken]) -> bool:
    """Return True if a list of columns contains a query. Brackets without a query belong to the clause around them."""
    in_list = [True]  # by depth of brackets: True within a list of columns
    is_query = [True]
    for place, token in enumerate(tokens):
        if token.key == "(":
            begins = key_at(tokens, place + 1) in _BEGINS_QUERY
            if begins and in_list[-1] and place:
                return True
            in_list.append(in_list[-1])
            is_query.append(begins)
        elif token.key == ")" and len(in_list) > 1:
            in_list.pop()
            is_query.pop()
        elif is_query[-1] and token.key in _BEGINS_LIST:
            in_list[-1] = True
        elif is_query[-1] and token.key in _ENDS_LIST:
            in_list[-1] = False
    return False


def _statements(text: str) -> list[list[SqlToken]]:
    """Return the statements of each reading; one unknown word if the text cannot be read."""
    if len(text) > _LONGEST:
        return [list(_UNREAD)]
    try:
        return [tokens for reading in readings(text) for tokens in statements_of(reading.tokens)]
    except UnreadableSql:
        return [list(_UNREAD)]


# Counts as code, as a change of settings, and as varying.
_UNREAD: Final = (
    SqlToken(SqlTokenKind.WORD, "SIGNAL", "SIGNAL"),
    SqlToken(SqlTokenKind.WORD, "SET", "SET"),
    SqlToken(SqlTokenKind.VARIABLE, "@"),
)
