"""Facts about responses that follow from the texts of T-SQL, besides column lineage.

They are derived from words, without a tree. Whatever is not understood counts as the unsafe case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from postern.inspection.masking.error_messages import mask_own_words
from postern.inspection.masking.statement_facts import StatementFacts
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, closing, key_at, words_of
from postern.protocols.mssql.dialect import tsql_words as words
from postern.protocols.mssql.dialect.tsql_batches import readings, statements
from postern.protocols.mssql.dialect.tsql_exec import parse_exec
from postern.protocols.mssql.dialect.tsql_parser import creates_code, has_loop

_LONGEST: Final = 16 * 1024  # characters that are tokenised on the event loop, when a response arrives
_USER_ERRORS: Final = 50_000  # numbers from here on belong to users

# Fields of a message that a text can have chosen, as RAISERROR('****', 16, 1) and RAISERROR('****', 0, 1) have them.
_OWN_ERROR: Final = {"errno": b"%d" % _USER_ERRORS, "severity": b"16", "state": b"1", "line": b"1", "procedure": b""}
_OWN_NOTICE: Final = {**_OWN_ERROR, "severity": b"0"}

_SPEAKS: Final = frozenset({"PRINT", "RAISERROR", "THROW"})
# Statements that can run triggers, which write messages of their own.
_CHANGES: Final = frozenset({"DELETE", "INSERT", "MERGE", "UPDATE", "CREATE", "ALTER", "DROP"})

# Errors about names and grammar, which occur before any row is read. They quote words of the text.
_NAME_ERRORS: Final = frozenset(
    int(number)
    for number in words_of(
        """
        102 105 107 113 128 134 137 139 141 142 147 155 156 170 174 178 189 195 201 207 208 209 213 229 230 262 263 267
        297 300 319 343 911 916 1001 1004 1007 1011 1013 1038 1088 1767 1769 1776 1801 1911 2021 2714 2760 2801 2812
        3701 3906 4060 4104 4121 4145 4902 4922 4924 5074 5701 5703 6401 7202 8120 8121 8127 8144 8145 8146 8155 8156
        8158 8178 15009 15151 15165 15225 16915 16916
        """
    )
)


class TSqlStatementFacts(StatementFacts):
    """The number of a message is its part `errno`."""

    def varies(self, statements: Sequence[str]) -> bool:
        """Return whether a text runs code: the types of all other columns are fixed before any row is read."""
        return any(map(_runs_code, statements))

    def spells_names(self, statements: Sequence[str]) -> bool:
        return not any(map(_takes_names, statements))

    def chooses_insert_id(self, statements: Sequence[str]) -> bool:
        return False  # the target reports none

    def quotes_no_values(self, parts: Mapping[str, bytes], statements: Sequence[str]) -> bool:
        """Return whether an error quotes only names that a text contains. A text made from values quotes these."""
        number = _number(parts.get("errno", b""))
        return number in _NAME_ERRORS and bool(statements) and not any(map(_runs_code, statements))

    def is_in_own_words(self, texts: Sequence[bytes], labels: Sequence[str], statements: Sequence[str]) -> bool:
        """Return whether a text, or a trigger that it runs, can have chosen the message by PRINT, RAISERROR or THROW,
        from values. A loop can spell a value by literal messages."""
        number = _number(dict(zip(labels, texts, strict=True)).get("errno", b""))
        is_users = number <= 0 or number >= _USER_ERRORS
        return any(map(_speaks_values, statements)) or (is_users and any(map(_runs_triggers, statements)))

    def replace_own_words(self, labels: Sequence[str], *, is_error: bool) -> list[bytes]:
        return mask_own_words(labels, _OWN_ERROR if is_error else _OWN_NOTICE)


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() else -1


@lru_cache(maxsize=256)
def _runs_code(text: str) -> bool:
    """Return whether a text runs a procedure or another text, or creates code."""
    return any(map(_is_code, _pieces(text)))


def _is_code(tokens: Sequence[SqlToken]) -> bool:
    keys = {token.key for token in tokens}
    if keys & {"EXEC", "EXECUTE"} or creates_code(tokens):
        return True
    is_statement = (tokens[0].key,) in _FIRST_WORDS or tokens[0].key in _FIRST_OF_SEVERAL or tokens[0].key == "("
    return not is_statement and parse_exec(tokens).procedure not in words.PROCEDURES


@lru_cache(maxsize=256)
def _takes_names(text: str) -> bool:
    """Return whether the names of a text's columns can be those of a table, which another text can have created."""
    return _runs_code(text) or any(
        token.key == "*" and key_at(tokens, place - 1) != "("
        for tokens in _pieces(text)
        for place, token in enumerate(tokens)
    )


@lru_cache(maxsize=256)
def _speaks_values(text: str) -> bool:
    """Return whether a text writes messages that are not literals, or literal ones in a loop."""
    pieces = _pieces(text)
    if any(map(has_loop, pieces)) and any(_SPEAKS & {token.key for token in tokens} for tokens in pieces):
        return True
    return any(_is_code(tokens) or _speaks(tokens) for tokens in pieces)


def _speaks(tokens: Sequence[SqlToken]) -> bool:
    """Return whether a statement writes a message that is not a literal, or again one that it has caught."""
    place = next((at for at, token in enumerate(tokens) if token.key in _SPEAKS), len(tokens))
    message = tokens[place + 1 :]
    if key_at(tokens, place) == "RAISERROR" and key_at(message, 0) == "(":
        message = message[1 : closing(message, 0)]
    if key_at(tokens, place) == "THROW" and not message:
        return True
    return any(token.kind is SqlTokenKind.VARIABLE or token.key in ("(", "+") for token in message)


@lru_cache(maxsize=256)
def _runs_triggers(text: str) -> bool:
    return any(_CHANGES & {token.key for token in tokens} for tokens in _pieces(text))


def _pieces(text: str) -> list[list[SqlToken]]:
    """Return the statements of each reading; EXEC alone if the text cannot be read."""
    if len(text) > _LONGEST:
        return [list(_UNREAD)]
    try:
        return [tokens for batches in readings(text) for batch in batches for tokens in statements(batch)]
    except UnreadableSql:
        return [list(_UNREAD)]


_FIRST_WORDS: Final = frozenset(first for first in words.STATEMENTS if len(first) == 1)
_FIRST_OF_SEVERAL: Final = frozenset({first[0] for first in words.STATEMENTS}) | words_of(
    "SELECT INSERT UPDATE DELETE MERGE WITH"
)
_UNREAD: Final = (SqlToken(SqlTokenKind.WORD, "EXEC", "EXEC"),)
