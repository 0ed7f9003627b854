"""Procedures that clients call by RPC: sp_executesql, prepared statements, cursors, and those of users."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.support.mssql import sqlserver_tokens as tokens
from tests.support.mssql.engine_events import ProcedureReturned, SqlEvent, SqlResult
from tests.support.mssql.engine_procedures import Arguments, execute_sql
from tests.support.mssql.engine_runner import BatchRunner, declared_parameters, variables_of
from tests.support.mssql.engine_session import EngineSession, SqlVariable
from tests.support.mssql.engine_translation import parse
from tests.support.mssql.sqlserver_answers import AnswerWriter
from tests.support.mssql.sqlserver_cursors import ServerCursors
from tests.support.mssql.sqlserver_errors import SqlError
from tests.support.mssql.sqlserver_requests import ProcedureCall, RpcParameter, TableValue
from tests.support.mssql.sqlserver_types import SqlType
from tests.support.mssql.sqlserver_values import SqlValue, as_text


@dataclass
class PreparedStatement:
    text: str
    declared: list[tuple[str, SqlType]]


@dataclass
class RpcCalls:
    """The procedures of one session. Handles end with it, or when it is reset."""

    session: EngineSession
    prepared: dict[int, PreparedStatement] = field(default_factory=dict)
    cursors: ServerCursors = field(init=False)
    _handles: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.cursors = ServerCursors(self.session)

    def reset(self) -> None:
        self.prepared.clear()
        self.cursors = ServerCursors(self.session)

    def run(self, call: ProcedureCall, writer: AnswerWriter) -> None:
        """Run one call. Write its results, status, outputs and DONEPROC."""
        name = call.name.lower().split(".")[-1].strip("[]")
        variables = [self._variable(parameter) for parameter in call.parameters]
        writer.done_token, writer.no_metadata = tokens.DONEINPROC, call.no_metadata
        writer.status, writer.failed = None, False
        work = self._procedures().get(name)
        try:
            if work is not None:
                writer.write_all(work(call, variables))
            else:
                writer.write_all(BatchRunner(self.session).call(call.name, self._arguments(call, variables)))
        except SqlError as error:
            writer.message(error)
        if not writer.failed or writer.status is not None:
            writer.token(tokens.return_status(writer.status or 0))
            self._write_outputs(call, variables, writer)
        writer.done(tokens.DONEPROC, tokens.ERROR if writer.failed else 0, None)

    def _write_outputs(self, call: ProcedureCall, variables: list[SqlVariable], writer: AnswerWriter) -> None:
        for place, (parameter, variable) in enumerate(zip(call.parameters, variables, strict=True)):
            if parameter.output:
                data = tokens.return_value(place, parameter.name, parameter.type, variable.value, writer.version)
                writer.token(data)

    def _variable(self, parameter: RpcParameter) -> SqlVariable:
        value = parameter.value
        if isinstance(value, TableValue):
            return SqlVariable(parameter.type, None)
        return SqlVariable(parameter.type, value)

    def _arguments(self, call: ProcedureCall, variables: list[SqlVariable]) -> Arguments:
        arguments = Arguments()
        for parameter, variable in zip(call.parameters, variables, strict=True):
            if not parameter.default:
                arguments.add(parameter.name.lstrip("@"), variable, parameter.output)
        return arguments

    def _procedures(self) -> dict[str, Callable[[ProcedureCall, list[SqlVariable]], Iterator[SqlEvent]]]:
        cursors = self.cursors
        return {
            "sp_executesql": self._execute_sql,
            "sp_prepare": self._prepare,
            "sp_execute": self._execute,
            "sp_prepexec": self._prepare_and_execute,
            "sp_unprepare": self._unprepare,
            "sp_cursoropen": cursors.open,
            "sp_cursorprepare": cursors.prepare,
            "sp_cursorexecute": cursors.execute,
            "sp_cursorprepexec": cursors.prepare_and_execute,
            "sp_cursorunprepare": cursors.unprepare,
            "sp_cursorfetch": cursors.fetch,
            "sp_cursoroption": cursors.option,
            "sp_cursorclose": cursors.close,
            "sp_cursor": cursors.change,
        }

    def _execute_sql(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        tables = self._table_parameters(call)
        if tables is not None:
            yield from tables
            return
        # The first two parameters have names that clients choose freely.
        arguments = Arguments()
        for place, (parameter, variable) in enumerate(zip(call.parameters, variables, strict=True)):
            arguments.add("" if place < 2 else parameter.name.lstrip("@"), variable, parameter.output)
        yield from execute_sql(BatchRunner(self.session), arguments)

    def _table_parameters(self, call: ProcedureCall) -> Iterator[SqlEvent] | None:
        """Run a statement with table-valued parameters: they are temporary tables while it runs."""
        tables = [item for item in call.parameters if isinstance(item.value, TableValue)]
        if not tables:
            return None
        connection = self.session.connection
        for item in tables:
            value = item.value
            assert isinstance(value, TableValue)
            columns = ", ".join(f'"column{place}" "{kind}"' for place, kind in enumerate(value.columns, 1))
            connection.execute(f'DROP TABLE IF EXISTS temp."{item.name}"')
            connection.execute(f'CREATE TABLE temp."{item.name}" ({columns})')
            places = ", ".join("?" for _ in value.columns)
            connection.executemany(f'INSERT INTO temp."{item.name}" VALUES ({places})', value.rows)
        return BatchRunner(self.session).run(as_text(_plain(call.parameters[0].value)))

    def _prepare(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        handle = self._store(variables)
        variables[0].value = handle
        yield from self._description(self.prepared[handle])
        yield ProcedureReturned(0)

    def _description(self, statement: PreparedStatement) -> Iterator[SqlEvent]:
        """Tell the columns of what was prepared, where it is one query."""
        session, before = self.session, self.session.scope.variables
        session.scope.variables = {name: SqlVariable(kind) for name, kind in statement.declared}
        try:
            columns = session.columns_of(parse(statement.text))
        except SqlError:
            return
        finally:
            session.scope.variables = before
        if columns and all(column.type.name for column in columns):
            yield SqlResult(columns)

    def _store(self, variables: list[SqlVariable]) -> int:
        handle = next(self._handles)
        declared = declared_parameters(as_text(variables[1].value))
        self.prepared[handle] = PreparedStatement(as_text(variables[2].value), declared)
        return handle

    def _execute(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        handle = variables[0].value
        statement = self.prepared.get(handle) if isinstance(handle, int) else None
        if statement is None:
            raise SqlError(8179, f"Could not find prepared statement with handle {handle!r}.", state=4)
        yield from self._run(statement, list(call.parameters[1:]), variables[1:])

    def _run(
        self, statement: PreparedStatement, given: list[RpcParameter], sources: list[SqlVariable]
    ) -> Iterator[SqlEvent]:
        by_name = {item.name.lstrip("@").lower(): source for item, source in zip(given, sources, strict=True)}
        found = []
        for place, (name, _) in enumerate(statement.declared):
            source = by_name.get(name) or (sources[place] if place < len(sources) else None)
            if source is None:
                raise SqlError(
                    8178, f"The parameterized query expects the parameter '@{name}', which was not supplied."
                )
            found.append(source)
        variables = variables_of(statement.declared, [source.value for source in found])
        yield from BatchRunner(self.session).run(statement.text, variables)
        for (name, _), source in zip(statement.declared, found, strict=True):
            source.value = variables[name].value
        yield ProcedureReturned(0)

    def _prepare_and_execute(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        handle = self._store(variables)
        yield from self._run(self.prepared[handle], list(call.parameters[3:]), variables[3:])
        variables[0].value = handle

    def _unprepare(self, call: ProcedureCall, variables: list[SqlVariable]) -> Iterator[SqlEvent]:
        handle = variables[0].value
        if not isinstance(handle, int) or self.prepared.pop(handle, None) is None:
            raise SqlError(8179, f"Could not find prepared statement with handle {handle!r}.", state=4)
        yield ProcedureReturned(0)


def _plain(value: SqlValue | TableValue) -> SqlValue:
    return None if isinstance(value, TableValue) else value
