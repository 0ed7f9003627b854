"""Text to tokens, by one regular expression for each dialect (and each mode of it).

The groups of the expression name what was found: `blank`, `string` (with its quotes and prefix), `name` (quoted),
`word`, `number`, `variable`, `symbol`. Whatever it does not match makes the text unreadable.
"""

from __future__ import annotations

import re
import unicodedata

from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, string, symbol, word

MAX_TEXT = 512 * 1024  # characters: about half a second to parse
MAX_TOKENS = 100_000

_BAD = re.compile(r"[\x00\ud800-\udfff\ufffd]")


def check_text(text: str) -> None:
    """Raises Unreadable for what no reading of the text can be trusted in."""
    if len(text) > MAX_TEXT:
        raise UnreadableSql(f"it is longer than {MAX_TEXT} characters")
    bad = _BAD.search(text)
    if bad is not None:
        what = "a zero byte" if bad.group() == "\0" else "bytes that are not of the encoding it is read in"
        raise UnreadableSql(f"it holds {what}")


def tokens_of(text: str, pattern: re.Pattern[str]) -> list[SqlToken]:
    """Raises Unreadable, with the tokens so far, at the first character that the pattern does not know."""
    found: list[SqlToken] = []
    place = 0
    try:
        while place < len(text):
            match = pattern.match(text, place)
            if match is None or match.end() == place:
                raise UnreadableSql(why_unreadable(text, place))
            if match.lastgroup not in ("blank", "comment"):
                found.append(token_of(match, text))
                if len(found) > MAX_TOKENS:
                    raise UnreadableSql(f"it has more than {MAX_TOKENS} words and signs")
            elif match.lastgroup == "comment":
                check_comment(match.group())
            place = match.end()
    except UnreadableSql as error:
        raise UnreadableSql(str(error), found) from None
    return found


def token_of(match: re.Match[str], text: str) -> SqlToken:
    kind, found = match.lastgroup, match.group()
    if kind == "string":
        return string(_body(found), found[-1], found[0] not in "xXbB")
    if kind == "name":
        quote = found[-1]
        return SqlToken(SqlTokenKind.NAME, found[1:-1].replace(quote * 2, quote))
    if kind == "number":
        return SqlToken(SqlTokenKind.NUMBER, found)
    if kind == "variable":
        return SqlToken(SqlTokenKind.VARIABLE, found)
    if kind == "word":
        return word(found, _alone(text, match.start(), match.end()))
    return symbol(found, found == "/" and _alone(text, match.start(), match.end()))


def check_comment(comment: str) -> None:
    """Servers differ in what ends a comment of one line; such a sign in it makes the text unreadable."""
    if comment.startswith("--") and _OTHER_ENDS.search(comment):
        raise UnreadableSql("a comment holds a sign that may end it")


_OTHER_ENDS = re.compile(r"[\v\f\x85\u2028\u2029]|\r(?!\n|\Z)")
_LINE_START = re.compile(r"(?:\A|[\r\n])[ \t]*\Z")
_LINE_END = re.compile(r"[ \t]*(?:\d+[ \t]*)?(?:--.*)?(?:[\r\n]|\Z)")


def _alone(text: str, start: int, end: int) -> bool:
    if end - start > 2:  # only GO and / ask for it
        return False
    return _LINE_START.search(text, max(0, start - 100), start) is not None and _LINE_END.match(text, end) is not None


def _body(found: str) -> str:
    """A string's content: between the first and the last quote of its own kind."""
    opening = min(place for place in (found.find("'"), found.find('"')) if place >= 0)
    return found[opening + 1 : -1]


def why_unreadable(text: str, place: int) -> str:
    sign = text[place]
    if sign in "'\"`[" or text.startswith("/*", place):
        return "a quote or a comment is not closed"
    if sign.isspace() or unicodedata.category(sign)[0] in "CZ":
        return f"U+{ord(sign):04X} may or may not be a space"
    return f"{sign!r} is no sign of this dialect"
