"""Calls of a client: one function, with the piggybacks before it.

    call:   (piggyback)*  function

A client waits for the answer before the next call. So a call ends with its bytes, and bytes after it are a violation:
they would be a call that was not judged. A piggyback has no answer of its own.

`CallReader` reads a call again whenever more of it has arrived, but for what it has passed for good: piggybacks, the
head of an execution, and whole rows of its binds.
"""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_cursors import OracleCursor, OracleCursors
from postern.protocols.oracledb.wire.oracle_lobs import OracleLocators
from postern.protocols.oracledb.wire.oracle_values import value_text
from postern.protocols.oracledb.wire.statement_forms import form_of
from postern.protocols.oracledb.wire.ttc_buffers import ESCAPE, TtcIncomplete, TtcReader, pack_number
from postern.protocols.oracledb.wire.ttc_columns import (
    MAX_BINDS,
    MAX_COLUMNS,
    OracleColumn,
    read_bind,
    skip_object,
    skip_rowid,
)
from postern.protocols.oracledb.wire.ttc_negotiation import FIELD_VERSION_12_2_EXT, TtcLayout
from postern.protocols.wire_base import Request

_NUMBERS: Final = 13  # of an execution, after its text
_MAX_CLOSED: Final = 65_536
_MAX_ROWS: Final = 1 << 20
MAX_SHORT_TEXT: Final = 4_000  # bytes; longer binds of SQL are sent after all others
LOB_TEXT: Final = b"(LOB)"

Values = tuple[bytes | None, ...]


class LobCall:
    """An operation on a LOB, and what its answer returns: `returned` is the locator, `amount` a length."""

    __slots__ = (
        "amount",
        "data",
        "destination",
        "operation",
        "returned",
        "returns_amount",
        "returns_charset",
        "returns_flag",
        "source",
    )

    def __init__(self, operation: int) -> None:
        self.operation = operation
        self.source = b""
        self.destination = b""
        self.returns_amount = False
        self.returns_charset = False
        self.returns_flag = False
        self.data: bytes | None = None  # what is written
        self.returned = b""
        self.amount = 0


class OracleCall(Request):
    """One call. `raw` are its bytes without the piggybacks, `piggybacks` those of them.

    `cursor` is the number that the client named, `statement` what it stands for: a new one if the call has a text.
    """

    __slots__ = (
        "binds",
        "count_rows",
        "cursor",
        "defines",
        "exchange",
        "function",
        "is_unknown",
        "lob",
        "locators",
        "nulls",
        "options",
        "piggybacks",
        "raw",
        "rows",
        "sends",
        "sequence",
        "statement",
        "text",
        "unnamed",
        "values",
    )

    def __init__(self, function: int) -> None:
        super().__init__()
        self.function = function
        self.raw = b""
        self.piggybacks = b""
        self.cursor = 0
        self.options = 0
        self.statement: OracleCursor | None = None
        self.binds: tuple[OracleColumn, ...] | None = None
        self.defines: tuple[OracleColumn, ...] | None = None
        self.sends: list[int] = []  # places of the binds whose values are sent, in the order in which they are
        self.rows = 0  # number of rows of values
        self.nulls = MAX_BINDS  # from this place on, binds are sent as NULL
        self.values: list[Values] = []
        self.count_rows = False  # the answer has the number of affected rows of each row of binds
        self.lob: LobCall | None = None
        self.locators: list[bytes] = []  # of LOBs that are bound
        self.sequence = 0  # of the call at the client, which its answer repeats
        self.exchange = 0
        self.text = ""  # the statement that a request stands for, if it is no call
        self.unnamed = False  # it names a cursor that is not open
        self.is_unknown = False  # the function is not known, so its bytes were not read

    @property
    def executes(self) -> bool:
        return self.function in _EXECUTIONS

    @property
    def all_values(self) -> Values:
        return tuple([value for row in self.values for value in row])


_EXECUTIONS: Final = frozenset({c.EXECUTE, c.REEXECUTE, c.REEXECUTE_AND_FETCH})
_PLAIN: Final = frozenset({c.COMMIT, c.ROLLBACK, c.LOGOFF, c.PING})


