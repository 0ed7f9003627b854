"""The data of the test server: a file of SQLite, with Oracle's types beside it."""

from __future__ import annotations

import datetime
import re
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from sqlglot import exp
from tests.support.oracledb import type_codings as types
from tests.support.oracledb.data_dictionary import DICTIONARY, column_row
from tests.support.oracledb.server_replies import NO_ROW, ColumnInfo, RowId
from tests.support.oracledb.sql_functions import Sequences, moment_text, now, number_text, register
from tests.support.oracledb.sql_translation import SqlError, Statement, first_word, translate
from tests.support.oracledb.table_definitions import table_columns
from tests.support.oracledb.type_codings import NUMBER_TYPE, OracleType, Scalar, text_type

SEQUENCE = re.compile(r"\bsequence\s+(\w+)(?:.*?\bstart\s+with\s+(-?\d+))?", re.IGNORECASE | re.DOTALL)
STEP = re.compile(r"\bincrement\s+by\s+(-?\d+)", re.IGNORECASE)
COMMENT = re.compile(
    r"comment\s+on\s+(?:table|column)\s+(\w+)(?:\.(\w+))?\s+is\s+'((?:[^']|'')*)'", re.IGNORECASE | re.DOTALL
)
MESSAGES = (
    (r"UNIQUE constraint failed: (\w+)\.(\w+)", 1, "unique constraint (POSTERN.{0}_{1}) violated"),
    (r"NOT NULL constraint failed: (\w+)\.(\w+)", 1400, 'cannot insert NULL into ("POSTERN"."{0}"."{1}")'),
    (r"CHECK constraint failed: (\w+)", 2290, "check constraint (POSTERN.{0}) violated"),
    (r"FOREIGN KEY constraint failed", 2291, "integrity constraint violated - parent key not found"),
    (r"no such (?:table|view): (\S+)", 942, "table or view does not exist"),
    (r"no such column: (\S+)", 904, '"{0}": invalid identifier'),
    (r"no such function: (\S+)", 904, '"{0}": invalid identifier'),
    (r"already exists", 955, "name is already used by an existing object"),
    (r"interrupted", 1013, "user requested cancel of current operation"),
    (r"locked", 54, "resource busy and acquire with NOWAIT specified or timeout expired"),
)


OWNER = "POSTERN"


class Database:
    """What all sessions share."""

    def __init__(self, folder: Path, clock: Callable[[], datetime.datetime] = now) -> None:
        self.clock = clock
        self.file = folder / "oracle.sqlite"
        self.sequences = Sequences()
        self.tables: dict[str, dict[str, OracleType]] = {}
        self.lock = threading.Lock()
        setup = sqlite3.connect(self.file)
        setup.execute("PRAGMA journal_mode=WAL")
        setup.executescript(DICTIONARY)
        setup.close()


@dataclass
class Result:
    """What a statement returned."""

    columns: list[ColumnInfo] = field(default_factory=list)
    rows: list[tuple[Scalar, ...]] = field(default_factory=list)
    affected: int = 0
    row_id: RowId = NO_ROW


