"""One client's session with the engine: its databases, variables, transaction and temporary tables."""

from __future__ import annotations

import itertools
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from sqlglot import exp
from tests.support.mssql import sqlserver_types as t
from tests.support.mssql.engine_catalogue import TYPE_IDS, VIEWS, SqlCatalogue, object_number
from tests.support.mssql.engine_columns import UNKNOWN, ColumnTypes, type_of_values
from tests.support.mssql.engine_conversions import convert
from tests.support.mssql.engine_events import SqlEvent, SqlResult, SqlRow, StatementRan
from tests.support.mssql.engine_functions import VERSION, functions_of
from tests.support.mssql.engine_translation import Translation, parse
from tests.support.mssql.sqlserver_errors import SqlError, invalid_object
from tests.support.mssql.sqlserver_types import SqlColumn, SqlType
from tests.support.mssql.sqlserver_values import SqlValue, as_text

PEEKED: Final = 200  # rows by which the type of a column is chosen where nothing else tells it
DATABASE_SCRIPT: Final = """
PRAGMA "{name}".journal_mode = WAL;
PRAGMA "{name}".synchronous = OFF;
CREATE TABLE IF NOT EXISTS "{name}"."procedures/" (name TEXT PRIMARY KEY COLLATE NOCASE, body TEXT);
CREATE TABLE IF NOT EXISTS "{name}"."procedures/texts"
  (kind TEXT, name TEXT COLLATE NOCASE, text TEXT, UNIQUE (kind, name));
CREATE TABLE IF NOT EXISTS "{name}"."procedures/properties" (class, class_desc, major, minor, name, value);
"""


class Interrupted(Exception):
    """The client has sent an attention."""


@dataclass
class SqlVariable:
    type: SqlType
    value: SqlValue = None


@dataclass
class SqlScope:
    """Variables of a batch or a procedure."""

    variables: dict[str, SqlVariable] = field(default_factory=dict)
    table_variables: list[str] = field(default_factory=list)