class CallReader:
    """Reads one call after the other."""

    __slots__ = (
        "_call",
        "_cursors",
        "_exec_at",
        "_layout",
        "_locators",
        "_may_send_returned",
        "_options_end",
        "_pos",
        "_rows_at",
        "_start",
        "schema",
    )

    def __init__(self, layout: TtcLayout, cursors: OracleCursors, locators: OracleLocators) -> None:
        self._layout = layout
        self._locators = locators
        self._cursors = cursors
        self._call: OracleCall | None = None
        self._pos = 0  # everything before it has been read for good
        self._start = 0  # of the function
        self._exec_at = 0  # the options of an execution, which the gateway changes
        self._options_end = 0
        self._rows_at = 0  # where the rows of values begin
        self._may_send_returned = False
        self.schema = ""

    def read(self, data: bytes) -> OracleCall:
        """Return the call in `data`. Raises TtcIncomplete if it goes on, and ProtocolViolation."""
        while self._call is None:
            reader = TtcReader(data, self._pos)
            self._message(reader)
            self._pos = self._rows_at = int(reader.pos)
        call = self._call
        try:
            self._rows(data, call)
        except ProtocolViolation:
            if not self._sends_returned(call):
                raise
            self._rows(data, call)
        if self._pos != len(data) and self._sends_returned(call):
            self._rows(data, call)
        if call.is_unknown:
            self._pos = len(data)
        if self._pos != len(data):
            raise ProtocolViolation(f"the client sent {len(data) - self._pos} bytes after its call")
        call.piggybacks = data[: self._start]
        call.raw = self._without_compression(data, call)
        self._call = None
        self._pos = 0
        return call

    def _rows(self, data: bytes, call: OracleCall) -> None:
        """Read rows of values, as far as they have arrived."""
        while len(call.values) < call.rows:
            reader = TtcReader(data, self._pos)
            call.values.append(self._row(reader, call))
            self._pos = int(reader.pos)

    def _sends_returned(self, call: OracleCall) -> bool:
        """Read the rows again, as one client sends them: with a NULL for each bind that only comes back."""
        statement = call.statement
        if not self._may_send_returned or statement is None or call.binds is None:
            return False
        self._may_send_returned = False
        first = len(call.binds) - statement.form.returned
        call.sends = call.sends + list(range(first, len(call.binds)))
        call.nulls = first
        call.rows = call.rows or 1
        call.values = []
        self._pos = self._rows_at
        return True

    def _without_compression(self, data: bytes, call: OracleCall) -> bytes:
        """Ask the target for every value of every row: by default it leaves out what the row before has, too."""
        if call.function not in (c.EXECUTE, c.REEXECUTE_AND_FETCH) or call.unnamed:
            return data[self._start :]
        options = pack_number(call.options | c.OPTION_NO_COMPRESSED_FETCH)
        return data[self._start : self._exec_at] + options + data[self._options_end :]

    def _message(self, reader: TtcReader) -> None:
        self._start = self._pos
        self._may_send_returned = False
        kind, function = reader.ub1(), reader.ub1()
        if kind == c.PIGGYBACK:
            reader.ub1()
            self._piggyback(reader, function)
            return
        if kind != c.FUNCTION:
            raise ProtocolViolation(f"the client sent a message of type {kind} in place of a call")
        call = OracleCall(function)
        call.sequence = reader.ub1()
        if function == c.EXECUTE:
            self._execute(reader, call)
        elif function in (c.REEXECUTE, c.REEXECUTE_AND_FETCH):
            self._execute_again(reader, call)
        elif function == c.FETCH:
            call.cursor = reader.ub4()
            reader.ub4()
            call.statement = self._cursors.find(call.cursor)
            call.unnamed = call.statement is None
        elif function == c.LOB_OPERATION:
            call.lob = read_lob_call(reader)
        elif function == c.VERSION:
            reader.ub1()
            reader.ub4()
            reader.skip(2)
            if self._layout.field_version >= _VERSION_FORMAT:
                reader.ub4()
        elif function not in _PLAIN:
            call.is_unknown = True
        self._call = call

    def _piggyback(self, reader: TtcReader, function: int) -> None:
        if function == c.CLOSE_CURSORS:
            reader.ub1()
            count = reader.ub4()
            if count > _MAX_CLOSED:
                raise ProtocolViolation(f"the client closes {count} cursors at once")
            for number in [reader.ub4() for _ in range(count)]:
                self._cursors.forget(number)
        elif function == c.SET_SCHEMA:
            reader.ub1()
            self.schema = reader.dlc().decode("utf-8", "replace")
        elif function == c.END_TO_END:
            _skip_end_to_end(reader, self._layout)
        elif function == c.SESSION_STATE:
            reader.ub8()
        elif function == c.LOB_OPERATION:
            call = read_lob_call(reader)
            if call.operation & ~c.LOB_ARRAY != c.LOB_FREE_TEMPORARY:
                raise ProtocolViolation(f"the client sent the LOB operation {call.operation:#x} as a piggyback")
            self._locators.forget(call.source)
        else:
            raise ProtocolViolation(f"the client sent the piggyback {function}, which is not supported")

    def _execute(self, reader: TtcReader, call: OracleCall) -> None:
        self._exec_at = int(reader.pos)
        call.options = reader.ub4()
        self._options_end = int(reader.pos)
        call.cursor = reader.ub4()
        reader.ub1()
        size = reader.ub4()
        reader.ub1()
        if reader.ub4() != _NUMBERS:
            raise ProtocolViolation("the client sent an execution in an unknown form")
        reader.skip(2)
        for _ in range(3):  # size and rows to fetch ahead, longest LONG
            reader.ub4()
        binds = reader.ub4() if reader.ub1() else _zero(reader)
        reader.zeros(5, "a call with an application context")
        defines = reader.ub4() if reader.ub1() else _zero(reader)
        if max(binds, defines) > MAX_BINDS or defines > MAX_COLUMNS:
            raise ProtocolViolation(f"the client sent {binds} binds and {defines} defines at once")
        _skip_extensions(reader, self._layout)
        text = b""
        if size:
            if reader.end - reader.pos < size:
                raise TtcIncomplete(int(reader.pos) + size)
            text = reader.text(size, self._layout.counts_texts)
        numbers = [reader.ub4() for _ in range(_NUMBERS)]
        call.count_rows = bool(numbers[9] & c.FLAG_DML_ROW_COUNTS)
        self._find_statement(call, text)
        if defines:
            call.defines = tuple([read_bind(reader, self._layout) for _ in range(defines)])
            if binds:
                raise ProtocolViolation("the client sent binds and defines at once")
        elif binds:
            call.binds = tuple([read_bind(reader, self._layout) for _ in range(binds)])
            self._expect_rows(call, 1 if numbers[7] else max(numbers[1], 1), again=False)

    def _find_statement(self, call: OracleCall, text: bytes) -> None:
        if text:
            decoded = text.decode("utf-8", "surrogateescape").rstrip("\0")
            call.statement = OracleCursor(decoded, form_of(decoded))
        else:
            call.statement = self._cursors.find(call.cursor)
            call.unnamed = call.statement is None

    def _execute_again(self, reader: TtcReader, call: OracleCall) -> None:
        call.cursor = reader.ub4()
        count = reader.ub4()
        self._exec_at = int(reader.pos)
        call.options = reader.ub4()
        self._options_end = int(reader.pos)
        reader.ub4()
        call.statement = self._cursors.find(call.cursor)
        if call.statement is None:
            call.unnamed = call.is_unknown = True
            return
        call.binds = call.statement.binds or None
        if call.binds is not None:
            is_one = call.function == c.REEXECUTE_AND_FETCH or call.statement.form.is_query
            self._expect_rows(call, 1 if is_one else max(count, 1), again=True)

    def _expect_rows(self, call: OracleCall, rows: int, *, again: bool) -> None:
        """Decide which binds have values in this call. `again`: binds that only come back have none."""
        statement = call.statement
        binds = call.binds
        assert binds is not None
        if rows > _MAX_ROWS:
            raise ProtocolViolation(f"the client binds {rows} rows at once; the most is {_MAX_ROWS}")
        form = form_of("") if statement is None else statement.form
        if form.returned < 0 or form.returned > len(binds):
            raise ProtocolViolation("the clause RETURNING of a statement cannot be read, so its binds cannot either")
        directions = statement.directions if again and statement is not None else ()
        places = [
            place
            for place in range(len(binds) - form.returned)
            if not binds[place].flags & c.BIND_SKIPPED
            and not (place < len(directions) and directions[place] == c.OUTPUT)
        ]
        self._may_send_returned = form.returned > 0 and not again
        late = [place for place in places if _is_long(binds[place], form.is_plsql)]
        call.sends = [place for place in places if place not in late] + late
        call.rows = rows if call.sends else 0

    def _row(self, reader: TtcReader, call: OracleCall) -> Values:
        if reader.ub1() != c.ROW_DATA:
            raise ProtocolViolation("the client sent something else than the values of its binds")
        binds = call.binds
        assert binds is not None
        values: dict[int, bytes | None] = {}
        arrays: list[bytes | None] = []
        for place in call.sends:
            bind = binds[place]
            if place >= call.nulls:
                reader.zeros(1, "a value for a bind that is only returned")
                continue
            if not bind.is_array:
                values[place] = read_bind_value(reader, bind, call.locators)
                continue
            count = reader.ub4()
            if count > _MAX_ROWS:
                raise ProtocolViolation(f"the client binds an array of {count} values")
            elements = [read_bind_value(reader, bind, call.locators) for _ in range(count)]
            values[place] = elements[0] if elements else None
            arrays += elements[1:]
        return (*[values.get(place) for place in range(len(binds))], *arrays)


