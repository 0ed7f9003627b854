"""Splitting of T-SQL into statements. They need no semicolons between them, so keywords show where each starts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

from postern.inspection.sql.sql_lexing import check_text, token_of, tokens_of
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, key_at, words_of
from postern.protocols.mssql.dialect.tsql_words import STARTERS

_LETTER = r"[A-Za-z_\u0080-\u009f\u00a1-\u167f\u1681-\u1fff\u2070-\u2fff\u3001-\ufefe\uff00-\U0010ffff]"
_DOUBLE = r'"(?:[^"]++|"")++"'
_BRACKETS = r"\[(?:[^\]]++|\]\])++\]"


def _pattern(string: str, name: str) -> re.Pattern[str]:
    return re.compile(
        r"(?P<blank>[ \t\n\r\f\v]+)"
        r"|(?P<comment>--[^\n]*)"
        r"|(?P<nested>/\*)"
        rf"|(?P<string>{string})"
        rf"|(?P<name>{name})"
        rf"|(?P<variable>@@?(?:{_LETTER}|[0-9@#$])+|\$(?:action|identity|rowguid|partition)\b|\?)"
        rf"|(?P<number>0[xX][0-9a-fA-F]*(?!{_LETTER})|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
        rf"(?!{_LETTER}|[0-9@#$])|\$[0-9.]+)"
        rf"|(?P<word>(?:{_LETTER}|\#)(?:{_LETTER}|[0-9@#$])*)"
        r"|(?P<symbol>::|[-+*/%&|^]=|<>|!=|!<|!>|<=|>=|[-+*/%(),.:;=<>~^&|])",
    )


# Text in double quotes ends at the same place, whether QUOTED_IDENTIFIER makes it a name or a string.
PATTERN: Final = _pattern(r"""[nN]?'(?:[^']++|'')*+'|""(?!")""", f"{_DOUBLE}|{_BRACKETS}")
_STRINGS_PATTERN: Final = _pattern(rf"""[nN]?'(?:[^']++|'')*+'|""(?!")|{_DOUBLE}""", _BRACKETS)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_CONTINUED = re.compile(r"\\\r?\n")
_GO_LINE = re.compile(r"(?im)^[ \t]*go\b")

Batch = list[SqlToken]
MakeToken = Callable[[re.Match[str], str], SqlToken]


def readings(text: str) -> list[list[Batch]]:
    """Return the batches of the text by each way in which a server can read it.

    The first reading has QUOTED_IDENTIFIER on, the second off, if they differ. Raises UnreadableSql.
    """
    on = _batches(text, PATTERN)
    return [on, _batches(text, _STRINGS_PATTERN)] if '"' in text else [on]


def _batches(text: str, pattern: re.Pattern[str]) -> list[Batch]:
    """Split at GO, which client tools process and servers never see. Raises UnreadableSql if a GO is ambiguous."""
    check_text(text)
    tokens = tokens_of(_without_nested(text), pattern, token_of_match)
    token_lists: list[Batch] = [[]]
    seen = 0
    for place, token in enumerate(tokens):
        if _is_go(token):
            token_lists.append([])
            seen += 1
        elif not (token.kind is SqlTokenKind.NUMBER and place and _is_go(tokens[place - 1])):
            token_lists[-1].append(token)
    check_go(text, seen)
    return [each for each in token_lists if each]


def only_batch(text: str, make: MakeToken | None = None) -> Batch:
    """Return the tokens of a text as a server reads it, with QUOTED_IDENTIFIER on: it knows no GO. `make` creates them.

    At the end, GO is an alias at most: `FROM t⏎GO`. Anywhere else it is within a statement that client tools would take
    for two batches. Raises UnreadableSql for that.
    """
    check_text(text)
    tokens = list(tokens_of(_without_nested(text), PATTERN, make or token_of_match))
    last = tokens.pop() if tokens and _is_go(tokens[-1]) else None
    if any(map(_is_go, tokens)):
        raise UnreadableSql("GO is between two statements, where a server takes it for a name")
    check_go(text, 0 if last is None else 1)
    return tokens


