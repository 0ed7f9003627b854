"""Queries in a plainer spelling, for the parts of Oracle's SQL that sqlglot does not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postern.inspection.sql.sql_tokens import (
    SqlToken,
    SqlTokenKind,
    UnreadableSql,
    closing,
    dotted_name,
    key_at,
    symbol,
    word,
    words_of,
)
from postern.protocols.oracledb.dialect.oracle_reshaping import with_plain_clauses
from postern.protocols.oracledb.dialect.plsql_blocks import split_returning

_BIND: Final = SqlToken(SqlTokenKind.VARIABLE, ":b")
_METHOD: Final = word("DUMP")  # stands for a method: its result depends on its arguments alone
# Methods of XMLTYPE and of JSON values, which follow a value.
METHODS: Final = words_of(
    """
    CREATENONSCHEMABASEDXML CREATESCHEMABASEDXML EXISTSNODE EXTRACT GETBLOBVAL GETCLOBVAL GETNAMESPACE GETNUMBERVAL
    GETROOTELEMENT GETSTRINGVAL ISFRAGMENT NUMBER STRING DATE TIMESTAMP
    """
)
_SPECIAL: Final = frozenset(
    {
        "(",
        "KEY",
        "UNIQUE",
        ")",
        "@",
        ".",
        "[",
        "VERSIONS",
        "CURRENT",
        "LOG",
        "WHERE",
        "DELETE",
        "CONTENT",
        "DOCUMENT",
        "RETURNING",
    }
)


def plain_query(tokens: Sequence[SqlToken], verb: str) -> list[SqlToken]:
    """Remove or replace `(+)`, links to other databases (`t@remote`), methods, paths in documents, INTO after
    RETURNING, LOG ERRORS, WHERE CURRENT OF, VERSIONS, WHERE in the branches of a MERGE, and the clauses of
    `oracle_reshaping`."""
    reshaped = with_plain_clauses(tokens).tokens
    kept = reshaped if verb == "SELECT" else split_returning(reshaped)[0]
    if not any(token.key in _SPECIAL or token.kind is SqlTokenKind.VARIABLE for token in kept):
        return kept
    aliases = _aliases(kept)
    plain: list[SqlToken] = []
    place = depth = 0
    while place < len(kept):
        token = kept[place]
        key, after = token.key, key_at(kept, place + 1)
        depth += (key == "(") - (key == ")")
        if key == "(" and after == "+" and key_at(kept, place + 2) == ")":
            depth -= 1
            place += 3  # the old syntax of an outer join
        elif key == "@":
            parts, place = dotted_name(kept, place + 1)
            if not parts or key_at(kept, place) in ("(", "@"):
                raise UnreadableSql("the effect of a call over a database link is unknown")
        elif verb == "MERGE" and depth == 0 and key in ("WHERE", "DELETE") and key_at(kept, place - 1) != "THEN":
            place = _behind_branch(kept, place)
        elif key == "WHERE" and after == "CURRENT" and key_at(kept, place + 2) == "OF":
            plain += [token, word("ROWID"), symbol("="), _BIND]
            place += 4
        elif key == "LOG" and after == "ERRORS" and verb != "SELECT" and depth == 0:
            place = _behind_log(kept, place)
        elif key == "UNIQUE" and key_at(kept, place - 1) == "SELECT":
            plain.append(word("DISTINCT"))
            place += 1
        elif key == "KEY" and key_at(kept, dotted_name(kept, place + 1)[1]) == "(" and kept[place + 1].is_name:
            place += 1  # of JSON_OBJECT, before a function
        elif key in ("CONTENT", "DOCUMENT") and _is_option_of_xml(kept, place):
            place += 1
        elif key == "RETURNING" and after == "CONTENT":
            place += 2
        elif key == "VERSIONS" and after in ("BETWEEN", "PERIOD"):
            place = _behind_versions(kept, place)
        elif key == "." and place:
            place = _member(plain, kept, place, aliases)
        else:
            plain.append(_BIND if token.kind is SqlTokenKind.VARIABLE else token)
            place += 1
    return plain


def _is_option_of_xml(tokens: Sequence[SqlToken], place: int) -> bool:
    return key_at(tokens, place - 1) == "(" and key_at(tokens, place - 2) in ("XMLSERIALIZE", "XMLPARSE")


def _behind_branch(tokens: Sequence[SqlToken], place: int) -> int:
    depth = 0
    while place < len(tokens) and (depth > 0 or key_at(tokens, place) not in ("WHEN", "LOG", "RETURNING")):
        if key_at(tokens, place) == "SELECT":
            raise UnreadableSql("a query in the condition of a MERGE branch is not understood")
        depth += (key_at(tokens, place) == "(") - (key_at(tokens, place) == ")")
        place += 1
    return place


def _behind_log(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the place after `LOG ERRORS [INTO t] [(tag)] [REJECT LIMIT n]`, which ends a change."""
    place += 2
    if key_at(tokens, place) == "INTO":
        _, place = dotted_name(tokens, place + 1)
    if key_at(tokens, place) == "(":
        end = closing(tokens, place)
        if any(token.key == "SELECT" for token in tokens[place:end]):
            raise UnreadableSql("LOG ERRORS is not understood")
        place = end + 1
    if key_at(tokens, place) == "REJECT" and key_at(tokens, place + 1) == "LIMIT":
        place += 3
    if key_at(tokens, place) not in ("", "RETURNING", "RETURN") or (place < len(tokens) and not tokens[place].key):
        raise UnreadableSql("LOG ERRORS is not understood")
    return place


