"""The structure of a block of PL/SQL: its statements of SQL, its expressions, its calls, and the texts that it runs.

Blocks are read by recursive descent over their tokens. Order and branches do not matter for rules, so the result is a
flat list of parts, each with the names that are declared where it is. What is not understood raises UnreadableSql.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final

from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, closing, key_at, split_at_commas
from postern.protocols.oracledb.dialect.plsql_cursors import with_plain_cursors
from postern.protocols.oracledb.dialect.plsql_names import LocalKind, LocalNames, constant_text

_DEEPEST: Final = 40  # nested statements
DML: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_QUERIES: Final = frozenset({"SELECT", "WITH"})
_TRANSACTIONS: Final = frozenset({"COMMIT", "ROLLBACK", "SAVEPOINT", "SET", "LOCK"})
_PRAGMAS: Final = frozenset(
    {"AUTONOMOUS_TRANSACTION", "EXCEPTION_INIT", "SERIALLY_REUSABLE", "INLINE", "UDF", "RESTRICT_REFERENCES"}
)


class PartKind(Enum):
    SQL = "sql"  # a statement, without INTO and its variables
    EXPRESSION = "expression"
    CALL = "call"  # of a procedure, with its arguments
    TEXT = "text"  # an expression whose value is run as a statement


@dataclass(frozen=True, slots=True)
class BlockPart:
    """One part of a block. `into` tells that values of a query go into variables."""

    kind: PartKind
    tokens: tuple[SqlToken, ...]
    names: LocalNames


def parts_of_block(tokens: Sequence[SqlToken]) -> list[BlockPart]:
    """Return the parts of an anonymous block, which must end with the tokens. Raises UnreadableSql."""
    reader = _BlockReader(with_plain_cursors(tokens))
    reader.read_anonymous()
    return reader.parts


class _BlockReader:
    def __init__(self, tokens: Sequence[SqlToken]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.parts: list[BlockPart] = []

    def read_anonymous(self) -> None:
        names = LocalNames()
        self._labels(names)
        self._block(names)
        if self._at != len(self._tokens):
            raise UnreadableSql("text after the end of a block is not understood")

    # Tokens

    def _key(self, ahead: int = 0) -> str:
        return key_at(self._tokens, self._at + ahead)

    def _token(self) -> SqlToken:
        if self._at >= len(self._tokens):
            raise UnreadableSql("a block ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, *keys: str) -> None:
        for key in keys:
            if self._key() != key:
                raise UnreadableSql(f"a block has no {key} where it is expected")
            self._at += 1

    def _name(self) -> SqlToken:
        token = self._token()
        if not token.is_name:
            raise UnreadableSql("a block has no name where one is expected")
        return token

    def _until(self, *keys: str) -> list[SqlToken]:
        """Take the tokens up to one of these keys, outside of parentheses and of CASE."""
        start, depth, cases = self._at, 0, 0
        while self._at < len(self._tokens):
            key = self._key()
            if depth == 0 and cases == 0 and key in keys:
                return list(self._tokens[start : self._at])
            if key == ";":
                break
            depth += (key == "(") - (key == ")")
            cases += (key == "CASE") - (key == "END")
            self._at += 1
        raise UnreadableSql(f"a block has no {' or '.join(keys)} where it is expected")

    def _add(self, kind: PartKind, tokens: Sequence[SqlToken], names: LocalNames) -> None:
        if tokens:
            self.parts.append(BlockPart(kind, tuple(tokens), names.view()))

    # Blocks

    def _labels(self, names: LocalNames) -> None:
        while self._key() == "<<":
            self._at += 1
            names.declare_label(self._name())
            self._expect(">>")

    def _block(self, names: LocalNames) -> None:
        """Read from DECLARE or BEGIN to the semicolon after END."""
        if self._key() == "DECLARE":
            self._at += 1
            self._declarations(names)
        self._expect("BEGIN")
        self._body(names)

    def _body(self, names: LocalNames) -> None:
        """Read from after BEGIN to the semicolon after END."""
        self._statements(names, "EXCEPTION", "END")
        if self._key() == "EXCEPTION":
            self._at += 1
            while self._key() == "WHEN":
                self._at += 1
                self._until("THEN")
                self._at += 1
                self._statements(names, "WHEN", "END")
        self._expect("END")
        if self._key() != ";":
            self._name()
        self._expect(";")

    def _declarations(self, names: LocalNames) -> None:
        while self._key() != "BEGIN":
            key = self._key()
            if key == "PRAGMA":
                self._pragma()
            elif key == "CURSOR":
                self._cursor(names)
            elif key in ("TYPE", "SUBTYPE"):
                self._at += 1
                name = self._name()
                self._expect("IS")
                definition = self._until(";")
                self._at += 1
                self._defaults(definition, names)
                names.declare_type(name, definition)
            elif key in ("PROCEDURE", "FUNCTION"):
                self._subprogram(names)
            else:
                self._variable(names)

    def _pragma(self) -> None:
        tokens = self._until(";")
        self._at += 1
        if key_at(tokens, 1) not in _PRAGMAS:
            raise UnreadableSql("a pragma is not understood")

    def _cursor(self, names: LocalNames) -> None:
        self._at += 1
        name = self._name()
        inner = LocalNames(names)
        if self._key() == "(":
            self._parameters(inner)
        if self._key() == "RETURN":
            self._until("IS", ";")
        names.declare(name, LocalKind.PLAIN)
        if self._key() == ";":
            self._at += 1
            return
        self._expect("IS")
        query = self._until(";")
        self._at += 1
        self._query(query, inner)

    def _variable(self, names: LocalNames) -> None:
        name = self._name()
        definition = self._until(";")
        self._at += 1
        if len(definition) == 1 and definition[0].key == "EXCEPTION":
            names.declare(name, LocalKind.PLAIN)
            return
        type_of, value = _parts_of_declaration(definition)
        if not type_of:
            raise UnreadableSql("a declaration is not understood")
        if definition[0].key == "CONSTANT" and type_of[0].key in ("VARCHAR2", "VARCHAR"):  # CHAR adds blanks
            names.keep_text(name, constant_text(value, names))
        self._add(PartKind.EXPRESSION, value, names)
        names.declare_value(name, type_of)

    def _defaults(self, definition: Sequence[SqlToken], names: LocalNames) -> None:
        """Judge a type with values in it as if all of it after the first one were an expression."""
        place = next((at for at, token in enumerate(definition) if token.key in (":=", "DEFAULT")), len(definition))
        if place < len(definition):
            raise UnreadableSql("a type with defaults is not understood")

    def _parameters(self, names: LocalNames) -> None:
        end = closing(self._tokens, self._at)
        for each in split_at_commas(self._tokens[self._at + 1 : end]):
            if not each or not each[0].is_name:
                raise UnreadableSql("a parameter is not understood")
            rest = [token for token in each[1:] if token.key not in ("IN", "OUT", "NOCOPY")]
            type_of, value = _parts_of_declaration(rest)
            self._add(PartKind.EXPRESSION, value, names)
            names.declare_value(each[0], type_of)
        self._at = end + 1

    def _subprogram(self, names: LocalNames) -> None:
        self._at += 1
        name = self._name()
        names.declare(name, LocalKind.CODE)
        inner = LocalNames(names)
        if self._key() == "(":
            self._parameters(inner)
        options = self._until("IS", "AS") if not self._is_forward() else self._until(";")
        if any(token.key in ("AGGREGATE", "EXTERNAL", "LANGUAGE", "SQL_MACRO", "USING") for token in options):
            raise UnreadableSql("the code of a function is not in the text")
        is_forward = self._key() == ";"
        self._at += 1
        if is_forward:
            return
        self._deeper()
        self._declarations(inner)
        self._expect("BEGIN")
        self._body(inner)
        self._depth -= 1

    def _is_forward(self) -> bool:
        depth = 0
        for token in self._tokens[self._at :]:
            depth += (token.key == "(") - (token.key == ")")
            if depth == 0 and token.key in ("IS", "AS", ";"):
                return token.key == ";"
        return False

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnreadableSql("it is nested too deeply")

    # Statements

    def _statements(self, names: LocalNames, *ends: str) -> None:
        self._deeper()
        while self._key() not in ends:
            self._statement(names)
        self._depth -= 1

    def _statement(self, names: LocalNames) -> None:
        self._labels(names)
        key = self._key()
        if key in ("DECLARE", "BEGIN"):
            self._block(LocalNames(names))
        elif key == "IF":
            self._if(names)
        elif key == "CASE":
            self._case(names)
        elif key in ("LOOP", "WHILE", "FOR"):
            self._loop(names)
        else:
            tokens = self._until(";")
            self._at += 1
            if not tokens:
                raise UnreadableSql("a block has no statement before a semicolon")
            self._simple(tokens, names)

    def _if(self, names: LocalNames) -> None:
        self._at += 1
        self._add(PartKind.EXPRESSION, self._until("THEN"), names)
        self._at += 1
        self._statements(names, "ELSIF", "ELSE", "END")
        while self._key() == "ELSIF":
            self._at += 1
            self._add(PartKind.EXPRESSION, self._until("THEN"), names)
            self._at += 1
            self._statements(names, "ELSIF", "ELSE", "END")
        if self._key() == "ELSE":
            self._at += 1
            self._statements(names, "END")
        self._expect("END", "IF", ";")

    def _case(self, names: LocalNames) -> None:
        self._at += 1
        if self._key() != "WHEN":
            self._add(PartKind.EXPRESSION, self._until("WHEN"), names)
        while self._key() == "WHEN":
            self._at += 1
            self._add(PartKind.EXPRESSION, self._until("THEN"), names)
            self._at += 1
            self._statements(names, "WHEN", "ELSE", "END")
        if self._key() == "ELSE":
            self._at += 1
            self._statements(names, "END")
        self._expect("END", "CASE")
        self._end()

    def _loop(self, names: LocalNames) -> None:
        inner = LocalNames(names)
        kind = self._token().key
        if kind == "WHILE":
            self._add(PartKind.EXPRESSION, self._until("LOOP"), names)
        elif kind == "FOR":
            index = self._name()
            self._expect("IN")
            values = self._until("LOOP")
            self._over(values, names)
            inner.declare(index, LocalKind.PLAIN)
        if kind != "LOOP":
            self._expect("LOOP")
        self._statements(inner, "END")
        self._expect("END", "LOOP")
        self._end()

    def _end(self) -> None:
        if self._key() != ";":
            self._name()
        self._expect(";")

    def _over(self, values: list[SqlToken], names: LocalNames) -> None:
        """Read what a FOR loop is over: a range, a query or a cursor."""
        values = values[key_at(values, 0) == "REVERSE" :]
        if key_at(values, 0) == "(" and key_at(values, 1) in _QUERIES and closing(values, 0) == len(values) - 1:
            self._query(values[1:-1], names)
            return
        place = next((at for at, token in enumerate(values) if token.key == ".."), len(values))
        if place == len(values) and len(values) == 1:
            self._cursor_name(values, names)
            return
        for each in (values[:place], values[place + 1 :]):
            self._add(PartKind.EXPRESSION, each, names)

    def _cursor_name(self, tokens: Sequence[SqlToken], names: LocalNames) -> None:
        """Judge the name of a cursor with its arguments. One that is not declared here is of a package."""
        if key_at(tokens, 0) != "" and len(tokens) == 1 and names.kind(tokens[0].text.upper()) is LocalKind.PLAIN:
            return
        self._add(PartKind.EXPRESSION, tokens, names)

    def _simple(self, tokens: list[SqlToken], names: LocalNames) -> None:
        """Read a statement without statements in it."""
        key = tokens[0].key
        second = key_at(tokens, 1)
        if second in (":=", ".", "%") or (len(tokens) == 1 and key not in _ALONE):
            self._assign_or_call(tokens, names)
        elif key in _QUERIES:
            self._query(tokens, names)
        elif key in DML:
            change, variables = split_returning(tokens)
            self._add(PartKind.SQL, change, names)
            self._variables(variables, names)
        elif key in _TRANSACTIONS:
            self._add(PartKind.SQL, tokens, names)
        elif key == "FORALL":
            self._for_all(tokens, names)
        elif key == "EXECUTE" and second == "IMMEDIATE":
            self._execute(tokens[2:], names)
        elif key == "OPEN":
            self._open(tokens[1:], names)
        elif key == "FETCH":
            self._fetch(tokens[1:], names)
        elif key == "CLOSE":
            self._cursor_name(tokens[1:], names)
        elif key in ("EXIT", "CONTINUE"):
            place = next((at for at, token in enumerate(tokens) if token.key == "WHEN"), len(tokens))
            self._add(PartKind.EXPRESSION, tokens[place + 1 :], names)
        elif key == "RETURN":
            self._add(PartKind.EXPRESSION, tokens[1:], names)
        elif key == "PIPE" and second == "ROW":
            self._add(PartKind.EXPRESSION, tokens[2:], names)
        elif key in ("NULL", "GOTO", "RAISE"):
            if key == "RAISE" and len(tokens) > 2:
                raise UnreadableSql("a statement of a block is not understood")
        elif key == "PRAGMA":
            if second not in _PRAGMAS:
                raise UnreadableSql("a pragma is not understood")
        else:
            self._assign_or_call(tokens, names)

    def _assign_or_call(self, tokens: list[SqlToken], names: LocalNames) -> None:
        depth, place = 0, len(tokens)
        for at, token in enumerate(tokens):
            depth += (token.key == "(") - (token.key == ")")
            if token.key == ":=" and depth == 0:
                place = at
                break
        if place < len(tokens):
            self._add(PartKind.EXPRESSION, tokens[:place], names)
            self._add(PartKind.EXPRESSION, tokens[place + 1 :], names)
            return
        if not tokens[0].is_name:
            raise UnreadableSql("a statement of a block is not understood")
        self._add(PartKind.CALL, tokens, names)

    def _query(self, tokens: list[SqlToken], names: LocalNames) -> None:
        query, variables = split_into(tokens)
        self._add(PartKind.SQL, query, names)
        self._variables(variables, names)

    def _variables(self, tokens: Sequence[SqlToken], names: LocalNames) -> None:
        """Judge variables that get values: one of a package runs the code of its initialisation."""
        for each in split_at_commas(tokens):
            self._add(PartKind.EXPRESSION, each, names)

    def _for_all(self, tokens: list[SqlToken], names: LocalNames) -> None:
        inner = LocalNames(names)
        if len(tokens) < 4 or not tokens[1].is_name or tokens[2].key != "IN":
            raise UnreadableSql("a FORALL is not understood")
        inner.declare(tokens[1], LocalKind.PLAIN)
        place = next((at for at, each in enumerate(tokens) if each.key in DML or each.key == "EXECUTE"), len(tokens))
        bounds = [each for each in tokens[3:place] if each.key not in ("SAVE", "EXCEPTIONS", "INDICES", "VALUES", "OF")]
        middle = next((at for at, each in enumerate(bounds) if each.key == ".."), len(bounds))
        self._add(PartKind.EXPRESSION, bounds[:middle], names)
        self._add(PartKind.EXPRESSION, bounds[middle + 1 :], names)
        if place == len(tokens):
            raise UnreadableSql("a FORALL is not understood")
        self._simple(tokens[place:], inner)

    def _execute(self, tokens: list[SqlToken], names: LocalNames) -> None:
        """Read EXECUTE IMMEDIATE: the text, then INTO, USING and RETURNING with their variables and values."""
        places = _clauses(tokens, ("INTO", "BULK", "USING", "RETURNING", "RETURN"))
        first = places[0] if places else len(tokens)
        self._add(PartKind.TEXT, tokens[:first], names)
        for start, end in pairwise([*places, len(tokens)]):
            clause = [each for each in tokens[start:end] if each.key not in _CLAUSE_WORDS]
            for each in split_at_commas(clause):
                self._add(PartKind.EXPRESSION, each, names)

    def _open(self, tokens: list[SqlToken], names: LocalNames) -> None:
        place = next((at for at, token in enumerate(tokens) if token.key == "FOR"), len(tokens))
        if place == len(tokens):
            self._cursor_name(tokens, names)
            return
        self._add(PartKind.EXPRESSION, tokens[:place], names)
        inner = tokens[place + 1 :]
        while (
            key_at(inner, 0) == "("
            and key_at(inner, 1) in ("SELECT", "WITH", "(")
            and closing(inner, 0) == len(inner) - 1
        ):
            inner = inner[1:-1]
        if key_at(inner, 0) in _QUERIES:
            self._query(inner, names)
        else:
            self._execute(inner, names)

    def _fetch(self, tokens: list[SqlToken], names: LocalNames) -> None:
        place = next((at for at, token in enumerate(tokens) if token.key in ("INTO", "BULK")), len(tokens))
        self._cursor_name(tokens[:place], names)
        rest = [token for token in tokens[place:] if token.key not in ("BULK", "COLLECT", "INTO")]
        limit = next((at for at, token in enumerate(rest) if token.key == "LIMIT"), len(rest))
        for each in [*split_at_commas(rest[:limit]), rest[limit + 1 :]]:
            self._add(PartKind.EXPRESSION, each, names)


_ALONE: Final = frozenset({"NULL", "RETURN", "EXIT", "CONTINUE", "RAISE", "COMMIT", "ROLLBACK"})
_CLAUSE_WORDS: Final = frozenset({"INTO", "BULK", "COLLECT", "USING", "RETURNING", "RETURN", "IN", "OUT"})


def _clauses(tokens: Sequence[SqlToken], keys: tuple[str, ...]) -> list[int]:
    depth = 0
    places: list[int] = []
    for at, token in enumerate(tokens):
        depth += (token.key == "(") - (token.key == ")")
        if depth == 0 and token.key in keys:
            places.append(at)
    return places


def _parts_of_declaration(tokens: Sequence[SqlToken]) -> tuple[list[SqlToken], list[SqlToken]]:
    """Return the type and the value of `[CONSTANT] type [NOT NULL] [:= value]`."""
    rest = list(tokens[key_at(tokens, 0) == "CONSTANT" :])
    place = next((at for at, token in enumerate(rest) if token.key in (":=", "DEFAULT")), len(rest))
    type_of = rest[:place]
    if [token.key for token in type_of[-2:]] == ["NOT", "NULL"]:
        type_of = type_of[:-2]
    return type_of, rest[place + 1 :]


def split_into(tokens: Sequence[SqlToken]) -> tuple[list[SqlToken], list[SqlToken]]:
    """Return a query without INTO, and its variables, which are between its columns and FROM."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.key == "(") - (token.key == ")")
        if depth == 0 and token.key == "FROM":
            break
        if depth == 0 and _is_into(tokens, at):
            end = next((place for place in range(at, len(tokens)) if tokens[place].key == "FROM"), len(tokens))
            return [*tokens[:at], *tokens[end:]], _variables_after(tokens[at:end])
    return list(tokens), []


