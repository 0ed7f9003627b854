"""Tokens of a statement, read as the server reads them, before any library does.

What a lenient tokenizer passes over (comments that run, quotes of another mode, blanks that are none) is settled here;
the tree's parser is then given a plain spelling of the same tokens (`render`), in which there is nothing to mistake.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

MAX_DEPTH = 60  # of brackets and of whatever else a parser descends for: some thousand crash it
MAX_RUN = 60  # of prefix operators in a row: each is one level too
MAX_OPEN_JOINS = 12  # without a condition yet: sqlglot tries each in two ways, so time doubles with every one
MAX_OPEN_TYPES = 8  # words for a type with a bracket, as `char(`: it tries each as a type, and then as a function


class SqlTokenKind(Enum):
    WORD = "word"  # unquoted: a keyword or a name
    NAME = "name"  # quoted
    STRING = "string"
    NUMBER = "number"
    VARIABLE = "variable"  # and bind variables
    SYMBOL = "symbol"


class UnreadableSql(Exception):
    """The text cannot be taken apart without a doubt; says why. `before` are the tokens that could be read."""

    def __init__(self, reason: str, before: Sequence[SqlToken] = ()) -> None:
        super().__init__(reason)
        self.before = tuple(before)


@dataclass(frozen=True, slots=True)
class SqlToken:
    """`text` is a word as written, a name without its quotes, a string's content with all that is not plain made `_`.
    `key` is the word or the symbol in capitals, and empty for whatever can be no keyword. `content` is a string's as
    written, with single quotes for doubled ones; what its backslashes mean is the session's. None of one in digits."""

    kind: SqlTokenKind
    text: str
    key: str = ""
    alone: bool = False  # nothing else on its line, as GO and / are
    content: str | None = field(default=None, compare=False)

    @property
    def is_name(self) -> bool:
        return self.kind is SqlTokenKind.WORD or self.kind is SqlTokenKind.NAME


def words_of(text: str) -> frozenset[str]:
    """The words of a list that is written as a text."""
    return frozenset(text.split())


def word(text: str, alone: bool = False) -> SqlToken:
    """Raises Unreadable for a word that only looks like one of a server's: with letters that fold to plain ones."""
    if not text.isascii():
        folded = unicodedata.normalize("NFKC", text).casefold().upper()
        if folded.isascii():
            raise UnreadableSql(f"the word {text!r} is spelled with unusual letters")
        return SqlToken(SqlTokenKind.WORD, text, "", alone)
    return SqlToken(SqlTokenKind.WORD, text, text.upper(), alone)


def symbol(text: str, alone: bool = False) -> SqlToken:
    return SqlToken(SqlTokenKind.SYMBOL, text, text, alone)


_NOT_PLAIN = re.compile(r"[^0-9A-Za-z .,:%_-]")


def plain(text: str) -> str:
    """With `_` for whatever may mean something in a string: so parsers are given it."""
    return _NOT_PLAIN.sub("_", text)


def string(content: str, quote: str = "'", is_text: bool = True) -> SqlToken:
    """`content` is what stands between the quotes."""
    kept = content.replace(quote * 2, quote) if is_text else None
    return SqlToken(SqlTokenKind.STRING, plain(content), content=kept)


def render(tokens: Iterable[SqlToken], open_quote: str, close_quote: str) -> str:
    """One spelling of the tokens, with single blanks between them."""
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
    """Split at each semicolon; without the empty ones."""
    found: list[list[SqlToken]] = [[]]
    for token in tokens:
        if token.key == ";":
            found.append([])
        else:
            found[-1].append(token)
    return [each for each in found if each]


def check_nesting(tokens: Sequence[SqlToken], types: frozenset[str]) -> None:
    """Raises Unreadable for more levels than a parser that descends should be given. `types` are words for types."""
    cases = run = joins = typed = 0
    opened: list[bool] = []  # whether a type stands in front of the bracket
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
        # Keywords and signs that a parser goes down for, without a bracket: none has a name or a value between.
        run = run + 1 if (token.kind is SqlTokenKind.SYMBOL and key not in ("(", ")", ",")) or key in _PREFIXES else 0
        before = key
        if len(opened) + cases > MAX_DEPTH or run > MAX_RUN or joins > MAX_OPEN_JOINS or typed > MAX_OPEN_TYPES:
            raise UnreadableSql("it is nested too deeply")


_PREFIXES = {"NOT", "PRIOR", "BINARY", "EXPLAIN", "DISTINCT", "ALL", "CONNECT_BY_ROOT", "COLLATE", "INTERVAL"}


def closing(tokens: Sequence[SqlToken], opening: int) -> int:
    """The place of the bracket that closes the one at `opening`; the end where there is none."""
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
    """The place of each opening bracket, and of the one that closes it; those that are closed."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.key == "(":
            opened.append(place)
        elif token.key == ")" and opened:
            found[opened.pop()] = place
    return found


def key_at(tokens: Sequence[SqlToken], place: int) -> str:
    return tokens[place].key if 0 <= place < len(tokens) else ""


def keys(tokens: Sequence[SqlToken], count: int) -> tuple[str, ...]:
    return tuple(token.key for token in tokens[:count])


def dotted_name(tokens: Sequence[SqlToken], place: int) -> tuple[tuple[str, ...], int]:
    """The parts of the name that begins at `place`, and the place behind it."""
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
