"""Server cursors: sp_cursoropen, sp_cursorfetch and the others. All are static, with the rows of their opening."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.support.mssql.engine_events import ProcedureReturned, SqlEvent, SqlResult, SqlRow, StatementRan
from tests.support.mssql.engine_runner import BatchRunner, declared_parameters, variables_of
from tests.support.mssql.engine_session import EngineSession, SqlVariable
from tests.support.mssql.sqlserver_errors import SqlError, not_supported
from tests.support.mssql.sqlserver_requests import ProcedureCall
from tests.support.mssql.sqlserver_types import INT, SqlColumn, SqlType
from tests.support.mssql.sqlserver_values import SqlValue, as_text

FIRST, NEXT, PREVIOUS, LAST, ABSOLUTE, RELATIVE, REFRESH, INFO = 1, 2, 4, 8, 16, 32, 128, 256
_PARAMETERIZED: Final = 0x1000
_AUTO_FETCH: Final = 0x2000
_STATIC: Final = 8
_READ_ONLY: Final = 1
_HANDLES_FROM: Final = 180_150_003


@dataclass
class ServerCursor:
    """Rows, and where it stands: before the first at 0."""

    columns: list[SqlColumn]
    rows: list[list[SqlValue]]
    place: int = 0


@dataclass
class ServerCursors:
    session: EngineSession
    open_: dict[int, ServerCursor] = field(default_factory=dict)
    prepared: dict[int, tuple[str, list[tuple[str, SqlType]]]] = field(default_factory=dict)
    _handles: Iterator[int] = field(default_factory=lambda: itertools.count(_HANDLES_FROM, 2))

    def open(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        """(cursor OUT, statement, scroll options, concurrency, rows, declaration, values …)"""
        declared: list[tuple[str, SqlType]] = []
        values = variables[6:]
        if len(variables) > 5 and _number(variables[2]) & _PARAMETERIZED:
            declared = declared_parameters(as_text(variables[5].value))
        yield from self._open(as_text(variables[1].value), declared, values, variables[0], variables[2:5])

    def prepare(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        """(handle OUT, declaration, statement, options, scroll options, concurrency)"""
        variables[0].value = self._store(variables[1], variables[2])
        yield ProcedureReturned(0)

    def _store(self, declaration: SqlVariable, statement: SqlVariable) -> int:
        handle = next(self._handles)
        self.prepared[handle] = as_text(statement.value), declared_parameters(as_text(declaration.value))
        return handle

    def execute(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        """(handle, cursor OUT, scroll options, concurrency, rows, values …)"""
        text, declared = self._prepared(variables[0])
        yield from self._open(text, declared, variables[5:], variables[1], variables[2:5])

    def prepare_and_execute(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        """(handle OUT, cursor OUT, declaration, statement, scroll options, concurrency, rows, values …)"""
        handle = self._store(variables[2], variables[3])
        variables[0].value = handle
        text, declared = self.prepared[handle]
        yield from self._open(text, declared, variables[7:], variables[1], variables[4:7])

    def _prepared(self, variable: SqlVariable) -> tuple[str, list[tuple[str, SqlType]]]:
        found = self.prepared.get(_number(variable))
        if found is None:
            raise SqlError(8179, f"Could not find prepared statement with handle {variable.value!r}.", state=4)
        return found

    def unprepare(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        self._prepared(variables[0])
        del self.prepared[_number(variables[0])]
        yield ProcedureReturned(0)

    def _open(
        self,
        text: str,
        declared: list[tuple[str, SqlType]],
        values: list[SqlVariable],
        handle: SqlVariable,
        options: list[SqlVariable],
    ) -> Iterator[SqlEvent]:
        cursor: ServerCursor | None = None
        given = variables_of(declared, [value.value for value in values])
        for event in BatchRunner(self.session).run(text, given):
            if isinstance(event, SqlResult) and cursor is None:
                cursor = ServerCursor(list(event.columns), [])
            elif isinstance(event, SqlRow) and cursor is not None:
                cursor.rows.append(list(event.values))
            elif not isinstance(event, StatementRan) or event.failed:
                yield event
        for variable, (name, _) in zip(values, declared, strict=False):
            variable.value = given[name].value
        if cursor is None:  # a procedure, for example
            return
        number = next(self._handles)
        self.open_[number] = cursor
        asked = _number(options[0]) if options else 0
        wanted = _number(options[2]) if len(options) > 2 else 0
        yield SqlResult(_with_status(cursor.columns))
        if asked & _AUTO_FETCH:
            for row in cursor.rows[: wanted or 20]:
                yield SqlRow([*row, 1])
            cursor.place = wanted or 20
        yield StatementRan(0)
        handle.value = number
        for variable, value in zip(options, (_STATIC, _READ_ONLY, len(cursor.rows)), strict=False):
            variable.value = value
        yield ProcedureReturned(0)

    def _cursor(self, variable: SqlVariable) -> ServerCursor:
        cursor = self.open_.get(_number(variable))
        if cursor is None:
            raise SqlError(16909, f"sp_cursor: The cursor identifier value provided ({variable.value!r}) is not valid.")
        return cursor

    def fetch(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        """(cursor, kind, row, number of rows)"""
        cursor = self._cursor(variables[0])
        kind = _number(variables[1]) if len(variables) > 1 else NEXT
        row = _number(variables[2]) if len(variables) > 2 else 0
        count = _number(variables[3]) if len(variables) > 3 else 1
        if kind == INFO:
            for variable, value in zip(variables[2:4], (cursor.place, len(cursor.rows)), strict=False):
                variable.value = value
            yield ProcedureReturned(0)
            return
        start = {
            FIRST: 0,
            NEXT: cursor.place,
            PREVIOUS: cursor.place - 1 - count,
            LAST: len(cursor.rows) - count,
            ABSOLUTE: row - 1 if row >= 0 else len(cursor.rows) + row,
            RELATIVE: cursor.place - 1 + row,
        }.get(kind, cursor.place)
        found = cursor.rows[max(start, 0) : max(start + count, 0)]
        cursor.place = min(max(start + count, 0), len(cursor.rows) + 1)
        yield SqlResult(_with_status(cursor.columns))
        for values in found:
            yield SqlRow([*values, 1])
        yield StatementRan(len(found))
        yield ProcedureReturned(0)

    def option(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        self._cursor(variables[0])
        yield ProcedureReturned(0)

    def close(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        self._cursor(variables[0])
        del self.open_[_number(variables[0])]
        yield ProcedureReturned(0)

    def change(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        raise not_supported("changes through a cursor")
        yield


def _with_status(columns: list[SqlColumn]) -> list[SqlColumn]:
    """Return the columns with the one that every cursor adds: whether the row is still there."""
    return [*columns, SqlColumn("ROWSTAT", INT, nullable=False, hidden=True)]


def _number(variable: SqlVariable) -> int:
    return variable.value if isinstance(variable.value, int) else 0