def _is_go(token: SqlToken) -> bool:
    return token.key == "GO" and token.alone


def check_go(text: str, seen: int) -> None:
    """Raise UnreadableSql if client tools may find more than the `seen` lines with GO."""
    if len(_GO_LINE.findall(text)) > seen:
        raise UnreadableSql("a line that starts with GO can be the end of a batch or not")


def token_of_match(match: re.Match[str], text: str) -> SqlToken:
    """Return the token of a match. Raises UnreadableSql.

    A backslash at the end of a line continues a string on the next. Without N, a server converts a string to a code
    page, in which other letters become quotes: its content is unknown unless it is ASCII.
    """
    token = token_of(match, text)
    if token.kind is SqlTokenKind.STRING:
        is_known = match.group()[0] in "nN" or match.group().isascii()
        content = None if token.content is None or not is_known else _CONTINUED.sub("", token.content)
        return SqlToken(SqlTokenKind.STRING, token.text, content=content)
    if token.kind is SqlTokenKind.NUMBER and token.text.startswith("$"):
        return SqlToken(SqlTokenKind.NUMBER, token.text.strip("$.") or "0")  # money
    if token.kind is SqlTokenKind.WORD and not token.text.isascii():
        blank = next((sign for sign in token.text if unicodedata.category(sign)[0] in "CZ"), "")
        if blank:
            raise UnreadableSql(f"U+{ord(blank):04X} may or may not be a space")
    return token


def _without_nested(text: str) -> str:
    """Replace comments by blanks. Comments in `/* */` can be nested."""
    if "/*" not in text:
        return text
    parts, place = [], 0
    while place < len(text):
        match = PATTERN.match(text, place)
        if match is None:
            raise UnreadableSql("a quote or a comment is not closed")
        if match.lastgroup != "nested":
            parts.append(match.group())
            place = match.end()
            continue
        place = end_of_comment(text, match.end())
        parts.append(" ")
    return "".join(parts)


def end_of_comment(text: str, place: int) -> int:
    """Return the place after a comment in `/* */`, from the place after its beginning. Raises UnreadableSql."""
    depth = 1
    while depth:
        edge = _COMMENT_EDGE.search(text, place)
        if edge is None:
            raise UnreadableSql("a comment is not closed")
        depth += 1 if edge.group() == "/*" else -1
        place = edge.end()
    return place


_KIND_WORDS = words_of(
    """
    TABLE VIEW INDEX PROCEDURE PROC FUNCTION TRIGGER DATABASE SCHEMA LOGIN USER ROLE SEQUENCE SYNONYM TYPE
    STATISTICS ASSEMBLY CERTIFICATE CREDENTIAL ENDPOINT SERVER EVENT QUEUE SERVICE RULE DEFAULT AGGREGATE XML
    FULLTEXT AVAILABILITY APPLICATION MASTER SYMMETRIC ASYMMETRIC SECURITY EXTERNAL RESOURCE WORKLOAD CONTRACT
    MESSAGE
    """
)


def statements(batch: Sequence[SqlToken]) -> list[list[SqlToken]]:
    """Split rather too often: a part that is not a statement is unknown, but a hidden statement would be missed."""
    token_lists: list[list[SqlToken]] = [[]]
    depth = cases = 0
    for place, token in enumerate(batch):
        key = token.key
        if key == ":" and len(token_lists[-1]) == 1 and token_lists[-1][0].is_name:
            token_lists[-1].clear()  # a label
            continue
        if key == ";":
            token_lists.append([])
            depth = cases = 0
            continue
        if key == "(":
            depth += 1
        elif key == ")":
            depth = max(0, depth - 1)
        elif key == "CASE":
            cases += 1
        elif key == "END" and cases:
            cases -= 1
        elif depth == 0 and key in STARTERS and token_lists[-1] and not _goes_on(token_lists[-1], batch, place, cases):
            token_lists.append([])
        token_lists[-1].append(token)
    return [each for each in token_lists if each]


