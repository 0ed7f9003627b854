"""Statements of every login: compiled once, and on SQLite run by the driver itself.

SQLAlchemy compiles them and its types convert values and rows, so their results are the same as elsewhere. Only its
machinery around an execution is left out, which costs five times what SQLite takes for such a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Delete, Dialect, Insert, RowMapping, Select, Update
from sqlalchemy import Row as SqlRow

Convert = Callable[[Any], Any] | None
Values = Mapping[str, Any]
Row = Mapping[str, Any] | RowMapping
RawRow = tuple[Any, ...]


class PreparedStatement:
    """One statement, always run with values of the same names. Safe from any thread."""

    def __init__(self, statement: Select[Any] | Insert | Update | Delete) -> None:
        self._statement = statement
        self._compiled: _Compiled | None = None

    def rows(self, connection: Connection, values: Values) -> list[Row]:
        """Return the rows of a SELECT, by the columns' names."""
        return [self.read(raw_row) for raw_row in self.raw_rows(connection, values)]

    def raw_rows(self, connection: Connection, values: Values) -> list[RawRow]:
        """Return the rows of a SELECT for `read`. Equal ones have the same content."""
        if connection.dialect.name != "sqlite":
            return list(connection.execute(self._statement, dict(values)))
        run: list[RawRow] = self._ready(connection.dialect, values).run(connection, values).fetchall()
        return run

    def read(self, raw_row: RawRow) -> Row:
        """Return a row by the columns' names."""
        if isinstance(raw_row, SqlRow):
            return raw_row._mapping
        assert self._compiled is not None
        return self._compiled.row(raw_row)

    def count(self, connection: Connection, values: Values) -> int:
        """Return how many rows were written."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._statement, dict(values)).rowcount
        return int(self._ready(connection.dialect, values).run(connection, values).rowcount)

    def _ready(self, dialect: Dialect, values: Values) -> _Compiled:
        if self._compiled is None:
            self._compiled = _Compiled(self._statement, dialect, values)
        return self._compiled


class _Compiled:
    def __init__(self, statement: Select[Any] | Insert | Update | Delete, dialect: Dialect, values: Values) -> None:
        self._columns: list[tuple[str, Convert]] = []
        if isinstance(statement, Select):
            # Values are given because constants that are written into the text need all of them; they stay parameters.
            statement = statement.params(dict(values))
            compiled: Any = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
            for column in statement.selected_columns:
                convert = column.type.dialect_impl(dialect).result_processor(dialect, None)
                self._columns.append((str(column.key), convert))
        else:
            compiled = statement.compile(dialect=dialect, column_keys=list(values))
        self._text: str = compiled.string
        constants = {name: bind.value for name, bind in compiled.binds.items() if name not in values}
        self._parameters: list[tuple[str, Any, Convert]] = [
            (name, constants.get(name), compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect))
            for name in compiled.positiontup
        ]

    def run(self, connection: Connection, values: Values) -> Any:
        parameters = tuple(
            [
                convert(values.get(name, constant)) if convert is not None else values.get(name, constant)
                for name, constant, convert in self._parameters
            ]
        )
        cursor = connection.connection.cursor()
        for hear in connection.dispatch.before_cursor_execute:  # listeners of SQLAlchemy are called as well
            hear(connection, cursor, self._text, parameters, None, False)
        cursor.execute(self._text, parameters)
        return cursor

    def row(self, raw_row: RawRow) -> Row:
        return {
            name: value if convert is None else convert(value)
            for (name, convert), value in zip(self._columns, raw_row, strict=True)
        }
