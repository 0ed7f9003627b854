"""Requests of clients (MS-TDS 2.2.6): headers, batches, calls of procedures, and transactions.

An RPC message has one or more calls: a name or a number, option flags, and parameters with their own types. Nothing
says where a value ends but its type, so a type that is unknown makes all that follows unreadable.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire import mssql_types as t
from postern.protocols.mssql.wire.mssql_types import MssqlType, read_short_text, require, uint16, uint32
from postern.protocols.mssql.wire.mssql_value_forms import content, value_end
from postern.protocols.mssql.wire.mssql_values import plain

# Numbers of procedures
CURSOR: Final = 1
CURSOR_OPEN: Final = 2
CURSOR_PREPARE: Final = 3
CURSOR_EXECUTE: Final = 4
CURSOR_PREPARE_EXECUTE: Final = 5
CURSOR_UNPREPARE: Final = 6
CURSOR_FETCH: Final = 7
CURSOR_OPTION: Final = 8
CURSOR_CLOSE: Final = 9
EXECUTE_SQL: Final = 10
PREPARE: Final = 11
EXECUTE: Final = 12
PREPARE_EXECUTE: Final = 13
PREPARE_EXECUTE_RPC: Final = 14
UNPREPARE: Final = 15

NAMES: Final = {
    CURSOR: "sp_cursor",
    CURSOR_OPEN: "sp_cursoropen",
    CURSOR_PREPARE: "sp_cursorprepare",
    CURSOR_EXECUTE: "sp_cursorexecute",
    CURSOR_PREPARE_EXECUTE: "sp_cursorprepexec",
    CURSOR_UNPREPARE: "sp_cursorunprepare",
    CURSOR_FETCH: "sp_cursorfetch",
    CURSOR_OPTION: "sp_cursoroption",
    CURSOR_CLOSE: "sp_cursorclose",
    EXECUTE_SQL: "sp_executesql",
    PREPARE: "sp_prepare",
    EXECUTE: "sp_execute",
    PREPARE_EXECUTE: "sp_prepexec",
    PREPARE_EXECUTE_RPC: "sp_prepexecrpc",
    UNPREPARE: "sp_unprepare",
}
NUMBERS: Final = {name: number for number, name in NAMES.items()}

# Option flags of a call
WITH_RECOMPILE: Final = 0x01
NO_METADATA: Final = 0x02
REUSE_METADATA: Final = 0x04
UNDESCRIBED: Final = NO_METADATA | REUSE_METADATA  # the result comes without a description of its columns

# Status of a parameter
BY_REFERENCE: Final = 0x01
DEFAULT_VALUE: Final = 0x02
ENCRYPTED: Final = 0x08

_SEPARATORS: Final = frozenset({0x80, 0xFF, 0xFE})
_BATCH_71: Final = 0x80
MAX_PARAMETERS: Final = 2100  # as many as servers take
MAX_CALLS: Final = 10_000
_TVP_NULL: Final = 0xFFFF

# Requests to the transaction manager
TM_GET_ADDRESS: Final = 0
TM_PROPAGATE: Final = 1
TM_BEGIN: Final = 5
TM_PROMOTE: Final = 6
TM_COMMIT: Final = 7
TM_ROLLBACK: Final = 8
TM_SAVE: Final = 9


class RpcParameter:
    """A parameter of a call. `value` has no lengths, None is NULL; of a table it is all of its bytes. Its type
    begins at `typed_at` in the message, and its value ends at `end`."""

    __slots__ = ("end", "name", "status", "type", "typed_at", "value")

    def __init__(
        self, name: str, status: int, kind: MssqlType, value: bytes | None, typed_at: int = 0, end: int = 0
    ) -> None:
        self.typed_at = typed_at
        self.end = end
        self.name = name
        self.status = status
        self.type = kind
        self.value = value

    @property
    def is_output(self) -> bool:
        return bool(self.status & BY_REFERENCE)


class RpcCall:
    """A call of a procedure. `number` is 0 if it is called by a name that is none of NAMES. Its flags are at `flags_at`
    in the message."""

    __slots__ = ("flags", "flags_at", "name", "number", "parameters")

    def __init__(self, name: str, number: int, flags: int, flags_at: int, parameters: list[RpcParameter]) -> None:
        self.name = name
        self.number = number
        self.flags = flags
        self.flags_at = flags_at
        self.parameters = parameters


def after_headers(payload: bytes, wide: bool) -> int:
    """Return where a request begins, behind its ALL_HEADERS. Clients before TDS 7.2 send none. Raises
    ProtocolViolation."""
    if not wide:
        return 0
    if len(payload) < 4:
        raise ProtocolViolation("a request is shorter than its headers")
    total = int(uint32(payload, 0))
    if total < 4 or total > len(payload):
        raise ProtocolViolation(f"the headers of a request claim to have {total} bytes")
    pos = 4
    while pos < total:
        size = int(uint32(payload, pos)) if total - pos >= 6 else 0
        if size < 6 or size > total - pos:
            raise ProtocolViolation("a header of a request has an impossible length")
        pos += size
    return total


def read_calls(payload: bytes, pos: i64, wide: bool) -> list[RpcCall]:
    """Read the calls of an RPC message, behind its headers. Raises ProtocolViolation if anything in it is unknown."""
    calls: list[RpcCall] = []
    end: i64 = len(payload)
    try:
        while pos < end:
            call, pos = _read_call(payload, pos, end, wide)
            calls.append(call)
            if len(calls) > MAX_CALLS:
                raise ProtocolViolation(f"more than {MAX_CALLS} procedures are called in one message")
    except t.Truncated as error:
        raise ProtocolViolation("a call of a procedure is shorter than its values") from error
    if not calls:
        raise ProtocolViolation("an RPC message calls no procedure")
    return calls


def _read_call(buf: bytes, pos: i64, end: i64, wide: bool) -> tuple[RpcCall, i64]:
    after = require(pos, 2, end)
    size = uint16(buf, pos)
    if size == 0xFFFF:
        pos, after = after, require(after, 2, end)
        number = int(uint16(buf, pos))
        name = NAMES.get(number, "")
        if not name:
            raise ProtocolViolation(f"there is no procedure with the number {number}")
    else:
        stop = require(after, 2 * size, end)
        name = buf[after:stop].decode(t.UTF16, "surrogatepass")
        number = NUMBERS.get(name.lower(), 0)
        after = stop
    at, after = after, require(after, 2, end)
    flags = int(uint16(buf, at))
    parameters: list[RpcParameter] = []
    while after < end:
        if buf[after] in _SEPARATORS:
            code = buf[after]
            if (code == _BATCH_71) == wide and code != 0xFE:
                raise ProtocolViolation(f"calls are separated by {code:#04x}, which this version of TDS does not do")
            return RpcCall(name, number, flags, int(at), parameters), after + 1
        parameter, after = _read_parameter(buf, after, end, wide)
        parameters.append(parameter)
        if len(parameters) > MAX_PARAMETERS:
            raise ProtocolViolation(f"a procedure is called with more than {MAX_PARAMETERS} parameters")
    return RpcCall(name, number, flags, int(at), parameters), after


def _read_parameter(buf: bytes, pos: i64, end: i64, wide: bool) -> tuple[RpcParameter, i64]:
    name, pos = read_short_text(buf, pos, end)
    after = require(pos, 1, end)
    status = buf[pos]
    if status & ENCRYPTED:
        raise ProtocolViolation("a parameter is encrypted, which was not agreed on at login")
    kind, start = t.read_type(buf, after, end, is_parameter=True)
    if kind.form == t.TABLE:
        stop = read_table(buf, start, end)[1]
        return RpcParameter(name, status, kind, buf[start:stop], int(after), int(stop)), stop
    stop = value_end(buf, start, end, kind.form)
    if stop < 0:
        raise t.Truncated(int(-stop))
    return RpcParameter(name, status, kind, content(buf, start, stop, kind.form), int(after), int(stop)), stop


def read_table(buf: bytes, pos: i64, end: i64) -> tuple[list[bytes | None], i64]:
    """Return all cells of a table-valued parameter as texts, row by row, and where it ends. `pos` is behind the name of
    its type. Raises Truncated and ProtocolViolation."""
    kinds: list[MssqlType] = []
    skipped: list[bool] = []
    after = require(pos, 2, end)
    count = uint16(buf, pos)
    if count != _TVP_NULL:
        if count > k.MAX_COLUMNS:
            raise ProtocolViolation(f"a table claims to have {count} columns")
        for _ in range(int(count)):
            start = require(after, 6, end)
            skipped.append(bool(uint16(buf, after + 4) & 0x200))  # the column has its default value
            kind, after = t.read_type(buf, start, end, is_parameter=True)
            if kind.form == t.TABLE:
                raise ProtocolViolation("a table is inside a table")
            kinds.append(kind)
            _, after = read_short_text(buf, after, end)
    after = _skip_table_options(buf, after, end)
    cells: list[bytes | None] = []
    while True:
        pos, after = after, require(after, 1, end)
        if not buf[pos]:
            return cells, after
        if buf[pos] != 1:
            raise ProtocolViolation("a row of a table does not begin as one")
        for at, kind in enumerate(kinds):
            if skipped[at]:
                continue
            stop = value_end(buf, after, end, kind.form)
            if stop < 0:
                raise t.Truncated(int(-stop))
            value = content(buf, after, stop, kind.form)
            cells.append(None if value is None else plain(kind, value))
            after = stop


def encode_bound(payload: bytes, declaration: str, parameters: list[RpcParameter]) -> bytes:
    """Encode values with the text that declares them, as they were in a message. `read_bound` is the opposite."""
    text = declaration.encode(t.UTF16, "surrogatepass")
    parts = [len(text).to_bytes(4, "little"), text]
    for each in parameters:
        parts += [k.encode_short_text(each.name), bytes((each.status,)), payload[each.typed_at : each.end]]
    return b"".join(parts)


def read_bound(data: bytes) -> tuple[str, list[RpcParameter]]:
    """Return the declaration and the values, from the result of `encode_bound`."""
    pos: i64 = 4 + uint32(data, 0)
    declaration = data[4:pos].decode(t.UTF16, "replace")
    end: i64 = len(data)
    parameters: list[RpcParameter] = []
    while pos < end:
        parameter, pos = _read_parameter(data, pos, end, True)
        parameters.append(parameter)
    return declaration, parameters


def _skip_table_options(buf: bytes, pos: i64, end: i64) -> i64:
    """Skip orders of rows and columns, and the token that ends the description. Return where the rows begin."""
    while True:
        after = require(pos, 1, end)
        if buf[pos] == 0x10:  # order and uniqueness: UInt16 count, and three bytes each
            pos, after = after, require(after, 2, end)
            pos = require(after, 3 * uint16(buf, pos), end)
        elif buf[pos] == 0x11:  # order of columns: UInt16 count, and two bytes each
            pos, after = after, require(after, 2, end)
            pos = require(after, 2 * uint16(buf, pos), end)
        elif not buf[pos]:
            return after
        else:
            raise ProtocolViolation(f"a table has an unknown part {buf[pos]:#04x}")
