"""A reader of PartiQL as DynamoDB has it: SELECT, INSERT, UPDATE, DELETE and EXISTS, each on one table.

    SELECT id, address.city FROM "orders"."by-city" WHERE city = 'Berlin'
    INSERT INTO "orders" VALUE {'id': ?, 'tags': <<'a', 'b'>>}
    UPDATE "orders" SET total = total + ? REMOVE note WHERE id = ? RETURNING ALL OLD *

It finds the statement's first word, its tables and indexes, its projection and whether it has a condition. What it does
not expect makes the statement unreadable, and so of unknown effect. No library knows this dialect: sqlglot reads none
of INSERT … VALUE {…}, sets, REMOVE and RETURNING.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_STATEMENT: Final = 8192  # characters; DynamoDB's own limit
_VERBS: Final = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "EXISTS"})
_FORBIDDEN: Final = frozenset({"JOIN", "UNION", "INTERSECT", "EXCEPT", "UNPIVOT", "WITH", "AT", "LET"})
_TOKEN: Final = re.compile(
    r"""\s+
    |(?P<text>'(?:[^']|'')*')
    |"(?P<quoted>(?:[^"]|"")*)"
    |(?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
    |(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)
    |(?P<comment>--|/\*)
    |(?P<sign><<|>>|<=|>=|<>|!=|\|\||[?=<>+\-*/%.,:;()\[\]{}])
    """,
    re.VERBOSE,
)
_TEXT, _NAME, _WORD, _NUMBER, _SIGN = "text", "quoted", "word", "number", "sign"


class UnreadableStatement(ValueError):
    """A text is not PartiQL that DynamoDB accepts, as far as it is known."""


@dataclass(frozen=True, slots=True)
class PartiqlTable:
    """A table, and the index of it that is read; empty for the table itself."""

    table: str
    index: str = ""


@dataclass(frozen=True, slots=True)
class PartiqlStatement:
    """A statement.

    - `verb` is its first word in capitals.
    - `tables` are those that it names, the outermost first.
    - `has_condition`: it has a WHERE that compares something.
    - `paths` are the projected attributes, each as its names; None for all, or if they cannot be told.
    - `computes`: the projection has something besides paths, so names in the answer do not tell where values are from.
    - `returns`: it returns an item (RETURNING).
    """

    verb: str
    tables: tuple[PartiqlTable, ...]
    has_condition: bool
    paths: tuple[tuple[str, ...], ...] | None = None
    computes: bool = False
    returns: bool = False

    @property
    def reads(self) -> bool:
        return self.verb in ("SELECT", "EXISTS") or self.returns


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    def is_word(self, *words: str) -> bool:
        return self.kind == _WORD and self.text.upper() in words

    def is_sign(self, sign: str) -> bool:
        return self.kind == _SIGN and self.text == sign


def read_partiql(statement: object) -> PartiqlStatement:
    """Parse a statement. Raises UnreadableStatement."""
    if not isinstance(statement, str):
        raise UnreadableStatement("the statement is not a text")
    if len(statement) > MAX_STATEMENT:
        raise UnreadableStatement(f"the statement has more than {MAX_STATEMENT} characters")
    tokens = _tokens(statement)
    if not tokens or not tokens[0].is_word(*_VERBS):
        raise UnreadableStatement("the statement does not begin with SELECT, INSERT, UPDATE, DELETE or EXISTS")
    verb = tokens[0].text.upper()
    tables = _tables(tokens, verb)
    if not tables:
        raise UnreadableStatement("the statement names no table")
    paths, computes = _projection(tokens) if verb == "SELECT" else (None, False)
    returns = any(token.is_word("RETURNING") for token in tokens)
    return PartiqlStatement(verb, tables, _has_condition(tokens), paths, computes, returns)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UnreadableStatement(f"the statement has {text[at]!r} where no token begins")
        at = match.end()
        kind = match.lastgroup
        if kind == "comment":
            raise UnreadableStatement("the statement has a comment")
        if kind is not None:
            content = match[kind]
            tokens.append(_Token(kind, content.replace('""', '"') if kind == _NAME else content))
    while tokens and tokens[-1].is_sign(";"):
        tokens.pop()
    if any(token.is_sign(";") for token in tokens):
        raise UnreadableStatement("the text has more than one statement")
    for token in tokens:
        if token.is_word(*_FORBIDDEN):
            raise UnreadableStatement(f"the statement has {token.text.upper()}, which DynamoDB does not support")
    return tokens


def _tables(tokens: list[_Token], verb: str) -> tuple[PartiqlTable, ...]:
    tables: list[PartiqlTable] = []
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else None
        is_path = before is not None and before.is_sign(".")
        if is_path or not (token.is_word("FROM", "INTO") or (at == 0 and verb == "UPDATE")):
            continue
        tables.append(_table(tokens, at + 1))
    return tuple(tables)


def _table(tokens: list[_Token], at: int) -> PartiqlTable:
    """Return the table that is named from `at` on: `"table"` or `"table"."index"`, and nothing more."""
    names: list[str] = []
    while at < len(tokens) and tokens[at].kind in (_NAME, _WORD):
        names.append(tokens[at].text)
        at += 1
        if at >= len(tokens) or not tokens[at].is_sign("."):
            break
        at += 1
    if not 1 <= len(names) <= 2 or not all(names):
        raise UnreadableStatement("the statement names its table in a way that is not known")
    if at < len(tokens) and not (tokens[at].kind == _WORD or tokens[at].is_sign(")")):
        raise UnreadableStatement("the statement has more than a table after FROM")
    return PartiqlTable(*names)


def _has_condition(tokens: list[_Token]) -> bool:
    """Return whether the outermost WHERE compares something with a value, and does not only test what exists."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += token.is_sign("(") - token.is_sign(")")
        if token.is_word("WHERE") and depth <= (1 if tokens[0].is_word("EXISTS") else 0):
            rest = tokens[at + 1 :]
            has_value = any(each.kind in (_TEXT, _NUMBER) or each.is_sign("?") for each in rest)
            has_name = any(each.kind == _NAME or (each.kind == _WORD and not each.is_word(*_WORDS)) for each in rest)
            return has_value and has_name
    return False


_WORDS: Final = frozenset(
    {
        *("AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "MISSING", "TRUE", "FALSE", "ORDER", "BY", "ASC", "DESC"),
        *("ATTRIBUTE_TYPE", "BEGINS_WITH", "CONTAINS", "SIZE", "EXISTS", "RETURNING", "ALL", "OLD", "NEW", "MODIFIED"),
    }
)


def _projection(tokens: list[_Token]) -> tuple[tuple[tuple[str, ...], ...] | None, bool]:
    """Return the projected paths of a SELECT, and whether it has something else in its projection."""
    end = next((at for at, token in enumerate(tokens) if token.is_word("FROM")), len(tokens))
    listed = tokens[1:end]
    if len(listed) == 1 and listed[0].is_sign("*"):
        return None, False
    paths: list[tuple[str, ...]] = []
    names: list[str] = []
    is_next = True  # a name is expected
    at = 0
    while at < len(listed):
        token = listed[at]
        if is_next and token.kind in (_NAME, _WORD):
            names.append(token.text)
            is_next = False
        elif not is_next and token.is_sign("."):
            is_next = True
        elif not is_next and token.is_sign("[") and _is_place(listed, at):
            at += 2
        elif not is_next and token.is_sign(","):
            paths.append(tuple(names))
            names, is_next = [], True
        else:
            return None, True
        at += 1
    return (None, True) if is_next else ((*paths, tuple(names)), False)


def _is_place(tokens: list[_Token], at: int) -> bool:
    """Return whether `[0]` begins at `at`."""
    return at + 2 < len(tokens) and tokens[at + 1].kind == _NUMBER and tokens[at + 2].is_sign("]")