_VERSION_FORMAT: Final = 11  # 18.1: the version can be asked for in a newer form


def _zero(reader: TtcReader) -> int:
    count = reader.ub4()
    if count:
        raise ProtocolViolation("the client sent a number of values without values")
    return 0


def _is_long(bind: OracleColumn, is_plsql: bool) -> bool:
    return bind.type in c.LONGS or (not is_plsql and bind.type in c.SCALARS and bind.size > MAX_SHORT_TEXT)


def _skip_extensions(reader: TtcReader, layout: TtcLayout) -> None:
    """Skip the fields of newer versions in an execution. Those with data after them are not supported."""
    reader.ub4()  # registration for notifications, low half
    reader.zeros(1, "an execution with object types")
    reader.ub1()
    reader.zeros(4, "an execution with a list of values or a name")
    reader.ub4()  # registration, high half
    reader.ub1()
    reader.ub4()
    reader.ub1()
    reader.zeros(5, "an execution by signature")
    if layout.field_version >= FIELD_VERSION_12_2_EXT:
        reader.zeros(2, "an execution for parts of a table")


def _skip_end_to_end(reader: TtcReader, layout: TtcLayout) -> None:
    """Skip attributes of a session: client identifier, module, action and alike."""
    reader.skip(2)
    reader.ub4()
    sizes: list[int] = []
    for _ in range(3):  # client identifier, module, action
        reader.ub1()
        sizes.append(reader.ub4())
    reader.zeros(2, "an execution context identifier")
    reader.ub1()
    reader.ub4()
    reader.ub1()
    sizes.append(reader.ub4())  # client info
    reader.zeros(4, "a stack of execution contexts")
    reader.ub1()
    sizes.append(reader.ub4())  # database operation
    for size in sizes:
        reader.text(size, layout.counts_texts)