def _goes_on(current: Sequence[SqlToken], batch: Sequence[SqlToken], place: int, cases: int) -> bool:
    """Return whether the keyword at `place` belongs to the statement in `current`."""
    key, before, after = batch[place].key, key_at(batch, place - 1), key_at(batch, place + 1)
    verb, listed = current[0].key, {token.key for token in current}
    if before in _BELONGS.get((key, verb), ()) or before in _BELONGS.get((key, ""), ()):
        return True
    if key in ("UPDATE", "DELETE") and before == "ON":
        return verb in ("CREATE", "ALTER") and after in ("CASCADE", "NO", "SET")
    if key == "MERGE" and after == "JOIN":
        return True
    if before == "THEN" and key in ("INSERT", "UPDATE", "DELETE"):
        return "MERGE" in listed
    if verb in ("GRANT", "DENY", "REVOKE"):
        return not listed & {"ON", "TO"} and (verb != "REVOKE" or "FROM" not in listed)
    if key == "SELECT":
        return _takes_select(current, verb, listed)
    if key in ("INSERT", "UPDATE", "DELETE", "MERGE"):
        return verb == "WITH" and not listed & {"INSERT", "UPDATE", "DELETE", "MERGE"} and before == ")"
    if key == "SET":
        return ((verb == "UPDATE" or (verb == "WITH" and "UPDATE" in listed)) and "SET" not in listed) or (
            verb == "ALTER" and after == "("
        )
    if key in ("EXEC", "EXECUTE"):
        return verb == "INSERT" and not listed & {"VALUES", "SELECT", "DEFAULT", "EXEC", "EXECUTE"}
    if key == "ELSE":
        return cases > 0
    if key == "IF":
        return verb in ("DROP", "ALTER", "CREATE") and after == "EXISTS"
    if key in ("ALTER", "DROP", "CREATE"):
        return verb == "ALTER" and key != "CREATE" and after not in _KIND_WORDS
    return False


# By keyword and first word of the statement ("" for any): what precedes the keyword.
_BELONGS: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("SELECT", ""): frozenset({"UNION", "EXCEPT", "INTERSECT"}),
    ("UPDATE", "DECLARE"): frozenset({"FOR"}),
    ("INSERT", "BULK"): frozenset({"BULK"}),
    ("BULK", "INSERT"): frozenset({"INSERT"}),
    ("SET", "MERGE"): frozenset({"UPDATE"}),
    ("SET", "WITH"): frozenset({"UPDATE"}),
    ("SET", "ALTER"): frozenset({"UPDATE", "DELETE"}),
    ("FETCH", ""): frozenset({"ROW", "ROWS"}),
    ("GRANT", "GRANT"): frozenset({"WITH"}),
    ("EXECUTE", "CREATE"): frozenset({"WITH"}),
    ("EXEC", "CREATE"): frozenset({"WITH"}),
}


def _takes_select(current: Sequence[SqlToken], verb: str, listed: set[str]) -> bool:
    last = current[-1].key
    if last == "ALL" and key_at(current, len(current) - 2) == "UNION":
        return True
    depth_0 = _top_keys(current)
    if verb == "INSERT" or (verb == "WITH" and "INSERT" in listed):
        return "SELECT" not in depth_0 and "VALUES" not in depth_0 and "DEFAULT" not in depth_0
    if verb == "WITH":
        return last == ")" and not depth_0 & {"SELECT", "UPDATE", "DELETE", "MERGE"}
    if verb == "DECLARE":
        return last == "FOR"
    return verb in ("CREATE", "ALTER") and last == "AS"


def _top_keys(tokens: Sequence[SqlToken]) -> set[str]:
    top_keys, depth = set(), 0
    for token in tokens:
        if token.key == "(":
            depth += 1
        elif token.key == ")":
            depth -= 1
        elif depth == 0:
            top_keys.add(token.key)
    return top_keys