class DatabaseSession:
    """One session, with its transaction."""

    def __init__(self, database: Database, user: str) -> None:
        self._database = database
        self._user = user
        self._failure: SqlError | None = None
        self._sqlite = sqlite3.connect(database.file, isolation_level=None, check_same_thread=False, timeout=10)
        self._sqlite.execute("PRAGMA foreign_keys=ON")
        register(self._sqlite, database.sequences, self._set_failure, database.clock)

    def _set_failure(self, error: SqlError) -> None:
        self._failure = error

    @property
    def in_transaction(self) -> bool:
        return self._sqlite.in_transaction

    def interrupt(self) -> None:
        """Stop the statement that is running. Another thread may call this."""
        self._sqlite.interrupt()

    def close(self) -> None:
        self._sqlite.close()

    def commit(self) -> None:
        if self._sqlite.in_transaction:
            self._sqlite.execute("COMMIT")

    def rollback(self) -> None:
        if self._sqlite.in_transaction:
            self._sqlite.execute("ROLLBACK")

    def prepare(self, sql: str) -> Statement:
        return translate(sql, self._database.tables, self._user)

    def run(self, statement: Statement, values: Sequence[Scalar], kinds: Sequence[OracleType] = ()) -> Result:
        """Run a statement once. Raises SqlError."""
        if statement.kind == "ddl":
            self.commit()
            self._define(statement)
            return Result()
        if statement.kind == "session":
            self._control(statement)
            return Result()
        if statement.kind == "dml" and not self._sqlite.in_transaction:
            self._execute("BEGIN IMMEDIATE", {})
        cursor = self._execute(statement.sql, {f"B{n}": stored(value) for n, value in enumerate(values, 1)})
        rows = cursor.fetchall() if cursor.description else []
        if statement.kind == "query":
            columns = self._columns(statement, cursor.description or (), rows, kinds)
            return Result(columns, [converted_row(row, columns) for row in rows])
        row = cursor.lastrowid or 0
        inserted = first_word(statement.sql) == "INSERT" and cursor.rowcount == 1
        row_id = (1, 1, row >> 12, row & 0xFFF) if inserted else NO_ROW
        affected = len(rows) if statement.returned else max(cursor.rowcount, 0)
        return Result([], rows, affected, row_id)

    def _execute(self, sql: str, values: dict[str, Any] | tuple[Any, ...]) -> sqlite3.Cursor:
        self._failure = None
        try:
            return self._sqlite.execute(sql, values)
        except (sqlite3.Error, OverflowError) as error:
            raise self._failure or oracle_error(error, first_word(sql)) from error

    def _control(self, statement: Statement) -> None:
        match first_word(statement.sql):
            case "COMMIT":
                self.commit()
            case "ROLLBACK":
                self.rollback()
            case "COMMENT":
                self._comment(statement.sql)

    def _comment(self, text: str) -> None:
        match = COMMENT.search(text)
        if match is None:
            raise SqlError(900, "invalid SQL statement")
        table, column, comment = match.groups()
        row = {"table": table.upper(), "column": (column or "").upper(), "comment": comment.replace("''", "'")}
        self._execute("INSERT INTO DICTIONARY_COMMENTS VALUES (:table, :column, :comment)", row)

    def _define(self, statement: Statement) -> None:
        """Run a data definition statement."""
        text, tree = statement.sql, statement.tree
        sequence = SEQUENCE.search(text)
        kind = str(tree.args.get("kind", "")).upper() if tree is not None else ""
        if sequence is not None and kind == "SEQUENCE":
            name = sequence.group(1).upper()
            if isinstance(tree, exp.Drop):
                self._database.sequences.drop(name)
            else:
                step = STEP.search(text)
                self._database.sequences.create(name, int(sequence.group(2) or 1), int(step.group(1)) if step else 1)
            return
        if isinstance(tree, exp.TruncateTable):
            self._execute(f"DELETE FROM {tree.expressions[0].name}", {})
        elif isinstance(tree, exp.Create) and kind == "TABLE":
            self._create_table(tree, text)
        elif isinstance(tree, exp.Drop) and kind in ("TABLE", "VIEW", "INDEX"):
            name = tree.find(exp.Table).name.upper()  # type: ignore[union-attr]
            self._execute(f'DROP {kind} "{name}"', {})
            for dictionary in ("ALL_TAB_COLUMNS", "DICTIONARY_COMMENTS", "ALL_VIEWS"):
                column = "VIEW_NAME" if dictionary == "ALL_VIEWS" else "TABLE_NAME"
                self._execute(f"DELETE FROM {dictionary} WHERE {column} = :name", {"name": name})
            with self._database.lock:
                self._database.tables.pop(name, None)
        elif isinstance(tree, exp.Create) and kind == "VIEW":
            self._create_view(tree)
        elif isinstance(tree, exp.Create) and kind == "INDEX":
            self._execute(tree.sql("sqlite").replace("OR REPLACE ", ""), {})
        else:
            raise SqlError(900, "invalid SQL statement")

    def _create_table(self, tree: exp.Create, text: str) -> None:
        tree = tree.copy()
        table = tree.find(exp.Table)
        assert table is not None
        name = table.name.upper()
        if tree.expression is not None:
            query = self.prepare(tree.expression.sql("oracle"))
            columns = {column.name: column.type or text_type(4000) for column in query.columns}
            self._execute(f'CREATE TABLE "{name}" AS {query.sql}', {})
        else:
            columns = table_columns(tree, text)
            table.replace(exp.to_table(name, quoted=True))
            tree.set("properties", None)
            body = tree.this.transform(default_value)
            self._execute(f"CREATE TABLE {body.sql('sqlite')}", {})
        self._describe(name, columns)

    def _create_view(self, tree: exp.Create) -> None:
        name = tree.find(exp.Table).name.upper()  # type: ignore[union-attr]
        text = tree.expression.sql("oracle")
        query = self.prepare(text)
        self._execute(f'DROP VIEW IF EXISTS "{name}"', {})
        self._execute(f'CREATE VIEW "{name}" AS {query.sql}', {})
        row = {"name": name, "text": text, "size": len(text)}
        self._execute(f"INSERT INTO ALL_VIEWS VALUES ('{OWNER}', :name, :text, :size)", row)
        self._describe(name, {column.name: column.type or text_type(4000) for column in query.columns})

    def _describe(self, name: str, columns: dict[str, OracleType]) -> None:
        """Enter the columns of a table or view into the data dictionary."""
        self._execute("DELETE FROM ALL_TAB_COLUMNS WHERE TABLE_NAME = :name", {"name": name})
        for number, (column, kind) in enumerate(columns.items(), 1):
            row = column_row(OWNER, name, column, number, kind)
            self._execute(f"INSERT INTO ALL_TAB_COLUMNS VALUES ({', '.join(['?'] * len(row))})", row)
        with self._database.lock:
            self._database.tables[name] = columns

    def _columns(
        self,
        statement: Statement,
        description: Sequence[Sequence[Any]],
        rows: Sequence[Sequence[Any]],
        kinds: Sequence[OracleType],
    ) -> list[ColumnInfo]:
        columns = []
        tree = statement.tree
        selects = tree.selects if isinstance(tree, (exp.Select, exp.SetOperation)) else []
        for position, described in enumerate(description):
            known = statement.columns[position] if position < len(statement.columns) else None
            kind = known.type if known is not None else None
            if kind is None and position < len(selects):
                kind = bind_type(selects[position], kinds)
            if kind is None:
                kind = type_of_values([row[position] for row in rows])
            columns.append(ColumnInfo(known.name if known is not None else str(described[0]).upper(), kind))
        return columns


