"""CREATE TABLE as SQLite understands it. The type of a column stays as it was written, with what SQLite has no word
for: `int identity`, `nvarchar(20) collate Greek_CI_AS`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import sqlglot
from sqlglot.tokenizer_core import Token
from tests.support.mssql import sqlserver_types as t
from tests.support.mssql.engine_columns import UNKNOWN
from tests.support.mssql.engine_translation import rewrite
from tests.support.mssql.sqlserver_collations import BY_NAME
from tests.support.mssql.sqlserver_errors import syntax_error
from tests.support.mssql.sqlserver_types import SqlColumn, SqlType, parse_type

_TABLE_WORDS: Final = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "INDEX", "PERIOD"})
_OWN_CALL: Final = re.compile(r"\[?(\w+)\]?\.\[?(\w+)\]?\s*\(")
ROWID: Final = "INTEGER"  # SQLite's own type of an identity column that is the key
_NOISE: Final = frozenset({"CLUSTERED", "NONCLUSTERED", "ROWGUIDCOL", "SPARSE", "PERSISTED", "HIDDEN"})


@dataclass
class TableDefinition:
    """What a CREATE TABLE says. `columns` by their declared types, in their order."""

    parts: list[str] = field(default_factory=list)
    columns: list[tuple[str, SqlType]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    identity: str = ""
    computed: list[tuple[str, str]] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)


def declared_column(name: str, declared: str, *, not_null: bool, key: bool) -> SqlColumn:
    """Return a column of a table, by the type that SQLite has stored."""
    if declared == ROWID:
        return SqlColumn(name, t.INT, nullable=False, identity=True)
    words = declared.split()
    kind = parse_type(words[0]) if words else UNKNOWN
    if "collate" in words:
        collation = BY_NAME.get(words[words.index("collate") + 1].lower())
        kind = SqlType(kind.name, kind.size, collation=collation) if collation is not None else kind
    return SqlColumn(name, kind, not (not_null or key), identity="identity" in words)


def read_definition(body: str) -> TableDefinition:
    """Read what stands between the parentheses of CREATE TABLE. Raises SqlError."""
    body = rewrite(body)
    tokens = sqlglot.tokenize(body, read="tsql")
    definition = TableDefinition()
    for part in _split(tokens):
        if part[0].text.upper().split()[0] in _TABLE_WORDS and body[part[0].start] not in '["':
            _constraint(body, part, definition)
        else:
            _column(body, part, definition)
    if definition.identity and definition.keys == [definition.identity]:
        _make_rowid(definition)
    return definition


def _make_rowid(definition: TableDefinition) -> None:
    """Let SQLite number an identity column that a constraint of the table makes the key."""
    start = _quoted(definition.identity) + " "
    definition.parts = [
        f"{start}{ROWID} PRIMARY KEY" if part.startswith(start) else part
        for part in definition.parts
        if not part.startswith("PRIMARY KEY")
    ]
    definition.identity = ""


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _group(tokens: Sequence[Token], start: int) -> int:
    """Return where a parenthesis that opens at `start` has closed; `start` if none opens there."""
    if start >= len(tokens) or tokens[start].text != "(":
        return start
    depth = 0
    for place in range(start, len(tokens)):
        depth += (tokens[place].text == "(") - (tokens[place].text == ")")
        if depth == 0:
            return place + 1
    raise syntax_error("(")


def _slice(body: str, tokens: Sequence[Token]) -> str:
    return body[tokens[0].start : tokens[-1].end + 1] if tokens else ""


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _constraint(body: str, tokens: list[Token], definition: TableDefinition) -> None:
    if tokens[0].text.upper() == "CONSTRAINT":
        tokens = tokens[2:]
    first = tokens[0].text.upper().split()[0]  # `PRIMARY KEY` is one token
    if first in ("INDEX", "PERIOD"):
        return
    if first == "CHECK":
        definition.parts.append(_check(_slice(body, tokens[1:]), definition))
        return
    start = next(place for place, token in enumerate(tokens) if token.text == "(")
    end = _group(tokens, start)
    names = _slice(body, tokens[start:end]).replace("[", '"').replace("]", '"')
    if first == "FOREIGN":
        rest = [token.text for token in tokens[end:]]
        definition.parts.append(f"FOREIGN KEY {names} {_references(body, tokens[end:])}" if rest else "")
        return
    if first == "PRIMARY":
        definition.keys = [
            token.text for token in tokens[start + 1 : end - 1] if token.text not in (",", "ASC", "DESC")
        ]
    definition.parts.append(f"{'PRIMARY KEY' if first == 'PRIMARY' else 'UNIQUE'} {names}")


def _references(body: str, tokens: Sequence[Token]) -> str:
    """Return REFERENCES without the schema, which SQLite does not have."""
    words, place = ["REFERENCES"], 1
    while place < len(tokens) and place + 1 < len(tokens) and tokens[place + 1].text == ".":
        place += 2
    words.append(_quoted(tokens[place].text))
    words.append(_slice(body, tokens[place + 1 :]).replace("[", '"').replace("]", '"'))
    return " ".join(words)


def _column(body: str, tokens: list[Token], definition: TableDefinition) -> None:
    name, place = tokens[0].text, 1
    if len(tokens) > 1 and tokens[1].text.upper() == "AS":
        text = _slice(body, tokens[2 : _group(tokens, 2)])
        definition.parts.append(f"{_quoted(name)} AS {text.replace('[', chr(34)).replace(']', chr(34))}")
        definition.computed.append((name, text))
        return
    while place + 1 < len(tokens) and tokens[place + 1].text == ".":
        place += 2
    end = _group(tokens, place + 1)
    declared = "".join(_slice(body, tokens[place:end]).strip("[]").lower().split()).replace("]", "")
    kind = parse_type(declared.removeprefix("f_"))  # `char` is a function, too
    declared = str(kind).replace(" ", "")
    words: list[str] = []
    place, identity = end, False
    while place < len(tokens):
        word = tokens[place].text.upper()
        place += 1
        if word == "IDENTITY":
            place, identity = _group(tokens, place), True
        elif word == "COLLATE":
            declared += f" collate {tokens[place].text}"
            place += 1
        elif word == "CONSTRAINT":
            place += 1
        elif word == "DEFAULT":
            end = _default_end(tokens, place)
            words.append(f"DEFAULT ({_slice(body, tokens[place:end])})")
            place = end
        elif word in ("PRIMARY KEY", "PRIMARY"):
            definition.keys = [name]
            words.append("PRIMARY KEY")
            place += word == "PRIMARY"
        elif word == "CHECK":
            end = _group(tokens, place)
            words.append(_check(_slice(body, tokens[place:end]), definition))
            place = end
        elif word == "REFERENCES":
            words.append(_references(body, tokens[place - 1 :]))
            break
        elif word == "MASKED":
            place = _group(tokens, place + 1)
        elif word not in _NOISE and word != "NULL":
            words.append(word + (" NULL" if word == "NOT" else ""))
            place += word == "NOT"
    if identity:
        words = ["PRIMARY KEY"] if "PRIMARY KEY" in words else ["UNIQUE"] if "UNIQUE" in words else []
        declared += " identity"
        definition.identity = "" if words == ["PRIMARY KEY"] else name
    collation = " COLLATE NOCASE" if kind.is_text else ""
    stored = ROWID if identity and words == ["PRIMARY KEY"] else _quoted(declared)
    definition.parts.append(f"{_quoted(name)} {stored}{collation} {' '.join(words)}")
    definition.columns.append((name, kind))


def _check(text: str, definition: TableDefinition) -> str:
    """Return a CHECK for SQLite; none for one that calls a user's function. The catalogue has the text of a
    server."""
    calls = _OWN_CALL.search(text) is not None
    definition.checks.append(_OWN_CALL.sub(r"[\1].[\2](", text))
    return "" if calls else f"CHECK {text}"


def _default_end(tokens: Sequence[Token], place: int) -> int:
    end = _group(tokens, place)
    if end > place:
        return end
    place += tokens[place].text == "-"
    return _group(tokens, place + 1)


def checks_of(database: str, table: str, definition: TableDefinition) -> list[str]:
    """Return triggers that refuse texts that are too long, and remember the key of a row for the text of an error."""
    alias, quoted = _quoted(database), _quoted(table)
    calls = [
        f"f_check_size('{table}', '{name}', new.{_quoted(name)}, {kind.size})"
        for name, kind in definition.columns
        if kind.name in t.SIZED and kind.size > 0
    ]
    if definition.keys:
        calls.append("f_remember_key(" + ", ".join(f"new.{_quoted(key)}" for key in definition.keys) + ")")
    triggers = []
    if definition.identity:
        column = _quoted(definition.identity)
        triggers.append(
            f"CREATE TRIGGER {alias}.{_quoted(f'{table}/identity')} AFTER INSERT ON {quoted} "
            f"WHEN new.{column} IS NULL BEGIN UPDATE {quoted} "
            f"SET {column} = (SELECT coalesce(max({column}), 0) + 1 FROM {quoted}) WHERE rowid = new.rowid; END"
        )
    if not calls:
        return triggers
    body = " ".join(f"SELECT {call};" for call in calls)
    return triggers + [
        f"CREATE TRIGGER {alias}.{_quoted(f'{table}/{event}')} BEFORE {event} ON {quoted} BEGIN {body} END"
        for event in ("INSERT", "UPDATE")
    ]
