"""Reading a query of CloudWatch Logs Insights: which stored fields each column of its result is made of.

    fields @timestamp, strlen(@message) as size | parse @message "user=*" as user | stats count(*) as n by user

    size ← @message      user ← @message      n ← nothing      @timestamp is itself

A column without an alias is a stored field, or an expression spelled as in the query. The reader does not follow the
order of commands: an alias is made of whatever any command assigns to it. A query with commands that are not listed is
not understood, and then nothing is known of any column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

MAX_QUERY: Final = 64 * 1024  # characters; longer queries are not understood

MESSAGE: Final = "@message"
_TOKEN: Final = re.compile(
    r"(?P<blank>\s+|\#[^\n]*)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<quoted>`[^`]+`)"
    r"|(?P<number>[0-9]+(?:\.[0-9]+)?(?:ms|mo|[smhdwqy])?(?![A-Za-z0-9_]))"
    r"|(?P<word>[@A-Za-z_][A-Za-z0-9_.@]*)"
    r"|(?P<sign>=~|[!<>=]=|[-+*/%^(),|=<>\[\]{}:.])",
    re.DOTALL,
)
_REGEX: Final = re.compile(r"/(?:[^/\\\n]|\\.)*/")
_GROUP: Final = re.compile(r"\(\?P?<([A-Za-z_][A-Za-z0-9_.@]*)>")
_KEYWORDS: Final = frozenset(
    {"as", "by", "and", "or", "not", "in", "like", "asc", "desc", "true", "false", "null", "over", "is"}
)
# Commands that choose, order or rename; those that compute columns of their own; all others are not understood.
_FILTERING: Final = frozenset({"filter", "where", "sort", "limit", "head", "tail", "dedup", "filterindex"})
_NAMING: Final = frozenset({"fields", "display", "stats"})
_SUMMARISING: Final = frozenset({"pattern", "diff", "anomaly", "unnest"})
SOURCE: Final = "source"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def is_name(self) -> bool:
        return self.kind == "quoted" or (self.kind == "word" and self.text.lower() not in _KEYWORDS)

    @property
    def name(self) -> str:
        return self.text[1:-1] if self.kind in ("quoted", "string") else self.text

    def is_word(self, text: str) -> bool:
        return self.kind == "word" and self.text.lower() == text


@dataclass(frozen=True, slots=True)
class InsightsQuery:
    """What is known of a query's columns.

    - `aliases`: stored fields that each alias is made of.
    - `names`: all stored fields that the query names.
    - `is_summary`: a command makes columns of its own from all of an event.
    - `is_understood`: False if the query has commands that the reader does not know.
    - `names_groups`: the query itself says which log groups it reads. `groups` are the names in it.
    """

    aliases: Mapping[str, frozenset[str]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    is_summary: bool = False
    is_understood: bool = True
    names_groups: bool = False
    groups: frozenset[str] = frozenset()

    def fields_of(self, column: str) -> tuple[frozenset[str], bool] | None:
        """Return the stored fields that a column is made of, and whether it is just that field; None if unknown."""
        if not self.is_understood:
            return None
        if self.is_summary and column not in _EVERY_EVENT:
            return self.names | {MESSAGE}, False
        for alias in _prefixes(column):  # a part of a text that is JSON has the column's name in front
            if alias in self.aliases:
                return self.aliases[alias], False
        expression = "".join(column.split())
        if expression in self.aliases:
            return self.aliases[expression], False
        if _WORD.fullmatch(column) is None and column not in self.names:
            return self.names | {MESSAGE}, False  # an expression that is not spelled as in the query
        return frozenset({column}), True


def _prefixes(column: str) -> list[str]:
    parts = column.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


_WORD: Final = re.compile(r"[@A-Za-z_][A-Za-z0-9_.@*-]*")
_EVERY_EVENT: Final = frozenset({"@timestamp", "@ingestionTime", "@logStream", "@log", "@ptr"})
NOT_UNDERSTOOD: Final = InsightsQuery(is_understood=False, names_groups=True)


@lru_cache(maxsize=512)
def read_insights_query(text: str) -> InsightsQuery:
    """Return what is known of a query's columns. Never raises."""
    if len(text) > MAX_QUERY:
        return NOT_UNDERSTOOD
    try:
        commands = _read_commands(text)
    except ValueError:
        return NOT_UNDERSTOOD
    reader = _Reader()
    for command in commands:
        reader.read(command)
    return reader.finish()


