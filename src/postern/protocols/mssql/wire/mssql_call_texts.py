"""What a call of a procedure runs, as text with values: the statement of a procedure that executes one, else EXEC."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from postern.interception.events import RUN, Phase
from postern.protocols.mssql.wire import mssql_requests as r
from postern.protocols.mssql.wire import mssql_types as t
from postern.protocols.mssql.wire.mssql_output_variables import output_variables
from postern.protocols.mssql.wire.mssql_requests import RpcCall, RpcParameter
from postern.protocols.mssql.wire.mssql_response_queue import (
    CURSOR_HANDLE,
    NO_HANDLE,
    OWN_NUMBER,
    STATEMENT_HANDLE,
    MssqlPendingResponse,
    MssqlResponseQueue,
    Variables,
)
from postern.protocols.mssql.wire.mssql_values import plain

_PART: Final = r"(?:\[(?:[^\]]|\]\])*\]|\"(?:[^\"]|\"\")*\"|[^\s.\[\]\";]*)"
_NAME: Final = re.compile(rf"\s*{_PART}(?:\s*\.\s*{_PART}){{0,3}}\s*(?:;\s*\d*\s*)?")
_SYSTEM: Final = frozenset({"", "sys", "dbo"})  # schemas in which a server looks for its own procedures
_STATEMENT_NAMES: Final = ("stmt", "statement", "sql", "rpccall")

# Position of the statement among the parameters, of the first value behind it, and the roles of output parameters
_STATEMENT_AT: Final = {
    r.EXECUTE_SQL: (0, 2, ()),
    r.PREPARE: (2, 99, (STATEMENT_HANDLE,)),
    r.PREPARE_EXECUTE: (2, 3, (STATEMENT_HANDLE,)),
    r.PREPARE_EXECUTE_RPC: (1, 2, (STATEMENT_HANDLE,)),
    r.CURSOR_OPEN: (1, 6, (CURSOR_HANDLE,)),
    r.CURSOR_PREPARE: (2, 99, (STATEMENT_HANDLE,)),
    r.CURSOR_PREPARE_EXECUTE: (3, 7, (STATEMENT_HANDLE, CURSOR_HANDLE)),
}
# Position of the text that declares the statement's parameters
_DECLARED_AT: Final = {
    r.EXECUTE_SQL: 1,
    r.PREPARE: 1,
    r.PREPARE_EXECUTE: 1,
    r.CURSOR_OPEN: 5,
    r.CURSOR_PREPARE: 1,
    r.CURSOR_PREPARE_EXECUTE: 2,
}
_PREPARES: Final = frozenset({r.PREPARE, r.CURSOR_PREPARE})
_HANDLE_AT: Final = {r.EXECUTE: 1, r.CURSOR_EXECUTE: 5}  # position of the first value; the handle is the first
_CURSOR_UPDATE: Final = 0x01
_CURSOR_DELETE: Final = 0x02
_CURSOR_INSERT: Final = 0x04
# Procedures that only end or configure something of the client's own
HARMLESS: Final = frozenset({r.CURSOR_UNPREPARE, r.CURSOR_OPTION, r.CURSOR_CLOSE, r.UNPREPARE})


class CallReading:
    """What a call runs. `problem` says why it cannot be judged, and `hint` what to do. `variables`: see
    `MssqlPendingResponse`. The values of a statement begin with parameter `first`, which `declaration` declares."""

    __slots__ = ("declaration", "first", "hint", "phase", "problem", "text", "values", "variables")

    def __init__(self, text: str, values: tuple[bytes | None, ...] = (), phase: Phase = RUN) -> None:
        self.text = text
        self.values = values
        self.phase = phase
        self.problem = ""
        self.hint = ""
        self.variables: Variables | None = None
        self.declaration = ""
        self.first = -1


def system_number(name: str) -> int:
    """Return the number of a system procedure that is called by name, however it is spelled; 0 for any other."""
    if _NAME.fullmatch(name) is None:
        return 0
    parts = [_unquote(part) for part in name.split(";")[0].strip().rsplit(".", 3)]
    schema = parts[-2] if len(parts) > 1 else ""
    return r.NUMBERS.get(parts[-1], 0) if schema in _SYSTEM else 0


def _unquote(part: str) -> str:
    part = part.strip()
    if part[:1] == "[" and part[-1:] == "]":
        part = part[1:-1].replace("]]", "]")
    elif len(part) > 1 and part[0] == part[-1] == '"':
        part = part[1:-1].replace('""', '"')
    # Collations can treat wide and narrow letters, and those of both cases, alike.
    return unicodedata.normalize("NFKC", part).strip().lower()


def text_value(parameter: RpcParameter) -> str | None:
    """Return a text parameter; None for NULL and for anything that is no text."""
    if parameter.value is None or not parameter.type.codec:
        return None
    return plain(parameter.type, parameter.value).decode("utf-8", "replace")


def int_value(call: RpcCall, place: int) -> int | None:
    """Return an integer parameter; None if it is NULL, no integer, or missing."""
    if place >= len(call.parameters):
        return None
    parameter = call.parameters[place]
    if parameter.value is None or parameter.type.code not in (t.INTN, t.INT1, t.INT2, t.INT4, t.INT8):
        return None
    return int(plain(parameter.type, parameter.value))


def values_of(parameters: list[RpcParameter]) -> tuple[bytes | None, ...]:
    """Return parameters as texts; the cells of a table are values of their own."""
    values: list[bytes | None] = []
    for parameter in parameters:
        if parameter.value is None:
            values.append(None)
        elif parameter.type.form == t.TABLE:
            values += r.read_table(parameter.value, 0, len(parameter.value))[0]
        else:
            values.append(plain(parameter.type, parameter.value))
    return tuple(values)


def _names_database(name: str) -> bool:
    """Return whether the name of a procedure has a database, in which it runs."""
    return len(name.split(";")[0].split(".")) > 2


def read_call(call: RpcCall, slot: MssqlPendingResponse, queue: MssqlResponseQueue) -> CallReading | None:
    """Return what a call runs, and note in `slot` what its response means; None if it runs nothing."""
    number = call.number or system_number(call.name)
    if number in HARMLESS:
        _end_handle(call, number, slot)
        return None
    if number in r.NAMES and _names_database(call.name):
        reading = _unreadable(call, f"{r.NAMES[number]} is called in a database, so its statement is of that one")
        reading.hint = "Call it by its name alone, after USE of that database."
        return reading
    if number in _STATEMENT_AT:
        reading = _read_statement(call, number, slot)
    elif number in _HANDLE_AT:
        reading = _read_execution(call, number, slot, queue)
    elif number == r.CURSOR_FETCH:
        reading = _read_fetch(call, slot, queue)
    elif number == r.CURSOR:
        reading = _read_cursor(call, slot, queue)
    else:
        reading = CallReading(_call_text(call), values_of(call.parameters))
        slot.outputs += tuple([NO_HANDLE for parameter in call.parameters if parameter.is_output])
    return reading


def _end_handle(call: RpcCall, number: int, slot: MssqlPendingResponse) -> None:
    handle = int_value(call, 0)
    if handle is not None and number != r.CURSOR_OPTION:
        slot.ended_handles.append((CURSOR_HANDLE if number == r.CURSOR_CLOSE else STATEMENT_HANDLE, handle))


def _read_statement(call: RpcCall, number: int, slot: MssqlPendingResponse) -> CallReading:
    place, first, roles = _STATEMENT_AT[number]
    parameters = call.parameters
    text = text_value(parameters[place]) if place < len(parameters) else None
    phase = Phase.PREPARE if number in _PREPARES else RUN
    values = values_of(parameters[first:])
    if text is None:
        return _unreadable(call, f"{r.NAMES[number]} is called without a statement, or not with a text")
    reading = CallReading(text, values, phase)
    if _is_reordered(parameters[:first], place):
        reading.problem = f"the parameters of {r.NAMES[number]} are in another order, so its statement is unknown"
        reading.hint = "Send them in the documented order."
    outputs: list[int] = []
    for at, parameter in enumerate(parameters):
        if parameter.is_output:
            outputs.append(roles[at] if at < len(roles) else OWN_NUMBER if at < first else NO_HANDLE)
    slot.outputs += tuple(outputs)
    slot.text = text
    slot.prepared = phase is Phase.PREPARE
    if number in _DECLARED_AT:
        declared_at = _DECLARED_AT[number]
        slot.declaration = (text_value(parameters[declared_at]) or "") if declared_at < len(parameters) else ""
        in_order = number != r.EXECUTE_SQL
        reading.variables = output_variables(parameters, first, slot.declaration, in_order=in_order)
        reading.declaration, reading.first = slot.declaration, first
    old = int_value(call, 0) if number in (r.PREPARE_EXECUTE, r.CURSOR_PREPARE_EXECUTE) else None
    if old:  # it is replaced
        slot.ended_handles.append((STATEMENT_HANDLE, old))
    return reading


def _is_reordered(parameters: list[RpcParameter], place: int) -> bool:
    """Return True if names of parameters contradict their positions."""
    for at, parameter in enumerate(parameters):
        name = parameter.name.lstrip("@").lower()
        if name and (name in _STATEMENT_NAMES) != (at == place):
            return True
    return False


def _read_execution(call: RpcCall, number: int, slot: MssqlPendingResponse, queue: MssqlResponseQueue) -> CallReading:
    handle = int_value(call, 0)
    statement = None if handle is None else queue.statements.get(handle)
    values = values_of(call.parameters[_HANDLE_AT[number] :])
    if statement is None:
        return _unreadable(call, f"there is no prepared statement with the handle {handle}")
    outputs: list[int] = []
    for at, parameter in enumerate(call.parameters):
        if parameter.is_output:
            outputs.append(_role_of_output(number, at))
    slot.outputs += tuple(outputs)
    slot.text = statement.text
    reading = CallReading(statement.text, values)
    first = _HANDLE_AT[number]
    reading.variables = output_variables(call.parameters, first, statement.declaration, in_order=True)
    reading.declaration, reading.first = statement.declaration, first
    return reading


def _role_of_output(number: int, place: int) -> int:
    """Return what an output parameter of sp_execute or sp_cursorexecute is."""
    if place >= _HANDLE_AT[number]:
        return NO_HANDLE
    return CURSOR_HANDLE if place == 1 else OWN_NUMBER


def _read_fetch(call: RpcCall, slot: MssqlPendingResponse, queue: MssqlResponseQueue) -> CallReading:
    number = int_value(call, 0)
    cursor = None if number is None else queue.cursors.get(number)
    if cursor is None:
        return _unreadable(call, f"there is no cursor with the handle {number}")
    slot.began = cursor.began
    slot.outputs += tuple([OWN_NUMBER for parameter in call.parameters if parameter.is_output])
    return CallReading("")


def _read_cursor(call: RpcCall, slot: MssqlPendingResponse, queue: MssqlResponseQueue) -> CallReading:
    """Read a change at the position of a cursor, as the statement that does the same."""
    reading = _read_fetch(call, slot, queue)
    if reading.problem:
        return reading
    operation = int_value(call, 1)
    if operation is None:
        return _unreadable(call, "sp_cursor is called without an operation")
    if not operation & (_CURSOR_UPDATE | _CURSOR_DELETE | _CURSOR_INSERT):
        return reading
    table = text_value(call.parameters[3]) if len(call.parameters) > 3 else None
    if not table:
        return _unreadable(call, "a change by a cursor does not name its table")
    columns = [quote_name(parameter.name.lstrip("@")) for parameter in call.parameters[4:]]
    values = values_of(call.parameters[4:])
    if operation & _CURSOR_INSERT:
        places = ", ".join([f"@P{at + 1}" for at in range(len(columns))])
        return CallReading(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", values)  # noqa: S608 - judged, not run
    where = f"WHERE CURRENT OF cursor_{int_value(call, 0)}"
    if operation & _CURSOR_DELETE:
        return CallReading(f"DELETE FROM {table} {where}", values)  # noqa: S608 - judged, not run
    sets = ", ".join([f"{column} = @P{at + 1}" for at, column in enumerate(columns)])
    return CallReading(f"UPDATE {table} SET {sets} {where}", values)  # noqa: S608 - judged, not run


def quote_name(name: str) -> str:
    """Return a name in brackets."""
    return "[" + name.replace("]", "]]") + "]"


def _call_text(call: RpcCall) -> str:
    """Return a call as a statement. A name that a server would not read as one is quoted as a whole."""
    name = call.name.strip() if call.name.strip() and _NAME.fullmatch(call.name) else quote_name(call.name)
    words: list[str] = []
    for at, parameter in enumerate(call.parameters):
        place = f"@P{at + 1}"
        word = f"{parameter.name} = {place}" if parameter.name.startswith("@") else place
        words.append(f"{word} OUTPUT" if parameter.is_output else word)
    return f"EXEC {name} {', '.join(words)}".rstrip()


def _unreadable(call: RpcCall, problem: str) -> CallReading:
    reading = CallReading(_call_text(call), values_of(call.parameters))
    reading.problem = problem
    reading.hint = "Prepare the statement first, and wait for the response."
    return reading