def default_value(node: exp.Expr) -> exp.Expr:
    """Rewrite defaults that SQLite lacks."""
    return exp.var("CURRENT_TIMESTAMP") if isinstance(node, exp.CurrentTimestamp) else node


def bind_type(projection: exp.Expr, kinds: Sequence[OracleType]) -> OracleType | None:
    inner = projection.unalias()
    if not isinstance(inner, exp.Placeholder) or not inner.name[1:].isdigit():
        return None
    position = int(inner.name[1:]) - 1
    if position >= len(kinds) or kinds[position].number in (types.VARCHAR2, types.LONG):
        return None
    kind = kinds[position]
    return NUMBER_TYPE if kind.number in types.NUMBERS else kind


def type_of_values(values: Sequence[Any]) -> OracleType:
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, (int, float)) for value in present):
        return NUMBER_TYPE
    if present and all(isinstance(value, bytes) for value in present):
        return OracleType(types.RAW, max(map(len, present)))
    return text_type(max([len(number_text(value)) for value in present] or [1]))


def stored(value: Scalar) -> int | float | str | bytes | None:
    """Return a value as SQLite keeps it."""
    match value:
        case "" | b"":
            return None
        case datetime.datetime():
            return moment_text(value)
        case Decimal():
            value = int(value) if value == value.to_integral_value() else value
            return stored(value) if isinstance(value, int) else format(value, "f")
        case int():
            return value if abs(value) < 1 << 63 else str(value)
    return value


def converted_row(row: Sequence[Any], columns: Sequence[ColumnInfo]) -> tuple[Scalar, ...]:
    return tuple(converted(value, column.type) for value, column in zip(row, columns, strict=True))


def converted(value: Any, kind: OracleType) -> Scalar:
    """Return a value of SQLite in a column's type. Raises SqlError."""
    if value is None or value == "":
        return None
    try:
        if kind.number in types.NUMBERS:
            if isinstance(value, float):
                return Decimal(f"{value:.15g}")
            return value if isinstance(value, int) else Decimal(value)
        if kind.number in types.MOMENTS:
            return datetime.datetime.fromisoformat(value)
        if kind.number in (types.BINARY_DOUBLE, types.BINARY_FLOAT):
            return float(value)
    except (InvalidOperation, TypeError, ValueError) as error:
        raise SqlError(1722, f"invalid number: {value!r} is not a value of type {kind.number}") from error
    if kind.number in (types.RAW, types.BLOB, types.LONG_RAW):
        return value if isinstance(value, bytes) else str(value).encode()
    text = number_text(value)
    return text.ljust(kind.size // (2 if kind.form == types.NATIONAL else 4)) if kind.number == types.CHAR else text


def oracle_error(error: Exception, word: str) -> SqlError:
    """Return Oracle's error for one of SQLite."""
    for pattern, code, text in MESSAGES:
        match = re.search(pattern, str(error))
        if match is not None:
            code = 1407 if code == 1400 and word == "UPDATE" else code
            return SqlError(code, text.format(*match.groups()).replace("insert", word.lower() or "insert"))
    return SqlError(900, f"invalid SQL statement ({error})")
