"""What clients ask of the server: the messages of TTC after the login, read field by field.

A message has no length. Its fields depend on the version that both sides agreed on, and those of a statement's bind
variables on the statement itself, so the reader asks the session for what it knows of a cursor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.oracledb import type_codings as types
from tests.support.oracledb.ttc_fields import BadMessage, FieldReader
from tests.support.oracledb.type_codings import OracleType, Scalar, decode_value

PROTOCOL, DATA_TYPES, FUNCTION, ROW_DATA, LOB_DATA, PIGGYBACK, FAST_AUTH = 1, 2, 3, 7, 14, 17, 34
AUTH_ONE, AUTH_TWO, EXECUTE, FETCH, LOB_OPERATION, COMMIT, ROLLBACK, LOGOFF = 118, 115, 94, 5, 96, 14, 15, 9
PING, VERSION, RE_EXECUTE, RE_EXECUTE_AND_FETCH, CLOSE_CURSORS, SET_SCHEMA = 147, 59, 4, 78, 105, 152
END_TO_END, SESSION_STATE = 135, 176
EXTERNAL_TYPES = {187: types.TIMESTAMP, 188: types.TIMESTAMP_TZ, 232: types.TIMESTAMP_LTZ}  # as clients name them
PLAIN_CALLS = frozenset({COMMIT, ROLLBACK, LOGOFF, PING})
PARSE, BIND, DEFINE, RUN, WITH_ROWS, WITH_COMMIT = 0x01, 0x08, 0x10, 0x20, 0x40, 0x100
DESCRIBE, BATCH_ERRORS, ROW_COUNTS = 0x20000, 0x80000, 0x4000
LOB_LENGTH, LOB_READ, LOB_TRIM, LOB_WRITE, LOB_CHUNK_SIZE = 0x01, 0x02, 0x20, 0x40, 0x4000
LOB_CREATE, LOB_FREE, LOB_OPEN, LOB_CLOSE, LOB_IS_OPEN, LOB_ARRAY = 0x110, 0x111, 0x8000, 0x10000, 0x11000, 0x80000
LONGEST_TEXT, LONGEST_SHORT_TEXT = 32767, 4000
TOKENS_SINCE = 18  # field version
MOST_BINDS, MOST_CURSORS = 65535, 10000


@dataclass
class Variable:
    """A bind variable or a defined column, as the client declares it."""

    type: OracleType
    is_array: bool = False
    most_elements: int = 0
    prefetch: int = 0  # characters of a LOB to send with its locator
    has_lob_header: bool = False


@dataclass(frozen=True)
class Cursor:
    """A REF CURSOR as the value of a bind variable."""

    number: int


@dataclass(frozen=True)
class Locator:
    """A LOB as the value of a bind variable."""

    data: bytes


BindValue = Scalar | Cursor | Locator | list["BindValue"]


@dataclass
class StatementFacts:
    """What the server knows of a statement that the reader needs."""

    is_block: bool = False
    unsent: frozenset[int] = frozenset()  # positions of variables whose values the client does not send
    variables: list[Variable] = field(default_factory=list)


@dataclass
class ExecuteCall:
    options: int
    cursor: int
    sql: str
    rows: int  # to send at once
    prefetch: bool  # whether rows are wanted with the execution
    variables: list[Variable]
    defines: list[Variable]
    executions: int
    flags: int
    values: list[list[BindValue]]


@dataclass(frozen=True)
class FetchCall:
    cursor: int
    rows: int


@dataclass(frozen=True)
class LobCall:
    locator: bytes
    operation: int
    offset: int
    kind: int  # of a new temporary LOB
    amount: int | None
    data: bytes
    charset: bool
    null_flag: bool


@dataclass(frozen=True)
class LogonCall:
    second: bool
    user: str
    pairs: dict[str, str]


@dataclass(frozen=True)
class PlainCall:
    """A call without arguments, by its function code."""

    function: int


@dataclass(frozen=True)
class CloseCall:
    cursors: tuple[int, ...]


@dataclass(frozen=True)
class IgnoredCall:
    """A piggyback that changes nothing that this server has."""

    function: int


Call = ExecuteCall | FetchCall | LobCall | LogonCall | PlainCall | CloseCall | IgnoredCall


@dataclass(frozen=True)
class Layout:
    """How a client writes fields, as it said before the login."""

    field_version: int
    counts_texts: bool = True  # also those whose length went before them
    compressed_scale: bool = False  # the scale of a type is an integer, not a byte
    longest_text: int = LONGEST_TEXT  # a longer one follows the other values


class CallReader:
    """Reads one call. `facts` returns what is known of a statement: by its text, or else by its cursor."""

    def __init__(self, layout: Layout, facts: Callable[[str, int], StatementFacts]) -> None:
        self._layout, self._facts = layout, facts
        self.sequence = 0  # of the last call that was read

    def read(self, reader: FieldReader) -> tuple[bool, Call]:
        """Return a call, and whether it is a piggyback: one that has no response of its own."""
        kind = reader.byte()
        if kind not in (FUNCTION, PIGGYBACK):
            raise BadMessage(f"message type {kind} is not a call")
        function = reader.byte()
        self.sequence = reader.byte()
        if self._layout.field_version >= TOKENS_SINCE:
            reader.integer()
        return kind == PIGGYBACK, self._arguments(reader, function)

    def _arguments(self, reader: FieldReader, function: int) -> Call:
        counts_texts = self._layout.counts_texts
        if function in (RE_EXECUTE, RE_EXECUTE_AND_FETCH):
            return self._re_execute(reader, function)
        if function in (AUTH_ONE, AUTH_TWO):
            return read_logon(reader, function == AUTH_TWO, counts_texts)
        if function in PLAIN_CALLS:
            return PlainCall(function)
        readers: dict[int, Callable[[FieldReader], Call]] = {
            EXECUTE: self._execute,
            FETCH: lambda fields: FetchCall(fields.integer(), fields.integer()),
            LOB_OPERATION: read_lob_call,
            VERSION: self._version,
            CLOSE_CURSORS: read_close,
        }
        if function in readers:
            return readers[function](reader)
        skip_piggyback(reader, function)
        return IgnoredCall(function)

    def _version(self, reader: FieldReader) -> PlainCall:
        reader.raw(1)
        reader.integer()
        reader.raw(2)
        if self._layout.field_version >= 11:
            reader.integer()
        return PlainCall(VERSION)

    def _execute(self, reader: FieldReader) -> ExecuteCall:
        options, cursor = reader.integer(), reader.integer()
        reader.byte()
        sql_length = reader.integer()
        reader.byte()
        vector = limited(reader.integer(), 64)
        reader.raw(2)
        reader.integer()
        prefetch = reader.integer()
        reader.integer()
        reader.byte()
        variable_count = limited(reader.integer(), MOST_BINDS)
        reader.raw(5)
        reader.byte()
        define_count = limited(reader.integer(), MOST_BINDS)
        self._skip_unused(reader)
        sql = reader.text(sql_length, self._layout.counts_texts).decode()
        numbers = [reader.integer() for _ in range(vector)] + [0] * 13
        defines = [self._variable(reader) for _ in range(define_count)]
        variables = [self._variable(reader) for _ in range(variable_count)] if not define_count else []
        executions = max(numbers[1], 1)
        facts = self._facts(sql, cursor)
        values: list[list[BindValue]] = []
        if variables and len(facts.unsent) < len(variables):
            times = 1 if numbers[7] else executions
            values = [read_values(reader, variables, facts, self._layout.longest_text) for _ in range(times)]
        rows = prefetch or numbers[1]
        return ExecuteCall(
            options, cursor, sql, rows, bool(prefetch), variables, defines, executions, numbers[9], values
        )

    def _skip_unused(self, reader: FieldReader) -> None:
        reader.integer()
        reader.raw(3)
        reader.integer()
        reader.byte()
        reader.integer()
        reader.integer()
        reader.byte()
        reader.integer()
        reader.byte()
        if self._layout.field_version >= 8:
            reader.byte()
            reader.integer()
            reader.byte()
            reader.integer()
            reader.byte()
        if self._layout.field_version >= 9:
            reader.byte()
            reader.integer()

    def _variable(self, reader: FieldReader) -> Variable:
        number, flags, precision = reader.raw(3)
        scale = reader.integer() if self._layout.compressed_scale else reader.byte()
        size, most = reader.integer(), reader.integer()
        lob_flags = reader.integer()
        reader.sized()
        reader.integer()
        reader.integer()
        form = reader.byte()
        prefetch = reader.integer()
        if self._layout.field_version >= 8:
            reader.integer()
        kind = OracleType(EXTERNAL_TYPES.get(number, number), size, precision, scale, form)
        return Variable(kind, bool(flags & 0x40), most, prefetch, bool(lob_flags & 0x2000000))

    def _re_execute(self, reader: FieldReader, function: int) -> ExecuteCall:
        cursor, count = reader.integer(), reader.integer()
        reader.integer()
        options = RUN | (WITH_COMMIT if reader.integer() & 1 else 0)
        if function == RE_EXECUTE_AND_FETCH:
            options |= WITH_ROWS
        facts = self._facts("", cursor)
        values: list[list[BindValue]] = []
        if len(facts.unsent) < len(facts.variables):
            times = 1 if function == RE_EXECUTE_AND_FETCH else count
            values = [read_values(reader, facts.variables, facts, self._layout.longest_text) for _ in range(times)]
        return ExecuteCall(options, cursor, "", count, False, facts.variables, [], max(count, 1), 0, values)


def read_close(reader: FieldReader) -> CloseCall:
    reader.byte()
    return CloseCall(tuple(reader.integer() for _ in range(limited(reader.integer(), MOST_CURSORS))))


def limited(count: int, most: int) -> int:
    if not 0 <= count <= most:
        raise BadMessage(f"{count} elements are more than {most}")
    return count


def read_values(reader: FieldReader, variables: list[Variable], facts: StatementFacts, longest: int) -> list[BindValue]:
    """Read one row of bind values: those of long texts follow the others, except in blocks."""
    if reader.byte() != ROW_DATA:
        raise BadMessage("bind values expected")
    values: list[BindValue] = [None] * len(variables)
    late = []
    for position, variable in enumerate(variables):
        if position in facts.unsent:
            continue
        if not facts.is_block and variable.type.size > longest and not variable.type.is_lob:
            late.append(position)
        else:
            values[position] = read_variable(reader, variable)
    for position in late:
        values[position] = read_variable(reader, variables[position])
    return values


def read_variable(reader: FieldReader, variable: Variable) -> BindValue:
    if variable.is_array:
        return [read_value(reader, variable.type) for _ in range(limited(reader.integer(), MOST_BINDS))]
    return read_value(reader, variable.type)


def read_value(reader: FieldReader, kind: OracleType) -> BindValue:
    if kind.is_lob:
        locator = reader.sized()
        return Locator(locator) if locator else None
    if kind.number == types.CURSOR:
        return Cursor(reader.integer()) if reader.counted() == b"\1" else Cursor(0)
    if kind.number in (109, 119, 127):
        raise BadMessage(f"bind variables of type {kind.number} are not implemented")
    data = reader.counted()
    if kind.number == types.BOOLEAN and data is not None and len(data) > 200:
        raise BadMessage("a BOOLEAN of this length")
    try:
        return decode_value(data, kind)
    except (IndexError, ValueError) as error:
        raise BadMessage(f"a value of type {kind.number}: {error}") from error


def read_lob_call(reader: FieldReader) -> LobCall:
    source = reader.byte()
    source_length = reader.integer()
    dest = reader.byte()
    dest_length = reader.integer()
    reader.integer()
    reader.integer()
    has_charset, _short_amount, null_flag = reader.raw(3)
    operation = reader.integer()
    reader.byte()
    change_numbers = limited(reader.integer(), 16)
    offset, kind = reader.integer(), reader.integer()
    has_amount = reader.byte()
    reader.raw(6)
    locator = reader.raw(source_length) if source else b""
    if dest:
        reader.raw(dest_length)
    if has_charset:
        reader.integer()
    for _ in range(change_numbers):
        reader.integer()
    amount = None
    data = b""
    if has_amount:
        amount = reader.integer()
    if operation == LOB_WRITE:
        if reader.byte() != LOB_DATA:
            raise BadMessage("data of a LOB expected")
        data = reader.counted() or b""
    return LobCall(locator, operation, offset, kind, amount, data, bool(has_charset), bool(null_flag))


def read_logon(reader: FieldReader, second: bool, counts_texts: bool) -> LogonCall:
    has_user = reader.byte()
    user_length = reader.integer()
    reader.integer()
    reader.byte()
    count = limited(reader.integer(), 256)
    reader.raw(2)
    user = reader.text(user_length, counts_texts).decode() if has_user else ""
    pairs = {}
    for _ in range(count):
        key, value = reader.sized(), reader.sized()
        reader.integer()
        pairs[key.decode().rstrip("\0")] = value.decode()
    return LogonCall(second, user, pairs)


def skip_piggyback(reader: FieldReader, function: int) -> None:
    if function == SET_SCHEMA:
        reader.byte()
        reader.sized()
    elif function == SESSION_STATE:
        reader.integer()
    elif function == END_TO_END:
        skip_end_to_end(reader)
    else:
        raise BadMessage(f"function {function} is not implemented")


def skip_end_to_end(reader: FieldReader) -> None:
    reader.raw(2)
    reader.integer()
    lengths = []
    for _ in range(3):  # client identifier, module, action
        reader.byte()
        lengths.append(reader.integer())
    reader.byte()
    reader.integer()
    reader.byte()
    reader.integer()
    reader.byte()
    lengths.append(reader.integer())  # client information
    for _ in range(2):
        reader.byte()
        reader.integer()
    reader.byte()
    lengths.append(reader.integer())  # operation
    for length in lengths:
        if length:
            reader.counted()
