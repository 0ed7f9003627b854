"""Executes the statements of one session: from calls to the messages that answer them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.oracledb import server_calls as calls
from tests.support.oracledb import type_codings as types
from tests.support.oracledb.database import Database, DatabaseSession, Result, converted
from tests.support.oracledb.large_objects import LargeObjects
from tests.support.oracledb.plsql_blocks import BlockRunner, BlockValue, OpenedCursor
from tests.support.oracledb.server_calls import BindValue, ExecuteCall, FetchCall, Locator, StatementFacts, Variable
from tests.support.oracledb.server_replies import (
    IN,
    IN_OUT,
    NO_DATA_FOUND,
    OUT,
    ColumnInfo,
    Completion,
    Dialogue,
    RowError,
    describe_reply,
    description,
    io_vector,
    lob_cell,
    parameter_reply,
    row_header,
    rows_reply,
)
from tests.support.oracledb.sql_translation import SqlError, Statement
from tests.support.oracledb.ttc_fields import counted, fields, integer
from tests.support.oracledb.type_codings import OracleType, Scalar, encode_value

LONGS = frozenset({types.LONG, types.LONG_RAW, 94, 95})
NO_MORE_ROWS = Completion(NO_DATA_FOUND, "ORA-01403: no data found\n")
MOST_ROWS = 10_000  # in one reply
MOST_CURSORS = 300


@dataclass
class OpenStatement:
    """A statement that the client knows by a number."""

    number: int
    statement: Statement | None
    variables: list[Variable] = field(default_factory=list)
    directions: list[int] = field(default_factory=list)
    defines: list[Variable] = field(default_factory=list)
    result: Result = field(default_factory=Result)
    position: int = 0
    described: bool = False
    previous: Sequence[bytes] | None = None

    @property
    def columns(self) -> list[ColumnInfo]:
        return self.result.columns

    def unsent(self) -> frozenset[int]:
        """Return the variables whose values a client leaves out when it executes the statement again."""
        returned = self.statement.returned if self.statement is not None else frozenset()
        return returned | {position for position, direction in enumerate(self.directions) if direction == OUT}


class StatementCalls:
    """The statements of one session."""

    def __init__(self, database: Database, user: str) -> None:
        self.stop = threading.Event()
        self.session = DatabaseSession(database, user)
        self.large_objects = LargeObjects()
        self.dialogue = Dialogue(12)
        self._blocks = BlockRunner(self.session, self.stop)
        self._open: dict[int, OpenStatement] = {}
        self._last = 0

    def interrupt(self) -> None:
        self.stop.set()
        self.session.interrupt()

    def facts(self, sql: str, number: int) -> StatementFacts:
        """Return what the reader of calls needs to know of a statement."""
        if sql:
            try:
                statement = self.session.prepare(sql)
            except SqlError:
                return StatementFacts()
            return StatementFacts(statement.kind == "block", statement.returned)
        known = self._open.get(number)
        if known is None or known.statement is None:
            return StatementFacts()
        return StatementFacts(known.statement.kind == "block", known.unsent(), known.variables)

    def close(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._open.pop(number, None)

    def execute(self, call: ExecuteCall) -> tuple[bytes, Completion]:
        """Return the messages of a reply, and the one that ends it. Raises SqlError."""
        opened = self._opened(call)
        if call.defines:
            opened.defines = call.defines
        statement = opened.statement
        reply = b""
        row_counts: list[int] | None = [] if call.flags & calls.ROW_COUNTS else None
        completion = Completion(cursor=opened.number)
        if statement is None or statement.kind == "query":
            return self._query(opened, call)
        if call.options & calls.RUN:
            if statement.kind == "block":
                reply = self._run_block(opened, call)
            else:
                reply, completion = self._run_rows(opened, call, row_counts)
            if call.options & calls.WITH_COMMIT:
                self.session.commit()
        return reply + parameter_reply(opened.number, row_counts), completion

    def _opened(self, call: ExecuteCall) -> OpenStatement:
        number = call.cursor
        if call.sql:
            statement = self.session.prepare(call.sql)
            number = number or self._next_number()
            self._open[number] = OpenStatement(number, statement)
        opened = self._open.get(number)
        if opened is None:
            raise SqlError(1001, "invalid cursor")
        if call.variables:
            opened.variables = call.variables
        if opened.statement is not None and opened.statement.binds > len(opened.variables):
            raise SqlError(1008, "not all variables bound")
        return opened

    def _next_number(self) -> int:
        if len(self._open) >= MOST_CURSORS:
            raise SqlError(1000, "maximum open cursors exceeded")
        self._last += 1
        return self._last

    def _query(self, opened: OpenStatement, call: ExecuteCall) -> tuple[bytes, Completion]:
        reply = b""
        if opened.statement is not None and (call.options & calls.RUN or not opened.described):
            values = self._plain(call.values[0]) if call.values else [None] * opened.statement.binds
            kinds = [variable.type for variable in opened.variables]
            opened.result = self.session.run(opened.statement, values, kinds)
            opened.position, opened.previous = 0, None
        if not opened.described or call.options & (calls.PARSE | calls.DESCRIBE):
            opened.described = True
            reply = describe_reply(opened.columns, self.dialogue)
        completion = Completion(cursor=opened.number)
        wants_rows = call.options & calls.WITH_ROWS or (call.prefetch and call.options & calls.PARSE)
        if wants_rows and (opened.defines or not any(c.type.is_lob for c in opened.columns)):
            rows, completion = self._fetch(opened, call.rows)
            reply += rows
        return reply + parameter_reply(opened.number), completion

    def fetch(self, call: FetchCall) -> tuple[bytes, Completion]:
        opened = self._open.get(call.cursor)
        if opened is None:
            raise SqlError(1001, "invalid cursor")
        return self._fetch(opened, call.rows)

    def _fetch(self, opened: OpenStatement, count: int) -> tuple[bytes, Completion]:
        count = min(max(count, 1), MOST_ROWS)
        rows = opened.result.rows[opened.position : opened.position + count]
        opened.position += len(rows)
        cells = [self._cells(row, opened) for row in rows]
        reply = row_header(len(opened.columns), count) if rows else b""
        reply += rows_reply(cells, opened.previous)
        if cells:
            opened.previous = cells[-1]
        ended = len(rows) < count
        code, message = (NO_MORE_ROWS.code, NO_MORE_ROWS.message) if ended else (0, "")
        return reply, Completion(code, message, opened.number, opened.position)

    def _cells(self, row: Sequence[Scalar], opened: OpenStatement) -> list[bytes]:
        defines: Sequence[Variable | None] = opened.defines or [None] * len(row)
        pairs = zip(row, opened.columns, defines, strict=True)
        return [self._cell(value, column.type, define) for value, column, define in pairs]

    def _cell(self, value: Scalar, kind: OracleType, define: Variable | None = None) -> bytes:
        if kind.is_lob and (define is None or define.type.number not in LONGS):
            return self._lob(value, kind, define)
        if kind.is_lob:
            form = kind.form if kind.number == types.CLOB else 0
            return counted(encode_value(value, OracleType(types.LONG, form=form))) + fields(0, 0)
        data = encode_value(value, kind)
        return counted(data) + (fields(0, 0) if kind.number in LONGS else b"")

    def _lob(self, value: Scalar, kind: OracleType, define: Variable | None) -> bytes:
        if value is None:
            return b"\0"
        assert isinstance(value, (str, bytes))
        locator = self.large_objects.add(value)
        large = self.large_objects.get(locator)
        prefetched = large.data[: define.prefetch * large.unit] if define is not None else b""
        return lob_cell(locator, prefetched, large.size, kind, define)

    def _plain(self, values: Sequence[BindValue]) -> list[Scalar]:
        """Return bind values with the contents of LOBs in the place of their locators."""
        plain: list[Scalar] = []
        for value in values:
            if isinstance(value, Locator):
                plain.append(self.large_objects.get(value.data).value())
            else:
                plain.append(None if isinstance(value, (calls.Cursor, list)) else value)
        return plain

    def _run_rows(
        self, opened: OpenStatement, call: ExecuteCall, row_counts: list[int] | None
    ) -> tuple[bytes, Completion]:
        """Run a statement once for each row of its bind values."""
        statement = opened.statement
        assert statement is not None
        completion = Completion(cursor=opened.number)
        returned = []
        for number, values in enumerate(call.values or unbound(statement.binds, call.executions)):
            try:
                result = self.session.run(statement, self._plain(values))
            except SqlError as error:
                if not call.options & calls.BATCH_ERRORS or error.code == 1013:
                    error.rows = completion.rows
                    raise
                completion.row_errors.append(RowError(number, error.code, f"{error}\n"))
                continue
            completion.rows += result.affected
            completion.row_id = result.row_id
            returned.append(result.rows)
            if row_counts is not None:
                row_counts.append(result.affected)
        if completion.row_errors:
            completion.code, completion.message = 24381, "ORA-24381: error(s) in array DML\n"
        return self._returned(opened, statement, returned), completion

    def _returned(self, opened: OpenStatement, statement: Statement, rows: list[list[tuple[Scalar, ...]]]) -> bytes:
        """Return the values of RETURNING … INTO: for each execution a row, for each variable the rows it touched."""
        if not statement.returned:
            return b""
        positions = sorted(statement.returned)
        reply = io_vector([OUT if n in statement.returned else IN for n in range(len(opened.variables))])
        for touched in rows:
            reply += row_header(len(positions), 1) + bytes([calls.ROW_DATA])
            for index, position in enumerate(positions):
                kind = opened.variables[position].type
                reply += integer(len(touched))
                reply += b"".join(self._cell(converted(row[index], kind), kind) + b"\0" for row in touched)
        return reply

    def _run_block(self, opened: OpenStatement, call: ExecuteCall) -> bytes:
        statement = opened.statement
        assert statement is not None
        kinds = [variable.type for variable in opened.variables]
        reply = b""
        for number, values in enumerate(call.values or unbound(len(kinds), call.executions)):
            plain = self._plain(values)
            changed = self._blocks.run(statement.sql, plain, kinds)
            if number == 0 and kinds:
                if not opened.directions:
                    opened.directions = directions(plain, changed)
                reply += io_vector(opened.directions)
            written = [n for n, direction in enumerate(opened.directions) if direction != IN]
            if written:
                reply += bytes([calls.ROW_DATA])
                reply += b"".join(self._out_value(changed.get(n, plain[n]), opened.variables[n]) for n in written)
        return reply

    def _out_value(self, value: BlockValue, variable: Variable) -> bytes:
        if isinstance(value, OpenedCursor):
            number = self._next_number()
            self._open[number] = OpenStatement(number, None, result=value.result, described=True)
            return b"\1" + description(value.result.columns, self.dialogue) + fields(number, 0)
        if isinstance(value, list) or variable.is_array:
            elements = value if isinstance(value, list) else []
            cells = [self._cell(converted(element, variable.type), variable.type) + b"\0" for element in elements]
            return integer(len(cells)) + b"".join(cells)
        return self._cell(converted(value, variable.type), variable.type) + b"\0"


def directions(values: Sequence[Scalar], changed: dict[int, BlockValue]) -> list[int]:
    """Return which variables of a block are read, and which are written."""
    found = []
    for position, value in enumerate(values):
        found.append(IN if position not in changed else OUT if value is None else IN_OUT)
    return found


def unbound(count: int, executions: int) -> list[list[BindValue]]:
    return [[None] * count for _ in range(executions)]