def split_returning(tokens: Sequence[SqlToken]) -> tuple[list[SqlToken], list[SqlToken]]:
    """Return a change with RETURNING, but without INTO and the variables after it, with which it ends; and these."""
    depth, place = 0, -1
    for at, token in enumerate(tokens):
        depth += (token.key == "(") - (token.key == ")")
        if depth == 0 and token.key in ("RETURNING", "RETURN"):
            place = at
        if depth == 0 and place >= 0 and _is_into(tokens, at):
            before = list(tokens[:at])
            before[place] = _RETURNING
            return before, _variables_after(tokens[at:])
    return list(tokens), []


def _is_into(tokens: Sequence[SqlToken], place: int) -> bool:
    key = tokens[place].key
    return key == "INTO" or (key == "BULK" and key_at(tokens, place + 1) == "COLLECT")


def _variables_after(tokens: Sequence[SqlToken]) -> list[SqlToken]:
    """Return the variables of INTO. Raises UnreadableSql if something else is among them."""
    kept = list(tokens[3 if tokens[0].key == "BULK" else 1 :])
    if any(token.key in _NOT_IN_VARIABLES for token in kept):
        raise UnreadableSql("INTO is not understood")
    return kept


_NOT_IN_VARIABLES: Final = frozenset({"SELECT", "WHERE", "SET", "INTO", "DELETE", "INSERT", "UPDATE", "MERGE", "LOG"})
_RETURNING: Final = SqlToken(SqlTokenKind.WORD, "RETURNING", "RETURNING")