def read_lob_call(reader: TtcReader) -> LobCall:
    """Read an operation on a LOB."""
    has_source = reader.ub1()
    source_size = reader.ub4()
    has_destination = reader.ub1()
    destination_size = reader.ub4()
    reader.ub4()
    reader.ub4()
    has_charset = reader.ub1()
    reader.zeros(1, "a LOB operation in an old form")
    has_flag = reader.ub1()
    call = LobCall(reader.ub4())
    has_numbers = reader.ub1()
    numbers = reader.ub4()
    reader.ub8()
    reader.ub8()
    has_amount = reader.ub1()
    reader.zeros(6, "a LOB operation on several LOBs")
    call.source = reader.raw(source_size) if has_source else b""
    call.destination = reader.raw(destination_size) if has_destination else b""
    call.returns_charset, call.returns_flag, call.returns_amount = bool(has_charset), bool(has_flag), bool(has_amount)
    if has_charset:
        reader.ub4()
    if has_numbers:
        if numbers > 16:
            raise ProtocolViolation("the client sent a LOB operation in an unknown form")
        for _ in range(numbers):
            reader.ub4()
    if has_amount:
        reader.ub8()
    if call.operation == c.LOB_WRITE:
        if reader.ub1() != c.LOB_DATA:
            raise ProtocolViolation("the client sent no data to write to a LOB")
        call.data = reader.clr() or b""
    return call


def read_bind_value(reader: TtcReader, bind: OracleColumn, locators: list[bytes]) -> bytes | None:
    """Return the value of a bind as text; None for NULL. The locator of a LOB is added to `locators`."""
    kind = bind.type
    if kind == c.BOOLEAN and reader.pos < reader.end and reader.data[int(reader.pos)] == ESCAPE:
        reader.skip(2)
        return None
    if kind in c.SCALARS:
        value = reader.clr()
        return None if value is None else value_text(bind, value)
    if kind in c.LOBS:
        if not reader.ub4():
            return None
        locators.append(reader.clr() or b"")
        return LOB_TEXT
    if kind in (c.CURSOR, c.RESULT_SET):
        # The number 1, and the number of the cursor. One that is not open has a byte of 0 instead of both values.
        if reader.ub1() and reader.ub1():
            reader.ub4()
        return None
    if kind == c.OBJECT:
        skip_object(reader)
        return LOB_TEXT
    if kind == c.ROWID:
        size = reader.ub1()
        if size and size != 255:
            skip_rowid(reader)
        return None
    if kind == c.UROWID:
        return reader.clr()
    raise ProtocolViolation(f"the client binds a value of type {kind}, which is not supported")
