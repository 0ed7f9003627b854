"""Running a batch of T-SQL: control flow, and the statements that SQLite does not have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.support.mssql import engine_definitions, engine_queries
from tests.support.mssql.engine_batches import Attempt, Block, Branch, Loop, Plain, Step, split
from tests.support.mssql.engine_events import (
    DatabaseChanged,
    ProcedureReturned,
    SqlEvent,
    SqlMessage,
    StatementRan,
    TransactionFinished,
    TransactionStarted,
)
from tests.support.mssql.engine_procedures import Arguments, read_call, system_procedure
from tests.support.mssql.engine_session import EngineSession, SqlScope, SqlVariable
from tests.support.mssql.sqlserver_errors import SqlError, missing_procedure, missing_variable, not_supported
from tests.support.mssql.sqlserver_types import SqlType, parse_type
from tests.support.mssql.sqlserver_values import SqlValue, as_text

_IDLE: Final = frozenset({"GRANT", "REVOKE", "DENY", "DBCC", "KILL", "RECONFIGURE", "CHECKPOINT"})
_MOST_LEVELS: Final = 32
_RAISES: Final = 1000  # is added to a level inside of TRY


class _Return(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


@dataclass
class BatchRunner:
    """Runs batches and procedures of one session. Every method yields events."""

    session: EngineSession
    level: int = 0

    def run(self, text: str, variables: dict[str, SqlVariable] | None = None) -> Iterator[SqlEvent]:
        """Run a batch in a scope of its own. Its variables are changed in `variables`."""
        session, before, options = self.session, self.session.scope, dict(self.session.options)
        session.scope = SqlScope(variables if variables is not None else {})
        try:
            yield from self._guarded(split(text))
        except SqlError as error:
            yield from self._fail(error)
        finally:
            for name in session.scope.table_variables:
                session.connection.execute(f'DROP TABLE IF EXISTS temp."{name}"')
            session.scope = before
            if self.level % _RAISES:  # what a procedure sets ends with it
                session.options = options

    def _guarded(self, steps: Sequence[Step]) -> Iterator[SqlEvent]:
        try:
            yield from self._steps(steps)
        except _Return as returned:
            yield ProcedureReturned(returned.status)

    def _steps(self, steps: Sequence[Step]) -> Iterator[SqlEvent]:
        for step in steps:
            yield from self._step(step)

    def _step(self, step: Step) -> Iterator[SqlEvent]:
        if isinstance(step, Plain):
            yield from self._plain(step)
        elif isinstance(step, Block):
            yield from self._steps(step.body)
        elif isinstance(step, Branch):
            if self.session.is_true(step.condition):
                yield from self._step(step.then)
            elif step.otherwise is not None:
                yield from self._step(step.otherwise)
        elif isinstance(step, Loop):
            yield from self._loop(step)
        else:
            yield from self._attempt(step)

    def _loop(self, step: Loop) -> Iterator[SqlEvent]:
        while self.session.is_true(step.condition):
            if self.session.interrupted():
                break
            try:
                yield from self._step(step.body)
            except _Break:
                break
            except _Continue:
                continue

    def _attempt(self, step: Attempt) -> Iterator[SqlEvent]:
        session, before = self.session, self.session.caught
        self.level += _RAISES
        try:
            yield from self._steps(step.body.body)
        except SqlError as error:
            self.level -= _RAISES
            session.caught = error
            yield from self._steps(step.handler.body)
        else:
            self.level -= _RAISES
        finally:
            session.caught = before

    def _plain(self, step: Plain) -> Iterator[SqlEvent]:
        session = self.session
        try:
            yield from self._statement(step)
            session.globals["error"] = 0
        except SqlError as error:
            error.line = step.line
            session.globals["error"] = error.number
            if session.options.get("XACT_ABORT") and session.globals["trancount"]:
                yield from self._roll_back()
                error.severity = max(error.severity, 16)
                raise
            if self.level >= _RAISES or error.ends_batch or step.first == "THROW":
                raise
            yield from self._fail(error)

    def _fail(self, error: SqlError) -> Iterator[SqlEvent]:
        yield SqlMessage(error)
        yield StatementRan(failed=True)

    def _statement(self, step: Plain) -> Iterator[SqlEvent]:
        first = step.first
        if first in ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE", "("):
            yield from self._implicit_transaction()
        if first == "INSERT" and (matched := _INSERT_EXEC.fullmatch(step.text)):
            yield from self._insert_exec(*matched.groups())
        elif first in ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "("):
            yield from engine_queries.run(self.session, step.text)
        elif first in ("CREATE", "ALTER", "DROP", "TRUNCATE"):
            yield from self._implicit_transaction()
            yield from engine_definitions.run(self.session, step.text)
        elif first in _IDLE:
            yield StatementRan()
        elif first in _STATEMENTS:
            yield from _STATEMENTS[first](self, step.text)
        elif first and first not in ("MERGE", "OPEN", "FETCH", "CLOSE", "DEALLOCATE"):
            yield from self._execute("EXEC " + step.text)  # a batch may begin with a procedure's name
        else:
            raise not_supported(first)

    # -- Variables and settings --------------------------------------------------------------------------------------

    def _declare(self, text: str) -> Iterator[SqlEvent]:
        scope = self.session.scope
        for part in split_commas(text.split(None, 1)[1]):
            matched = _DECLARED.fullmatch(part.strip())
            if matched is None:
                raise not_supported("DECLARE " + part)
            name, kind, value = matched.groups()
            if kind.strip().lower().startswith("table"):
                engine_definitions.create_table(self.session, "temp", "@" + name, kind[kind.index("(") + 1 : -1])
                scope.table_variables.append("@" + name)
                continue
            scope.variables[name.lower()] = SqlVariable(parse_type(kind.strip()))
            if value is not None:
                self.session.assign(name, self.session.value_of(value)[1])
        return
        yield

    def _set(self, text: str) -> Iterator[SqlEvent]:
        session = self.session
        if matched := _SET_VARIABLE.fullmatch(text):
            name, sign, value = matched.groups()
            session.assign(name, session.value_of(f"@{name} {sign} ({value})" if sign else value)[1])
            return
        words = text.upper().replace(",", " ").split()
        if words[1] == "IMPLICIT_TRANSACTIONS":
            session.options["IMPLICIT_TRANSACTIONS"] = words[2] == "ON"
        elif words[-1] in ("ON", "OFF"):
            session.options.update(dict.fromkeys(words[1:-1], words[-1] == "ON"))
        yield StatementRan()

    def _use(self, text: str) -> Iterator[SqlEvent]:
        wanted = text.split(None, 1)[1].strip().strip('[]"')
        session = self.session
        for name in session.catalogue.databases():
            if name.lower() == wanted.lower():
                old, session.database = session.database, name
                yield DatabaseChanged(name, old)
                yield StatementRan()
                return
        raise SqlError(911, f"Database '{wanted}' does not exist. Make sure that the name is entered correctly.")

    # -- Messages ----------------------------------------------------------------------------------------------------

    def _print(self, text: str) -> Iterator[SqlEvent]:
        value = self.session.value_of(text.strip()[5:])[1]
        yield SqlMessage(SqlError(0, as_text(value) or " ", 0))
        yield StatementRan()

    def _raiserror(self, text: str) -> Iterator[SqlEvent]:
        body = text[text.index("(") + 1 : text.rindex(")")]
        values = [self.session.value_of(part)[1] for part in split_commas(body)]
        form = _FORMAT.sub("%s", as_text(values[0]))
        message = form % tuple(as_text(value) for value in values[3:]) if values[3:] else as_text(values[0])
        error = SqlError(50_000, message, int(as_text(values[1])), max(int(as_text(values[2])), 1))
        if error.severity > 10:
            raise error
        yield SqlMessage(error)
        yield StatementRan()

    def _throw(self, text: str) -> Iterator[SqlEvent]:
        parts = split_commas(text.strip()[5:])
        if not parts[0].strip():
            raise self.session.caught or SqlError(
                10704, "To rethrow an error, a THROW statement must be in a CATCH block."
            )
        number, message, state = (self.session.value_of(part)[1] for part in parts)
        raise SqlError(int(as_text(number)), as_text(message), 16, int(as_text(state)))
        yield

    def _wait(self, text: str) -> Iterator[SqlEvent]:
        delay = as_text(self.session.value_of(text.split(None, 2)[2])[1])
        hours, minutes, seconds = delay.split(":")
        self.session.wait(int(hours) * 3600 + int(minutes) * 60 + float(seconds))
        yield StatementRan()

    # -- Transactions ------------------------------------------------------------------------------------------------

    def begin(self, text: str = "") -> Iterator[SqlEvent]:
        yield from self._count_up()
        yield StatementRan()

    def _count_up(self) -> Iterator[SqlEvent]:
        session = self.session
        count = int(as_text(session.globals["trancount"]))
        if count == 0:
            session.run_sqlite("BEGIN")
            yield TransactionStarted()
        session.globals["trancount"] = count + 1

    def _implicit_transaction(self) -> Iterator[SqlEvent]:
        session = self.session
        if session.options.get("IMPLICIT_TRANSACTIONS") and not session.globals["trancount"]:
            yield from self._count_up()

    def commit(self, text: str = "") -> Iterator[SqlEvent]:
        session = self.session
        count = int(as_text(session.globals["trancount"]))
        if count == 0:
            raise SqlError(3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        if count == 1:
            session.run_sqlite("COMMIT")
            yield TransactionFinished(committed=True)
        session.globals["trancount"] = count - 1
        yield StatementRan()

    def roll_back(self, text: str = "") -> Iterator[SqlEvent]:
        words = text.split()
        name = words[2] if len(words) > 2 and words[1].upper() in ("TRAN", "TRANSACTION") else ""
        if not self.session.globals["trancount"]:
            raise SqlError(3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        if name and name.lower() in self.session.savepoints:
            self.session.run_sqlite(f'ROLLBACK TO "{name.lower()}"')
        else:
            yield from self._roll_back()
        yield StatementRan()

    def _roll_back(self) -> Iterator[SqlEvent]:
        self.session.savepoints.clear()
        self.session.run_sqlite("ROLLBACK")
        self.session.globals["trancount"] = 0
        yield TransactionFinished(committed=False)

    def save(self, text: str) -> Iterator[SqlEvent]:
        name = text.split()[-1].lower()
        self.session.run_sqlite(f'SAVEPOINT "{name}"')
        self.session.savepoints.add(name)
        yield StatementRan()

    # -- Procedures --------------------------------------------------------------------------------------------------

    def _execute(self, text: str) -> Iterator[SqlEvent]:
        session = self.session
        call = read_call(text)
        if call.dynamic is not None:
            script = as_text(session.value_of(call.dynamic)[1])
            yield from BatchRunner(session, self._deeper()).run(script)
            return
        arguments = Arguments()
        for name, value, output in call.arguments:
            variable = value.strip()[1:].lower() if output else ""
            if output and variable not in session.scope.variables:
                raise missing_variable(value)
            found = session.scope.variables[variable] if output else SqlVariable(*session.value_of(value))
            arguments.add(name, found, output)
        status = 0
        for event in self.call(call.name, arguments):
            if isinstance(event, ProcedureReturned):
                status = event.status
            else:
                yield event
        if call.result:
            session.assign(call.result, status)

    def call(self, name: str, arguments: Arguments) -> Iterator[SqlEvent]:
        """Call a procedure by name. Its output arguments are changed."""
        session = self.session
        system = system_procedure(name)
        if system is not None:
            yield from system(self, arguments)
            return
        plain = name.split(".")[-1].strip("[]").lower()
        for stored, body in session.procedures():
            if stored.lower() == plain:
                yield from self._call_stored(stored, body, arguments)
                return
        raise missing_procedure(name)

    def _call_stored(self, name: str, text: str, arguments: Arguments) -> Iterator[SqlEvent]:
        declared, body = engine_definitions.read_procedure(text)
        variables: dict[str, SqlVariable] = {}
        given = arguments.by_name([item.name for item in declared])
        for item in declared:
            variable = given.get(item.name)
            if variable is None and item.default is None:
                raise SqlError(
                    201, f"Procedure or function '{name}' expects parameter '@{item.name}', which was not supplied."
                )
            value = variable.value if variable is not None else self.session.value_of(item.default or "")[1]
            variables[item.name] = SqlVariable(item.type)
            variables[item.name].value = engine_queries.converted(value, item.type)
        status = 0
        runner = BatchRunner(self.session, self._deeper())
        for event in runner.run(body, variables):
            if isinstance(event, ProcedureReturned):
                status = event.status
            else:
                yield event
        for item in declared:
            if item.name in arguments.outputs and item.name in given:
                given[item.name].value = variables[item.name].value
        yield ProcedureReturned(status)

    def _deeper(self) -> int:
        if self.level % _RAISES >= _MOST_LEVELS:
            raise SqlError(
                217, "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32)."
            )
        return self.level + 1

    def _insert_exec(self, head: str, text: str) -> Iterator[SqlEvent]:
        yield from engine_queries.insert_rows(self.session, head, self._execute(text))

    def _return(self, text: str) -> Iterator[SqlEvent]:
        value = text.strip()[6:].strip()
        raise _Return(int(as_text(self.session.value_of(value)[1])) if value else 0)
        yield

    def _break(self, text: str) -> Iterator[SqlEvent]:
        raise _Break
        yield

    def _continue(self, text: str) -> Iterator[SqlEvent]:
        raise _Continue
        yield


_DECLARED: Final = re.compile(
    r"@(\w+)\s+(?:AS\s+)?((?:table\s*\(.*\))|[^=]+?)(?:\s*=\s*(.+))?", re.IGNORECASE | re.DOTALL
)
_SET_VARIABLE: Final = re.compile(r"SET\s+@(\w+)\s*([-+*/])?=\s*(.+)", re.IGNORECASE | re.DOTALL)
_INSERT_EXEC: Final = re.compile(
    r"(INSERT\s+(?:INTO\s+)?\S+\s*(?:\([^)]*\))?)\s*(EXEC(?:UTE)?\s.+)", re.IGNORECASE | re.DOTALL
)
_FORMAT: Final = re.compile(r"%-?\d*[dsioux]")
_STATEMENTS: Final[dict[str, Callable[[BatchRunner, str], Iterator[SqlEvent]]]] = {
    "DECLARE": BatchRunner._declare,
    "SET": BatchRunner._set,
    "USE": BatchRunner._use,
    "PRINT": BatchRunner._print,
    "RAISERROR": BatchRunner._raiserror,
    "THROW": BatchRunner._throw,
    "WAITFOR": BatchRunner._wait,
    "BEGIN": BatchRunner.begin,
    "COMMIT": BatchRunner.commit,
    "ROLLBACK": BatchRunner.roll_back,
    "SAVE": BatchRunner.save,
    "EXEC": BatchRunner._execute,
    "EXECUTE": BatchRunner._execute,
    "RETURN": BatchRunner._return,
    "BREAK": BatchRunner._break,
    "CONTINUE": BatchRunner._continue,
}


def split_commas(text: str) -> list[str]:
    """Split at commas outside of parentheses and texts."""
    parts, depth, quote, start = [], 0, "", 0
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign == "'":
            quote = sign
        elif sign == "[":
            quote = "]"
        elif sign in "()":
            depth += 1 if sign == "(" else -1
        elif sign == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def declared_parameters(text: str) -> list[tuple[str, SqlType]]:
    """Read `@a int, @b nvarchar(20) OUTPUT`, as sp_executesql gets it."""
    found = []
    for part in split_commas(text):
        matched = re.fullmatch(
            r"\s*@(\w+)\s+(.+?)(?:\s+OUT(?:PUT)?)?(?:\s+READONLY)?\s*", part, re.IGNORECASE | re.DOTALL
        )
        if matched:
            found.append((matched.group(1).lower(), parse_type(matched.group(2), cast=True)))
    return found


def variables_of(declared: Sequence[tuple[str, SqlType]], values: Sequence[SqlValue]) -> dict[str, SqlVariable]:
    return {
        name: SqlVariable(kind, engine_queries.converted(value, kind))
        for (name, kind), value in zip(declared, values, strict=False)
    }