class EngineSession:
    """A session over SQLite. `interrupted` is asked while a statement runs."""

    def __init__(self, folder: Path, user: str, database: str, interrupted: Callable[[], bool]) -> None:
        self.folder = folder
        self.user = user
        self.database = database
        self.interrupted = interrupted
        self.options: dict[str, bool] = {}
        self.scope = SqlScope()
        self.globals: dict[str, SqlValue] = {"rowcount": 0, "error": 0, "identity": None, "trancount": 0, "spid": 51}
        self.caught: SqlError | None = None
        self.savepoints: set[str] = set()
        self._raised: SqlError | None = None
        self._key: tuple[SqlValue, ...] = ()
        self.connect()

    # -- Connection --------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Open SQLite anew, without temporary tables."""
        self.connection = sqlite3.connect(":memory:", isolation_level=None, timeout=10, check_same_thread=False)
        self.catalogue = SqlCatalogue(self.connection, self.procedures)
        self.connection.set_progress_handler(self._on_progress, 20_000)
        for name, function in functions_of(self).items():
            self.connection.create_function("f_" + name, -1, self._guarded(function))
        self.connection.create_function("f_check_size", 4, self._guarded(self._check_size))
        self.connection.create_function("f_remember_key", -1, self._remember_key)
        for path in sorted(self.folder.glob("*.db")):
            self.attach(path.stem)
        if self.database not in self.catalogue.databases():
            raise SqlError(
                4060, f'Cannot open database "{self.database}" requested by the login. The login failed.', 11
            )

    def attach(self, name: str) -> None:
        self.connection.execute(f'ATTACH ? AS "{name}"', (str(self.folder / f"{name}.db"),))
        self.connection.executescript(DATABASE_SCRIPT.format(name=name))

    def close(self) -> None:
        self.connection.close()

    def reset(self, database: str) -> None:
        """Do what sp_reset_connection does."""
        self.connection.close()
        self.database, self.options = database, {}
        self.globals.update(trancount=0, identity=None)
        self.connect()

    def _on_progress(self) -> int:
        return int(self.interrupted())

    def _guarded(self, function: Callable[..., SqlValue]) -> Callable[..., SqlValue]:
        """Keep the error of a function, since SQLite tells none."""

        def call(*values: SqlValue) -> SqlValue:
            try:
                return function(*values)
            except SqlError as error:
                self._raised = error
                raise
            except Exception as error:
                self._raised = SqlError(8116, f"Argument data type is invalid: {error!r}")
                raise

        return call

    def _check_size(self, table: str, column: str, value: SqlValue, size: int) -> SqlValue:
        if isinstance(value, str | bytes) and len(value) > size:
            where = f"'{self.database}.dbo.{table}', column '{column}'"
            shown = as_text(value)[:size]
            raise SqlError(
                2628, f"String or binary data would be truncated in table {where}. Truncated value: '{shown}'."
            )
        return None

    def _remember_key(self, *values: SqlValue) -> None:
        self._key = values

    # -- What functions read -----------------------------------------------------------------------------------------

    def global_value(self, name: str) -> SqlValue:
        fixed: dict[str, SqlValue] = {
            "version": VERSION,
            "servername": "TESTSERVER",
            "language": "us_english",
            "options": 5432,
        }
        fixed.update(max_precision=38, microsoftversion=0x100003E8, datefirst=7, fetch_status=-1)
        return self.globals[name] if name in self.globals else fixed.get(name)

    def object_id(self, name: str, kind: str = "") -> SqlValue:
        table = exp.to_table(name, dialect="tsql")
        if any(found.lower() == table.name.lower() for found, _ in self.procedures()):
            return object_number(f"{self.database}.{table.name}")
        try:
            database, stored = self.resolve(table)
        except SqlError:
            return None
        return object_number(f"{database}.{stored}")

    def object_name(self, number: SqlValue, *_: SqlValue) -> SqlValue:
        for database in (self.database, "temp"):
            for found in self.catalogue.objects(database):
                if found.id == number:
                    return found.name
        known = ((name, object_number(f"{self.database}.{name}")) for name, _ in self.procedures())
        return next((name for name, found_number in known if found_number == number), None)

    def type_name(self, number: SqlValue) -> SqlValue:
        return next((name for name, known in TYPE_IDS.items() if known == number), None)

    def database_name(self) -> str:
        return self.database

    def user_name(self) -> str:
        return self.user

    def error_value(self, name: str) -> SqlValue:
        names = {"message": "text"}
        return getattr(self.caught, names.get(name, name)) if self.caught is not None else None

    def procedures(self) -> list[tuple[str, str]]:
        return self.connection.execute(f'SELECT name, body FROM "{self.database}"."procedures/"').fetchall()

    def store_text(self, kind: str, name: str, text: str) -> None:
        """Keep a text as it was written: of a view, a synonym's object, or a computed column."""
        statement = f'INSERT OR REPLACE INTO "{self.database}"."procedures/texts" VALUES (?, ?, ?)'
        self.run_sqlite(statement, (kind, name, text))

    # -- Names -------------------------------------------------------------------------------------------------------

    def resolve(self, table: exp.Table) -> tuple[str, str]:
        """Return the database and the stored name of a table. Raises SqlError if there is none."""
        database, name = self.place_of(table)
        if database != "temp" and (schema := table.db.lower()) in ("sys", "information_schema"):
            view = f"{schema}.{table.name.lower()}"
            if not self.catalogue.fill(view, database):
                raise invalid_object(f"{table.db}.{table.name}")
            return "temp", view
        stored = self._stored(database, name)
        if stored is None and database != "temp" and f"sys.{name.lower()}" in VIEWS and name.lower().startswith("sys"):
            self.catalogue.fill(f"sys.{name.lower()}", database)
            return "temp", f"sys.{name.lower()}"
        if stored is None:
            raise invalid_object(".".join(part for part in (table.catalog, table.db, _shown(table)) if part))
        return database, stored

    def place_of(self, table: exp.Table) -> tuple[str, str]:
        """Return where a table would be, whether it is there or not."""
        if isinstance(table.this, exp.Parameter):
            return "temp", "@" + table.name
        if isinstance(table.this, exp.Identifier) and (table.this.args.get("temporary") or table.name.startswith("#")):
            return "temp", "#" + table.name.lstrip("#")
        database = table.catalog or self.database
        known = {name.lower(): name for name in self.catalogue.databases()}
        if database.lower() not in known:
            raise invalid_object(f"{table.catalog}.{table.db}.{table.name}")
        schema = table.db
        return known[database.lower()], table.name if schema.lower() in ("", "dbo") else f"{schema}.{table.name}"

    def _stored(self, database: str, name: str) -> str | None:
        master = "temp.sqlite_master" if database == "temp" else f'"{database}".sqlite_master'
        row = self.connection.execute(
            f"SELECT name FROM {master} WHERE lower(name) = lower(?) AND type IN ('table', 'view')", (name,)
        ).fetchone()
        return row[0] if row else None

    def describe(self, table: exp.Table) -> Sequence[SqlColumn] | None:
        if isinstance(table.this, exp.Anonymous | exp.Func):
            return None
        database, stored = self.resolve(table)
        columns = self.catalogue.columns(database, stored)
        return [replace(column, base=f"dbo.{table.name}") for column in columns]

    def columns_of(self, query: exp.Expr) -> list[SqlColumn]:
        types = {name: variable.type for name, variable in self.scope.variables.items()}
        return ColumnTypes(self.describe, types).of_query(query)

    # -- Statements --------------------------------------------------------------------------------------------------

    def execute(self, tree: exp.Expr, extra: Sequence[exp.Expr] = ()) -> sqlite3.Cursor:
        """Run one statement. Raises SqlError."""
        types = {name: variable.type for name, variable in self.scope.variables.items()}
        translation = Translation(self.resolve, types)
        statement = translation.sqlite(tree)
        values = {}
        for name in translation.variables:
            if name not in self.scope.variables:
                raise SqlError(137, f'Must declare the scalar variable "@{name}".', 15, 2)
            values["v_" + name] = self.scope.variables[name].value
        return self.run_sqlite(statement, values)

    def run_sqlite(self, statement: str, values: dict[str, SqlValue] | Sequence[SqlValue] = ()) -> sqlite3.Cursor:
        self._raised = None
        try:
            return self.connection.execute(statement, values)
        except sqlite3.Error as error:
            raise self.sql_error(error) from None

    def sql_error(self, error: sqlite3.Error) -> Exception:
        """Return SQLite's error as one of SQL Server."""
        if self._raised is not None:
            return self._raised
        text = str(error)
        if text == "interrupted":
            return Interrupted()
        if matched := re.match(r"(UNIQUE|NOT NULL|CHECK|FOREIGN KEY) constraint failed:? ?(.*)", text):
            return self._constraint_error(*matched.groups())
        for pattern, number, words in _SQLITE_ERRORS:
            if matched := re.search(pattern, text):
                return SqlError(number, words.format(*matched.groups()), 15 if number == 102 else 16)
        return SqlError(50_002, f"SQLite: {text}")

    def _constraint_error(self, kind: str, place: str) -> SqlError:
        table, _, column = place.split(",")[0].rpartition(".")
        where = f"'dbo.{table}'"
        if kind == "UNIQUE":
            key = ", ".join("<NULL>" if value is None else as_text(value) for value in self._key)
            rule = f"Violation of PRIMARY KEY constraint 'PK_{table}'. Cannot insert duplicate key in object {where}."
            return SqlError(2627, f"{rule} The duplicate key value is ({key}).", 14)
        if kind == "NOT NULL":
            there = f"column '{column}', table '{self.database}.dbo.{table}'"
            return SqlError(
                515, f"Cannot insert the value NULL into {there}; column does not allow nulls. INSERT fails."
            )
        return SqlError(547, f'The statement conflicted with the {kind} constraint "{place}".')

    def value_of(self, text: str) -> tuple[SqlType, SqlValue]:
        """Return the type and value of an expression."""
        tree = parse(f"SELECT {text}")
        columns = self.columns_of(tree)
        row = self.fetch_one(self.execute(tree))
        value = row[0] if row else None
        kind = columns[0].type if columns else UNKNOWN
        return (kind if kind != UNKNOWN else type_of_values([value])), value

    def fetch_one(self, cursor: sqlite3.Cursor) -> tuple[SqlValue, ...] | None:
        try:
            row: tuple[SqlValue, ...] | None = cursor.fetchone()
        except sqlite3.Error as error:
            raise self.sql_error(error) from None
        return row

    def is_true(self, condition: str) -> bool:
        row = self.fetch_one(self.execute(parse(f"SELECT CASE WHEN {condition} THEN 1 ELSE 0 END")))
        return bool(row and row[0])

    def rows(self, cursor: sqlite3.Cursor) -> Iterator[tuple[SqlValue, ...]]:
        try:
            yield from cursor
        except sqlite3.Error as error:
            raise self.sql_error(error) from None

    def described(
        self, cursor: sqlite3.Cursor, columns: Sequence[SqlColumn]
    ) -> tuple[list[SqlColumn], Iterator[tuple[SqlValue, ...]]]:
        """Return the columns of a result, and its rows. Unknown types are those of the first rows."""
        names = [item[0] for item in cursor.description]
        rows = self.rows(cursor)
        found = list(columns) if len(columns) == len(names) else [SqlColumn(name, UNKNOWN) for name in names]
        if any(column.type == UNKNOWN for column in found):
            first = list(itertools.islice(rows, PEEKED))
            rows = itertools.chain(first, rows)
            for place, column in enumerate(found):
                if column.type == UNKNOWN:
                    found[place] = replace(column, type=type_of_values([row[place] for row in first]))
        return found, rows

    def result(self, cursor: sqlite3.Cursor, columns: Sequence[SqlColumn]) -> Iterator[SqlEvent]:
        """Return the events of a query."""
        found, rows = self.described(cursor, columns)
        yield SqlResult(found)
        if self.options.get("FMTONLY"):
            yield StatementRan(0)
            return
        kinds = [column.type for column in found]
        count = 0
        for row in rows:
            yield SqlRow([_fitting(value, kind) for value, kind in zip(row, kinds, strict=True)])
            count += 1
        self.globals["rowcount"] = count
        yield StatementRan(count)

    def assign(self, name: str, value: SqlValue) -> None:
        variable = self.scope.variables.get(name.lower())
        if variable is None:
            raise SqlError(137, f'Must declare the scalar variable "@{name}".', 15, 2)
        variable.value = convert(value, variable.type)

    def wait(self, seconds: float) -> None:
        """Wait as WAITFOR DELAY does."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.interrupted():
                raise Interrupted
            time.sleep(min(left, 0.02))


def _shown(table: exp.Table) -> str:
    temporary = isinstance(table.this, exp.Identifier) and table.this.args.get("temporary")
    return f"#{table.name}" if temporary else table.name


def _fitting(value: SqlValue, kind: SqlType) -> SqlValue:
    """Return a value that its type can have: a text function of an nvarchar(20) may return more."""
    if isinstance(value, str) and kind.name in t.SIZED and kind.is_text and 0 < kind.size < len(value):
        return value[: kind.size]
    return value


_SQLITE_ERRORS: Final = (
    (r"no such table: (?:\w+\.)?(.+)", 208, "Invalid object name '{}'."),
    (r"no such column: (.+)", 207, "Invalid column name '{}'."),
    (r"has no column named (.+)", 207, "Invalid column name '{}'."),
    (r"no such function: (?:f_)?(.+)", 195, "'{}' is not a recognized built-in function name."),
    (r"table (.+) already exists", 2714, "There is already an object named '{}' in the database."),
    (r"near (.+): syntax error", 102, "Incorrect syntax near {}."),
    (r"database is locked|database table is locked", 1222, "Lock request time out period exceeded."),
    (r"datatype mismatch", 245, "Conversion failed when converting a value to data type int."),
    (
        r"(\d+) values for (\d+) columns",
        213,
        "Column name or number of supplied values does not match table definition.",
    ),
    (r"ambiguous column name: (.+)", 209, "Ambiguous column name '{}'."),
)
