"""Tokens of a statement, read as the server reads them, before any library does.

A lenient tokenizer overlooks traps: comments that run, quotes of another mode, characters that are not blanks. They are
resolved here. The tree parser then receives a plain spelling of the same tokens (`render`), without ambiguity.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

MAX_DEPTH = 60  # parentheses and other nesting: some thousand levels crash a parser
MAX_RUN = 60  # consecutive prefix operators: each is a level too
MAX_OPEN_JOINS = 12  # joins still without a condition: sqlglot tries each in two ways, so each doubles the time
MAX_OPEN_TYPES = 8  # type words before a parenthesis, as `char(`: sqlglot tries each as a type and as a function


class SqlTokenKind(Enum):
    WORD = "word"  # unquoted: a keyword or a name
    NAME = "name"  # quoted
    STRING = "string"
    NUMBER = "number"
    VARIABLE = "variable"  # and bind variables
    SYMBOL = "symbol"


class UnreadableSql(Exception):
    """The text cannot be split into tokens without doubt. `before` are the tokens that could be read."""

    def __init__(self, reason: str, before: Sequence[SqlToken] = ()) -> None:
        super().__init__(reason)
        self.before = tuple(before)


@dataclass(frozen=True, slots=True)
class SqlToken:
    """Token of a statement.

    - `text`: a word as written, a name without quotes, or a string's content with `_` for all but plain characters.
    - `key`: the word or symbol in upper case; empty for tokens that cannot be keywords.
    - `content`: a string's content with single quotes for doubled ones. Its backslashes depend on the session. None for
      bit and hexadecimal strings.
    """

    kind: SqlTokenKind
    text: str
    key: str = ""
    alone: bool = False  # alone on its line, as GO and / are
    content: str | None = field(default=None, compare=False)

    @property
    def is_name(self) -> bool:
        return self.kind is SqlTokenKind.WORD or self.kind is SqlTokenKind.NAME


def words_of(text: str) -> frozenset[str]:
    """Return the words of a list."""
    return frozenset(text.split())


def word(text: str, alone: bool = False) -> SqlToken:
    """Return the token of a word. Raises UnreadableSql for letters that fold to plain ones, which can look like a
    keyword.
    """
    if not text.isascii():
        folded = unicodedata.normalize("NFKC", text).casefold().upper()
        if folded.isascii():
            raise UnreadableSql(f"the word {text!r} contains unusual letters that look like plain ones")
        return SqlToken(SqlTokenKind.WORD, text, "", alone)
    return SqlToken(SqlTokenKind.WORD, text, text.upper(), alone)


def symbol(text: str, alone: bool = False) -> SqlToken:
    return SqlToken(SqlTokenKind.SYMBOL, text, text, alone)


_NOT_PLAIN = re.compile(r"[^0-9A-Za-z .,:%_-]")


def plain(text: str) -> str:
    """Return the text with `_` for each character that can have a meaning in a string. Parsers receive this form."""
    return _NOT_PLAIN.sub("_", text)


def string(content: str, quote: str = "'", is_text: bool = True) -> SqlToken:
    """Return the token of a string. `content` is the text between the quotes."""
    unescaped = content.replace(quote * 2, quote) if is_text else None
    return SqlToken(SqlTokenKind.STRING, plain(content), content=unescaped)


def render(tokens: Iterable[SqlToken], open_quote: str, close_quote: str) -> str:
    """Return one spelling of the tokens, separated by single blanks."""
    parts = []
    for token in tokens:
        if token.kind is SqlTokenKind.STRING:
            parts.append(f"'{token.text}'")
        elif token.kind is SqlTokenKind.NAME:
            parts.append(open_quote + token.text.replace(close_quote, close_quote * 2) + close_quote)
        else:
            parts.append(token.text)
    return " ".join(parts)


def statements_of(tokens: Sequence[SqlToken]) -> list[list[SqlToken]]:
    """Split at semicolons, without empty statements."""
    statements: list[list[SqlToken]] = [[]]
    for token in tokens:
        if token.key == ";":
            statements.append([])
        else:
            statements[-1].append(token)
    return [each for each in statements if each]


def check_nesting(tokens: Sequence[SqlToken], types: frozenset[str]) -> None:
    """Raise UnreadableSql for deeper nesting than a recursive parser can take. `types` are type words."""
    cases = run = joins = typed = 0
    opened: list[bool] = []  # whether a type precedes the parenthesis
    before = ""
    for token in tokens:
        key = token.key
        if key == "(":
            opened.append(before in types)
            typed += opened[-1]
        elif key == ")":
            typed -= bool(opened) and opened.pop()
        elif key == "CASE":
            cases += 1
        elif key == "END":
            cases = max(0, cases - 1)
        elif key in ("JOIN", "STRAIGHT_JOIN"):
            joins += 1
        elif key in ("ON", "USING"):
            joins = max(0, joins - 1)
        # Keywords and signs that make a parser recurse without a parenthesis, if no name or value is between them.
        run = run + 1 if (token.kind is SqlTokenKind.SYMBOL and key not in ("(", ")", ",")) or key in _PREFIXES else 0
        before = key
        if len(opened) + cases > MAX_DEPTH or run > MAX_RUN or joins > MAX_OPEN_JOINS or typed > MAX_OPEN_TYPES:
            raise UnreadableSql("it is nested too deeply")


_PREFIXES = {"NOT", "PRIOR", "BINARY", "EXPLAIN", "DISTINCT", "ALL", "CONNECT_BY_ROOT", "COLLATE", "INTERVAL"}


def closing(tokens: Sequence[SqlToken], opening: int) -> int:
    """Return the place of the matching closing parenthesis; the end if there is none."""
    depth = 0
    for place in range(opening, len(tokens)):
        key = tokens[place].key
        if key == "(":
            depth += 1
        elif key == ")":
            depth -= 1
            if depth == 0:
                return place
    return len(tokens)


def brackets(tokens: Sequence[SqlToken]) -> dict[int, int]:
    """Return the place of each opening parenthesis, with that of its closing one, if it has one."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.key == "(":
            opened.append(place)
        elif token.key == ")" and opened:
            pairs[opened.pop()] = place
    return pairs


def key_at(tokens: Sequence[SqlToken], place: int) -> str:
    return tokens[place].key if 0 <= place < len(tokens) else ""


def keys(tokens: Sequence[SqlToken], count: int) -> tuple[str, ...]:
    return tuple(token.key for token in tokens[:count])


def split_at_commas(tokens: Sequence[SqlToken]) -> list[list[SqlToken]]:
    """Split at the commas outside of parentheses."""
    parts: list[list[SqlToken]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.key == "(") - (token.key == ")")
        if token.key == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def dotted_name(tokens: Sequence[SqlToken], place: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the name at `place`, and the place after it."""
    parts: list[str] = []
    while place < len(tokens) and tokens[place].is_name:
        parts.append(tokens[place].text)
        place += 1
        if key_at(tokens, place) != ".":
            break
        place += 1
        while key_at(tokens, place) == ".":  # T-SQL: db..table
            parts.append("")
            place += 1
    return tuple(parts), place