def _behind_versions(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the place after `VERSIONS [PERIOD FOR name] BETWEEN [SCN | TIMESTAMP] … AND …`."""
    place += 1
    if key_at(tokens, place) == "PERIOD":
        place += 3
    if key_at(tokens, place) != "BETWEEN":
        raise UnreadableSql("VERSIONS is not understood")
    place = _behind_bound(tokens, place + 1 + (key_at(tokens, place + 1) in ("SCN", "TIMESTAMP")))
    if key_at(tokens, place) != "AND":
        raise UnreadableSql("VERSIONS is not understood")
    return _behind_bound(tokens, place + 1)


def _behind_bound(tokens: Sequence[SqlToken], place: int) -> int:
    if place >= len(tokens):
        raise UnreadableSql("VERSIONS is not understood")
    place += key_at(tokens, place) == "TIMESTAMP"
    token = tokens[place] if place < len(tokens) else symbol("")
    is_value = token.kind in (SqlTokenKind.NUMBER, SqlTokenKind.STRING, SqlTokenKind.VARIABLE)
    if not is_value and token.key not in ("MINVALUE", "MAXVALUE", "SYSTIMESTAMP", "SYSDATE"):
        raise UnreadableSql("VERSIONS is not understood")
    return place + 1


def _member(plain: list[SqlToken], tokens: Sequence[SqlToken], place: int, aliases: frozenset[str]) -> int:
    """Append what follows a dot: a part of a name, a method, or the rest of a path in a document."""
    name, after = key_at(tokens, place + 1), key_at(tokens, place + 2)
    if tokens[place - 1].key == ")" or tokens[place - 1].key == "]":
        if name in METHODS and after == "(":
            plain += [symbol("+"), _METHOD]
            return place + 2
        plain.append(tokens[place])
        return place + 1
    start = len(plain) - 1
    while start >= 2 and plain[start - 1].key == "." and plain[start - 2].is_name:
        start -= 2
    is_column = len(plain) - start == 3 and plain[start].is_name and plain[start].text.upper() in aliases
    if not is_column:
        plain.append(tokens[place])
        return place + 1
    if after == "(" and name in METHODS:
        plain += [symbol("+"), _METHOD]
        return place + 2
    _, end = dotted_name(tokens, place + 1)
    if key_at(tokens, end) == "(":
        plain.append(tokens[place])
        return place + 1
    return _behind_steps(tokens, end)


def _behind_steps(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the place after the indexes and further steps of a path: `t.doc.items[0].name`."""
    while key_at(tokens, place) == "[":
        end = next((at for at in range(place, len(tokens)) if tokens[at].key == "]"), len(tokens))
        if any(token.key == "(" for token in tokens[place:end]):
            raise UnreadableSql("an index in a document is not understood")
        place = end + 1
        if key_at(tokens, place) == ".":
            _, place = dotted_name(tokens, place + 1)
    return place


def _aliases(tokens: Sequence[SqlToken]) -> frozenset[str]:
    """Return the names that can stand for a table: they follow a name, a bracket, a comma, or FROM, without dots."""
    return frozenset(
        token.text.upper()
        for place, token in enumerate(tokens)
        if token.is_name
        and place
        and key_at(tokens, place + 1) != "."
        and (tokens[place - 1].is_name or tokens[place - 1].key in (")", ",", "]"))
    )


def log_table(tokens: Sequence[SqlToken]) -> int:
    """Return the place of the name of the table that LOG ERRORS writes to; -1 if there is none."""
    for place, token in enumerate(tokens):
        if token.key == "LOG" and key_at(tokens, place + 1) == "ERRORS" and key_at(tokens, place + 2) == "INTO":
            return place + 3
    return -1