def _read_commands(text: str) -> list[list[_Token]]:
    """Return the tokens of each command. Raises ValueError."""
    commands: list[list[_Token]] = [[]]
    depth = 0
    pos = 0
    while pos < len(text):
        command = commands[-1]
        if text[pos] == "/" and _expects_regex(command):
            match = _REGEX.match(text, pos)
            kind = "regex"
        else:
            match = _TOKEN.match(text, pos)
            kind = "" if match is None else match.lastgroup or ""
        if match is None:
            raise ValueError(f"unexpected character at {pos}")
        pos = match.end()
        if kind == "blank":
            continue
        depth += (match[0] in "([{") - (match[0] in ")]}") if kind == "sign" else 0
        if match[0] == "|" and kind == "sign" and depth == 0:
            commands.append([])
        else:
            command.append(_Token(kind, match[0]))
    return [command for command in commands if command]


def _expects_regex(command: Sequence[_Token]) -> bool:
    if not command:
        return False
    last = command[-1]
    if last.is_word("like") or last.text == "=~":
        return True
    return command[0].is_word("parse") and len(command) <= 2


class _Reader:
    def __init__(self) -> None:
        self._made: dict[str, set[str]] = {}
        self._names: set[str] = set()
        self._groups: set[str] = set()
        self._is_summary = False
        self._is_understood = True
        self._names_groups = False

    def read(self, command: list[_Token]) -> None:
        verb = command[0].text.lower() if command[0].kind == "word" else ""
        rest = command[1:]
        if any(token.is_word(SOURCE) for token in command):
            self._names_groups = True
            self._groups.update(token.name for token in rest if token.kind in ("string", "quoted"))
            self._is_understood = False
        elif verb in _NAMING:
            for part in _split(rest):
                self._name(part)
        elif verb == "parse":
            self._parse(rest)
        elif verb in _SUMMARISING:
            self._is_summary = True
            self._names |= _names_in(rest)
        elif verb in _FILTERING:
            self._names |= _names_in(rest)
        else:
            self._is_understood = False

    def _name(self, part: list[_Token]) -> None:
        """Read one column: an expression, and perhaps its alias."""
        places = [place for place, token in enumerate(part) if token.is_word("as")]
        expression, alias = (part[: places[-1]], part[places[-1] + 1 :]) if places else (part, [])
        names = set() if _counts(expression) else _names_in(expression)
        if len(expression) > 1 and expression[0].is_word("bin"):
            names.add("@timestamp")
        self._names |= names
        if len(alias) == 1:
            self._made.setdefault(alias[0].name, set()).update(names)
        elif places:
            self._is_understood = False
        elif len(expression) != 1:
            self._made.setdefault("".join(token.text for token in expression), set()).update(names)

    def _parse(self, rest: list[_Token]) -> None:
        names = {rest[0].name} if rest and rest[0].is_name else {MESSAGE}
        self._names |= names
        made = [
            match[1] for token in rest if token.kind in ("regex", "string") for match in _GROUP.finditer(token.text)
        ]
        places = [place for place, token in enumerate(rest) if token.is_word("as")]
        if places:
            made += [token.name for token in rest[places[0] + 1 :] if token.kind in ("word", "quoted")]
        if not made:
            self._is_understood = False
        for name in made:
            self._made.setdefault(name, set()).update(names)

    def finish(self) -> InsightsQuery:
        aliases = {alias: self._resolve(alias) for alias in self._made}
        names = frozenset().union(*(self._resolve(name) for name in self._names)) if self._names else frozenset()
        return InsightsQuery(
            aliases, names, self._is_summary, self._is_understood, self._names_groups, frozenset(self._groups)
        )

    def _resolve(self, name: str) -> frozenset[str]:
        """Return the stored fields that a name is made of."""
        stored: set[str] = set()
        seen = {name}
        left = [name]
        while left:
            current = left.pop()
            if current not in self._made:
                stored.add(current)
                continue
            if current in self._made[current]:
                stored.add(current)  # an alias of its own name: `fields trim(user) as user`
            further = self._made[current] - seen
            seen |= further
            left += further
        return frozenset(stored)


def _split(tokens: Iterable[_Token]) -> list[list[_Token]]:
    """Return the expressions between commas, and before and after `by`."""
    parts: list[list[_Token]] = [[]]
    depth = 0
    for token in tokens:
        if token.kind == "sign":
            depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0 and (token.is_word("by") or (token.kind == "sign" and token.text == ",")):
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _names_in(tokens: Sequence[_Token]) -> set[str]:
    """Return the fields in an expression; a word before a parenthesis is a function."""
    return {
        token.name
        for place, token in enumerate(tokens)
        if token.is_name and not (place + 1 < len(tokens) and token.kind == "word" and tokens[place + 1].text == "(")
    }


def _counts(expression: Sequence[_Token]) -> bool:
    """Return whether an expression is the number of events: `count(*)`, `count(user)`, `count()`."""
    texts = [token.text.lower() for token in expression]
    if texts[:2] != ["count", "("] or texts[-1] != ")" or len(texts) > 4:
        return False
    return len(texts) == 3 or texts[2] == "*" or expression[2].is_name
