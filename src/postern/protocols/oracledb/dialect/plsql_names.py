"""Names that a block of PL/SQL declares, which hide functions of the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, key_at, split_at_commas, words_of


class LocalKind(Enum):
    """What a declared name is. Values of types of the target's own can have methods, which run code."""

    PLAIN = "plain"  # a scalar, a record of scalars, a collection of these, a cursor, a label, an exception
    OBJECT = "object"
    CODE = "code"  # a procedure or function, whose body is judged where it is declared


@dataclass
class LocalNames:
    """The names that can be used at one place of a block, in upper case. Each can be used from its declaration on."""

    outer: LocalNames | None = None
    _kinds: dict[str, tuple[int, LocalKind]] = field(default_factory=dict)  # with their order
    _types: set[str] = field(default_factory=set)
    _texts: dict[str, str | None] = field(default_factory=dict)
    _collections: set[str] = field(default_factory=set)  # types, and values of these
    _labels: set[str] = field(default_factory=set)
    _count: int | None = None  # of declarations that this view has; None for all

    def view(self) -> LocalNames:
        """Return the names as they are now, without those that are declared later."""
        outer = None if self.outer is None else self.outer.view()
        shared = (self._kinds, self._types, self._texts, self._collections, self._labels)
        return LocalNames(outer, *shared, _count=len(self._kinds))

    def _level(self, name: str) -> LocalNames | None:
        """Return the innermost level that declares a name."""
        level: LocalNames | None = self
        while level is not None:
            if level._declares(name):
                return level
            level = level.outer
        return None

    def _declares(self, name: str) -> bool:
        declared = self._kinds.get(name)
        return declared is not None and (self._count is None or declared[0] < self._count)

    def kind(self, name: str) -> LocalKind | None:
        level = self._level(name)
        return None if level is None else level._kinds[name][1]

    def keep_text(self, token: SqlToken, text: str | None) -> None:
        """Record the text of a constant, None if it is unknown."""
        self._texts[local_name(token)] = text

    def text(self, token: SqlToken) -> str | None:
        """Return the text of a constant; None for any other name."""
        name = local_name(token)
        level = self._level(name)
        return None if level is None else level._texts.get(name)

    def declare(self, token: SqlToken, kind: LocalKind) -> None:
        self._kinds.setdefault(local_name(token), (len(self._kinds), kind))

    def declare_label(self, token: SqlToken) -> None:
        """Declare a label, which hides no function."""
        self._labels.add(local_name(token))

    def is_label(self, name: str) -> bool:
        return name in self._labels or (self.outer is not None and self.outer.is_label(name))

    def declare_value(self, token: SqlToken, type_of: Sequence[SqlToken]) -> None:
        """Declare a variable or a parameter of a type."""
        self.declare(token, self.kind_of_type(type_of))
        if len(type_of) == 1 and self.is_collection(type_of[0]):
            self._collections.add(local_name(token))

    def is_collection(self, token: SqlToken) -> bool:
        """Return whether a name is that of a declared type of collections, or of a value of one."""
        name = local_name(token)
        level = self._level(name)
        return level is not None and name in level._collections

    def declare_type(self, token: SqlToken, definition: Sequence[SqlToken]) -> None:
        """Declare a type. One is plain if everything in it is."""
        is_plain = self._is_plain_definition(definition)
        self.declare(token, LocalKind.OBJECT)
        if is_plain:
            self._types.add(local_name(token))
        if key_at(definition, 0) in ("TABLE", "VARRAY", "VARYING"):
            self._collections.add(local_name(token))

    def kind_of_type(self, tokens: Sequence[SqlToken]) -> LocalKind:
        """Return what a variable of this type is."""
        if not tokens:
            return LocalKind.OBJECT
        listed = [token.key for token in tokens]
        if "ROWTYPE" in listed and "%" in listed:
            return LocalKind.PLAIN
        is_plain = listed[0] in SCALARS or self._has_type(local_name(tokens[0]))
        return LocalKind.PLAIN if is_plain and "." not in listed else LocalKind.OBJECT

    def _has_type(self, name: str) -> bool:
        level = self._level(name)
        return level is not None and name in level._types

    def _is_plain_definition(self, definition: Sequence[SqlToken]) -> bool:
        first = key_at(definition, 0)
        if first in ("REF", "NEW") or "RANGE" in [token.key for token in definition]:
            return first == "REF" and key_at(definition, 1) == "CURSOR"
        if first == "RECORD":
            fields = split_at_commas(definition[2:-1])
            return all(len(each) > 1 and self._is_plain_element(each[1:]) for each in fields)
        place = next((at for at, token in enumerate(definition) if token.key == "OF"), -1)
        return place > 0 and self._is_plain_element(definition[place + 1 :])

    def _is_plain_element(self, tokens: Sequence[SqlToken]) -> bool:
        end = next(
            (at for at, token in enumerate(tokens) if token.key in ("INDEX", "NOT", ":=", "DEFAULT")), len(tokens)
        )
        return self.kind_of_type(tokens[:end]) is LocalKind.PLAIN


def local_name(token: SqlToken) -> str:
    """Return a name as blocks compare it. One in quotes is never equal to another one."""
    return token.text.upper() if token.kind is SqlTokenKind.WORD else f'"{token.text}"'


def constant_text(tokens: Sequence[SqlToken], names: LocalNames) -> str | None:
    """Return the text that an expression of literals and constants has; None for any other, and with letters that a
    conversion between character sets may turn into quotes."""
    parts: list[str] = []
    for place, token in enumerate(tokens):
        if place % 2:
            if token.key != "||":
                return None
            continue
        text = token.content if token.kind is SqlTokenKind.STRING else names.text(token) if token.is_name else None
        if text is None:
            return None
        parts.append(text)
    text = "".join(parts)
    return text if len(tokens) % 2 and text.isascii() else None


SCALARS: Final = words_of(
    """
    BFILE BINARY_DOUBLE BINARY_FLOAT BINARY_INTEGER BLOB BOOLEAN CHAR CHARACTER CLOB DATE DEC DECIMAL DOUBLE FLOAT INT
    INTEGER INTERVAL LONG NATIONAL NATURAL NATURALN NCHAR NCLOB NUMBER NUMERIC NVARCHAR2 PLS_INTEGER POSITIVE
    POSITIVEN RAW REAL ROWID SIGNTYPE SIMPLE_DOUBLE SIMPLE_FLOAT SIMPLE_INTEGER SMALLINT STRING SYS_REFCURSOR TIMESTAMP
    UROWID VARCHAR VARCHAR2
    """
)
