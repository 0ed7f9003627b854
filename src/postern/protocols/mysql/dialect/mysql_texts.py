"""The texts of prepared statements, as far as earlier texts reveal them: literals, CONCAT and IF of literals, and
variables that were set to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, closing, key_at, split_at_commas
from postern.protocols.mysql.dialect.mysql_words import READ_CHARSETS

_MOST: Final = 32
_LONGEST: Final = 64 * 1024  # characters in total
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_SIGNS: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True, slots=True)
class VariableText:
    """Any content of a variable."""

    name: str


Texts = tuple[str, ...] | VariableText | None
"""All possible values; None if any value is possible."""


def variable_name(token: SqlToken) -> str:
    """Return the name of a user variable, in the form in which names are compared."""
    text = token.text[1:]
    if text[:1] in ("'", '"', "`"):
        text = text[1:-1].replace(text[0] * 2, text[0])
    return fold_identifier(text)


def is_user_variable(token: SqlToken) -> bool:
    return token.kind is SqlTokenKind.VARIABLE and token.text.startswith("@") and not token.text.startswith("@@")


def texts_of(tokens: Sequence[SqlToken]) -> Texts:
    """Return the possible texts of an expression."""
    if len(tokens) == 1:
        token = tokens[0]
        if is_user_variable(token):
            return VariableText(variable_name(token))
        if token.kind is SqlTokenKind.NAME:
            return ()  # a column, where there is none: the server rejects it
        if token.kind is not SqlTokenKind.STRING or token.content is None:
            return None
        return tuple(dict.fromkeys((_ESCAPED.sub(_sign, token.content), token.content)))
    called = key_at(tokens, 0)
    if called not in ("CONCAT", "IF") or key_at(tokens, 1) != "(" or closing(tokens, 1) != len(tokens) - 1:
        return None
    parts = [texts_of(part) for part in split_at_commas(tokens[2:-1])]
    known_parts = [part for part in (parts[1:] if called == "IF" else parts) if isinstance(part, tuple)]
    if called == "IF":
        return limit_texts([*known_parts[0], *known_parts[1]]) if len(parts) == 3 and len(known_parts) == 2 else None
    count = 1
    for part in known_parts:
        count *= len(part)
    if len(known_parts) != len(parts) or count > _MOST:
        return None
    return limit_texts(["".join(combination) for combination in product(*known_parts)])


def limit_texts(texts: Sequence[str]) -> tuple[str, ...] | None:
    unique = tuple(dict.fromkeys(texts))
    return None if len(unique) > _MOST or sum(map(len, unique)) > _LONGEST else unique


def setting_name(token: SqlToken) -> str:
    """Return the lower-case name of the setting at a token of a SET."""
    return token.text.lower().replace("`", "").rpartition(".")[2].lstrip("@")


def connection_charset(tokens: Sequence[SqlToken], place: int) -> str | None:
    """Return, in upper case, the character set of prepared texts after the setting at `place`; empty if unknown, None
    if it is not one of these settings."""
    if setting_name(tokens[place]) not in ("character_set_connection", "collation_connection"):
        return None
    if key_at(tokens, place + 1) not in ("=", ":="):
        return None
    value = tokens[place + 2] if place + 2 < len(tokens) else None
    if value is None or value.kind is SqlTokenKind.VARIABLE or key_at(tokens, place + 3) not in ("", ",", ";"):
        return ""
    return value.text.upper().split("_")[0]


def may_respell(tokens: Sequence[SqlToken]) -> bool:
    """Return True if a SET may make the server read prepared texts in a character set in which they have another
    meaning. SET CHARACTER SET uses that of the database."""
    for place in range(1, len(tokens)):
        if connection_charset(tokens, place) not in (None, *READ_CHARSETS):
            return True
        if key_at(tokens, place - 1) in ("SET", ",") and key_at(tokens, place) in ("CHARACTER", "CHARSET"):
            return True
    return False


def _sign(match: re.Match[str]) -> str:
    return _SIGNS.get(match[1], match[1])
