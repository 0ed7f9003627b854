"""Lexer: text to tokens, by one regular expression per dialect and mode.

The groups of the expression name the tokens: `blank`, `comment`, `string` (with its quotes and prefix), `name`
(quoted), `word`, `number`, `variable`, `symbol`. Text that does not match is unreadable.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, string, symbol, word

MAX_TEXT = 512 * 1024  # characters: about half a second of parsing
MAX_TOKENS = 100_000

_BAD = re.compile(r"[\x00\ud800-\udfff\ufffd]")


def check_text(text: str) -> None:
    """Raise UnreadableSql for text that no reading can be trusted in."""
    if len(text) > MAX_TEXT:
        raise UnreadableSql(f"it exceeds {MAX_TEXT} characters")
    bad = _BAD.search(text)
    if bad is not None:
        what = "a zero byte" if bad.group() == "\0" else "bytes that are not valid in its encoding"
        raise UnreadableSql(f"it contains {what}")


def tokens_of(
    text: str, pattern: re.Pattern[str], make: Callable[[re.Match[str], str], SqlToken] | None = None
) -> list[SqlToken]:
    """Return the tokens, which `make` creates from matches (`token_of` by default).

    Raises UnreadableSql, with the tokens so far, at the first character that does not match.
    """
    make = make or token_of
    tokens: list[SqlToken] = []
    place = 0
    try:
        while place < len(text):
            match = pattern.match(text, place)
            if match is None or match.end() == place:
                raise UnreadableSql(why_unreadable(text, place))
            if match.lastgroup not in ("blank", "comment"):
                tokens.append(make(match, text))
                if len(tokens) > MAX_TOKENS:
                    raise UnreadableSql(f"it has more than {MAX_TOKENS} tokens")
            elif match.lastgroup == "comment":
                check_comment(match.group())
            place = match.end()
    except UnreadableSql as error:
        raise UnreadableSql(str(error), tokens) from None
    return tokens


def token_of(match: re.Match[str], text: str) -> SqlToken:
    kind, spelling = match.lastgroup, match.group()
    if kind == "string":
        return string(_body(spelling), spelling[-1], spelling[0] not in "xXbB")
    if kind == "name":
        quote = spelling[-1]
        return SqlToken(SqlTokenKind.NAME, spelling[1:-1].replace(quote * 2, quote))
    if kind == "number":
        return SqlToken(SqlTokenKind.NUMBER, spelling)
    if kind == "variable":
        return SqlToken(SqlTokenKind.VARIABLE, spelling)
    if kind == "word":
        return word(spelling, _alone(text, match.start(), match.end()))
    return symbol(spelling, spelling == "/" and _alone(text, match.start(), match.end()))


def check_comment(comment: str) -> None:
    """Raise UnreadableSql for a sign that some servers treat as the end of a one-line comment, and others do not."""
    if comment.startswith("--") and _OTHER_ENDS.search(comment):
        raise UnreadableSql("a comment contains a character that some servers treat as its end")


_OTHER_ENDS = re.compile(r"[\v\f\x85\u2028\u2029]|\r(?!\n|\Z)")
_LINE_START = re.compile(r"(?:\A|[\r\n])[ \t]*\Z")
_LINE_END = re.compile(r"[ \t]*(?:\d+[ \t]*)?(?:--.*)?(?:[\r\n]|\Z)")


def _alone(text: str, start: int, end: int) -> bool:
    if end - start > 2:  # only GO and / need it
        return False
    return _LINE_START.search(text, max(0, start - 100), start) is not None and _LINE_END.match(text, end) is not None


def _body(literal: str) -> str:
    """Return a string's content: between its first quote and its last character."""
    opening = min(place for place in (literal.find("'"), literal.find('"')) if place >= 0)
    return literal[opening + 1 : -1]


def why_unreadable(text: str, place: int) -> str:
    sign = text[place]
    if sign in "'\"`[" or text.startswith("/*", place):
        return "a quote or a comment is not closed"
    if sign.isspace() or unicodedata.category(sign)[0] in "CZ":
        return f"U+{ord(sign):04X} may or may not be a space"
    return f"{sign!r} is not valid in this dialect"
