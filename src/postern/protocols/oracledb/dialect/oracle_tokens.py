"""Tokens of Oracle's SQL and PL/SQL, and the scripts of client tools, which `/` alone on a line separates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from postern.inspection.sql.sql_lexing import check_comment, check_text, token_of, tokens_of, why_unreadable
from postern.inspection.sql.sql_tokens import (
    SqlToken,
    SqlTokenKind,
    UnreadableSql,
    key_at,
    plain,
    statements_of,
    string,
)

_LETTER = r"[A-Za-z\u0080-\u009f\u00a1-\u167f\u1681-\u1fff\u2070-\u2fff\u3001-\ufefe\uff00-\U0010ffff]"
_OWN_QUOTES = (
    r"\[[\s\S]*?\]'|\([\s\S]*?\)'|\{[\s\S]*?\}'|<[\s\S]*?>'|(?P<mark>[^\s\[({<])[\s\S]*?(?P=mark)'"  # q'[...]'
)
_PATTERN: Final = re.compile(
    r"(?P<blank>[ \t\n\r\f\v]+|/\*[\s\S]*?\*/)"
    r"|(?P<comment>--[^\n]*)"
    rf"|(?P<string>[nN]?[qQ]'(?:{_OWN_QUOTES})|(?:[nN]|[uU](?=')|[xX](?='))?'(?:[^']++|'')*+')"
    r'|(?P<name>"[^"\x00]++")'
    rf"|(?P<variable>:(?:\"[^\"]+\"|(?:{_LETTER}|[0-9_$#])+)|\?)"
    rf"|(?P<number>(?:[0-9]+(?:\.(?!\.)[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?(?!{_LETTER}|[0-9_$#]))"
    rf"|(?P<word>{_LETTER}(?:{_LETTER}|[0-9_$#])*)"
    r"|(?P<symbol>:=|=>|\*\*|\|\||<<|>>|<>|!=|\^=|~=|<=|>=|\.\.|/(?!\*)|[-+*%(),.;=<>@|!\[\]])",
)
# With these, code follows that has semicolons of its own.
CREATES_CODE: Final = frozenset({"PROCEDURE", "FUNCTION", "TRIGGER", "PACKAGE", "TYPE", "JAVA"})
_BETWEEN: Final = frozenset({"OR", "REPLACE", "EDITIONABLE", "NONEDITIONABLE", "AND", "RESOLVE", "COMPILE"})
BLOCKS: Final = frozenset({"BEGIN", "DECLARE", "<<"})


@dataclass(frozen=True, slots=True)
class PlacedToken:
    """A token with its place in the text."""

    token: SqlToken
    start: int
    end: int


def oracle_token(match: re.Match[str], text: str) -> SqlToken:
    """Return the token of a match. The content of `q'[…]'` is as it is written; that of `u'…'` has escapes."""
    spelling = match.group()
    if match.lastgroup != "string":
        return token_of(match, text)
    prefix = spelling[: spelling.index("'")].lower()
    if prefix.endswith("q"):
        content = spelling[len(prefix) + 2 : -2]
        return SqlToken(SqlTokenKind.STRING, plain(content), content=content)
    return string(spelling[len(prefix) + 1 : -1], is_text=prefix in ("", "n"))


def tokens_of_text(text: str) -> list[SqlToken]:
    """Return the tokens of a text. Raises UnreadableSql."""
    check_text(text)
    return tokens_of(text, _PATTERN, oracle_token)


def placed_tokens(text: str) -> tuple[list[PlacedToken], int, str]:
    """Return the tokens with their places; and where the text cannot be read, and why, or -1."""
    placed: list[PlacedToken] = []
    at = 0
    while at < len(text):
        match = _PATTERN.match(text, at)
        if match is None or match.end() == at:
            return placed, at, why_unreadable(text, at)
        if match.lastgroup == "comment":
            try:
                check_comment(match.group())
            except UnreadableSql as error:
                return placed, at, str(error)
        elif match.lastgroup != "blank":
            placed.append(PlacedToken(oracle_token(match, text), match.start(), match.end()))
        at = match.end()
    return placed, -1, ""


def scripts_of(tokens: Sequence[SqlToken]) -> list[list[SqlToken]]:
    """Split at lines with only `/`, as client tools do."""
    scripts: list[list[SqlToken]] = [[]]
    for token in tokens:
        if token.key == "/" and token.alone:
            scripts.append([])
        else:
            scripts[-1].append(token)
    return [each for each in scripts if each]


def pieces_of(script: Sequence[SqlToken]) -> list[list[SqlToken]]:
    """Split a script at semicolons. Code takes all the rest of its script, with its semicolons."""
    pieces = statements_of(script)
    at = 0
    for place, piece in enumerate(pieces):
        if starts_code(piece):
            while script[at].key == ";":
                at += 1
            return [*pieces[:place], list(script[at:])]
        while script[at].key == ";":
            at += 1
        at += len(piece)
    return pieces


def starts_code(tokens: Sequence[SqlToken]) -> bool:
    """Return whether a statement has semicolons of its own: a block, code that it creates, or code in its WITH."""
    return key_at(tokens, 0) in BLOCKS or creates_code(tokens) or has_code_in_with(tokens)


def has_code_in_with(tokens: Sequence[SqlToken]) -> bool:
    """Return whether WITH declares functions anywhere: all words, since a query in it can have one, too."""
    return any(
        token.key == "WITH" and key_at(tokens, place + 1) in ("FUNCTION", "PROCEDURE")
        for place, token in enumerate(tokens)
    )


def creates_code(tokens: Sequence[SqlToken]) -> bool:
    """Return whether CREATE makes a procedure, a function, a trigger, a package, a type, or Java."""
    if key_at(tokens, 0) != "CREATE":
        return False
    place = 1
    while key_at(tokens, place) in _BETWEEN:
        place += 1
    return key_at(tokens, place) in CREATES_CODE
